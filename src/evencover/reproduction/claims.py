"""The paper's claims on synthetic data, each as a check that can fail.

*Even* means: in every group, the number of test rows covered is within what its exact law allows (`Tally.z`).
*Uneven* means: in some group it is beyond. Everything is held to one limit, 5.5 standard errors or, where a law is
not normal, as improbable; among a hundred groups chance exceeds it a few times in a million (with fewer than about
fifty repeats, whose counts are skewed, a few times in 100 000). So a claim can fail (what should be even or equal is
not), or not be shown (what should be uneven could be chance). More repeats make both checks sharper.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np
from scipy.stats import binomtest, norm, t

from evencover._internal.arrays import FloatArray
from evencover.predictions import Prediction
from evencover.reproduction.exact_coverages import SharedLatentState, latent_state_tally, pooled_coverage
from evencover.reproduction.scenarios import SCORES, SHIFTED, TYPES, VARIANTS, coverages
from evencover.reproduction.simulation import (
    Design,
    Tally,
    check_repeats,
    cut_at,
    seed_of,
    simulated_tally,
    tally,
)
from evencover.scores import Residual
from evencover.synthetic.data import Sample, two_modes, two_subgroups, unit_square

Scenarios: TypeAlias = Mapping[tuple[str, str], Mapping[tuple[str, str], Tally]]

REPEATS = 400
LIMIT = 5.5  # standard errors
_CHANCE = 2 * float(norm.sf(LIMIT))  # the probability of as much or more
_MORE = 50  # times as many repeats where a repeat tests one row of a group


@dataclass(frozen=True)
class Claim:
    """A claim, and whether it held.

    Parameters
    ----------
    number : int
        Which of the eight.
    statement : str
        What is claimed.
    verdict : str
        "holds"; "fails" if a part of it is refuted; "not shown" if a part of it could be chance.
    evidence : str
        What was found, in short.
    figure : str or None
        The figure that shows it.
    found : mapping of str to list of float
        Coverage in each group, by scenario.
    """

    number: int
    statement: str
    verdict: str
    evidence: str
    figure: str | None = None
    found: Mapping[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.number}  {self.verdict.upper():9}  {self.statement}  [{self.evidence}]"


def claims(
    *, repeats: int = REPEATS, seed: int = 0, progress: Callable[[str], object] | None = None
) -> Iterator[Claim]:
    """Yield the eight claims, each checked over `repeats` draws of 1000 calibration and 1000 test rows.

    Parameters
    ----------
    repeats : int
        How many. With few, small deviations (Type 4) cannot be told from chance.
    seed : int
        Seed of the draws; the same one gives the same numbers.
    progress : callable, optional
        Told in words what is drawn next.
    """
    check_repeats(repeats)
    tell = progress or (lambda _: None)
    scenarios = {}
    for (kind, make), (variant, changes) in product(TYPES.items(), VARIANTS.items()):
        tell(f"drawing {kind} {variant}")
        draws = seed_of(seed, kind, variant)
        scenarios[kind, variant] = coverages(make(), changes, repeats=repeats, seed=draws)
    for check in (_oracle, _noise_on_the_spread, _scaled_spread, _shifted_mean):
        yield check(scenarios)
    for number, draw in enumerate((_two_modes, _running_example, _two_subgroups, _shared_secret), start=5):
        tell(f"drawing for claim {number}")
        yield draw(repeats, seed)


def _oracle(scenarios: Scenarios) -> Claim:
    normalised, residual = (_column(scenarios, "oracle", score) for score in ("normalised", "residual"))
    return Claim(
        1,
        "Types 1 to 3, oracle: the normalised score is even, the residual score is not.",
        _verdict(even=normalised.values(), uneven=residual.values()),
        f"normalised: |z| up to {_largest_z(normalised.values()):.1f}; residual: {_words(residual)}",
        "coverage_types_1_to_3",
        _found(normalised=normalised, residual=residual),
    )


def _noise_on_the_spread(scenarios: Scenarios) -> Claim:
    by_size = [_column(scenarios, name, "normalised") for name in SHIFTED]
    small, medium, large = by_size
    worse = [_gap_grows(small[key], medium[key]) for key in small]
    # Where the noise on the variance exceeds the variance itself, more of it changes little.
    saturated = [_within_a_factor_of_2(medium[key], large[key]) for key in large if key[0] != "Type 3"]
    gaps = (", ".join(f"{_gap(column[key]):.3f}" for column in by_size) for key in small if key[1] == "as run")
    return Claim(
        2,
        "σ-shifted: the normalised score gets worse from 0.01 to 0.1, is uneven at 0.1 and 1, and saturates: at 1 "
        "the worst group is as far off as at 0.1, within a factor of 2 (Types 1 and 2, whose variance is about 0.1).",
        _verdict(uneven=(*medium.values(), *large.values()), shown=worse, true=saturated),
        f"worst group off, at 0.01, 0.1, 1: {'; '.join(gaps)}",
        "coverage_types_1_to_3",
        _found(**dict(zip(SHIFTED, by_size, strict=True))),
    )


def _scaled_spread(scenarios: Scenarios) -> Claim:
    scaled = {score: _column(scenarios, "σ²-scaled 5", score) for score in SCORES}
    same = [
        np.array_equal(scaled[score][key].covered, _column(scenarios, "oracle", score)[key].covered)
        for score in ("residual", "normalised")
        for key in scaled[score]
    ]
    return Claim(
        3,
        "σ²-scaled: the normalised and residual scores cover exactly what they did; the interval score becomes uneven.",
        _verdict(uneven=scaled["interval"].values(), true=same),
        f"counts changed in {same.count(False)} of {len(same)} tables; interval: {_words(scaled['interval'])}",
        "coverage_types_1_to_3",
        _found(**scaled),
    )


def _shifted_mean(scenarios: Scenarios) -> Claim:
    constant = {score: _column(scenarios, "μ-shifted 1", score) for score in SCORES}
    by_spread = _column(scenarios, "μ-shifted σ", "normalised")
    return Claim(
        4,
        "μ-shifted by a constant: all three scores are uneven. By a multiple of σ: the normalised score stays even.",
        _verdict(even=by_spread.values(), uneven=[each for column in constant.values() for each in column.values()]),
        f"constant, normalised: {_words(constant['normalised'])}; σ: |z| up to {_largest_z(by_spread.values()):.1f}",
        "coverage_types_1_to_3",
        _found(by_spread=by_spread, **constant),
    )


def _two_modes(repeats: int, seed: int) -> Claim:
    shown: dict[tuple[str, str], dict[tuple[str, str], Tally]] = {}
    for variant in VARIANTS:
        covered = partial(coverages, changes={"oracle": ()}, repeats=repeats, seed=seed_of(seed, "Type 4", variant))
        decided, coin = (two_modes(coin=coin, as_written=variant == "as written") for coin in (False, True))
        shown["paper's oracle", variant] = covered(decided, oracle=coin)
        shown["true moments", variant] = covered(decided)
        shown["mode by a coin", variant] = covered(coin)
    columns = {score: _column(shown, "oracle", score) for score in SCORES}
    normalised = columns["normalised"]
    uneven = [each for column in columns.values() for (name, _), each in column.items() if name != "true moments"]
    return Claim(
        5,
        "Type 4: no score is even for the paper's oracle, nor in a real mixture; with the true mean and variance the "
        "normalised score is.",
        _verdict(even=[each for (name, _), each in normalised.items() if name == "true moments"], uneven=uneven),
        "normalised: "
        + "; ".join(f"{name} {_in_words(each)}" for (name, v), each in normalised.items() if v == "as run"),
        "coverage_type_4",
        _found(**columns),
    )


def _running_example(repeats: int, seed: int) -> Claim:
    def groups(name: str, xi: float, error: Callable[[FloatArray], FloatArray]) -> Tally:
        def tallied(sample: Sample) -> Tally:
            x2 = sample.X[:, 1]
            said = Prediction(sample.mean + error(x2))
            return tally(Residual(), sample.y, said, design=Design(), by=x2, edges=cut_at(xi))

        draws = seed_of(seed, "unit square", name)
        return simulated_tally(unit_square(), tallied, design=Design(), repeats=repeats, seed=draws)

    even = {
        name: groups(name, 0.5, error)
        for name, error in (("ξ = 0.5", np.zeros_like), ("ξ = 0.5, mean off by x₂ − 0.5", lambda x2: x2 - 0.5))
    }
    uneven = {
        name: groups(name, xi, error)
        for name, xi, error in (("ξ = 0.2", 0.2, np.zeros_like), ("ξ = 0.5, mean off by x₂", 0.5, lambda x2: x2))
    }
    found = even | uneven
    return Claim(
        6,
        "Unit square: the residual score, not pivotal, is even at ξ = 0.5, also with the mean off antisymmetrically; "
        "it is not at ξ = 0.2, nor with the mean off by x₂.",
        _verdict(even=even.values(), uneven=uneven.values()),
        "; ".join(f"{name}: {_in_words(each)}" for name, each in found.items()),
        None,
        {name: _list(each) for name, each in found.items()},
    )


def _two_subgroups(repeats: int, seed: int) -> Claim:
    world, design = two_subgroups(), Design(n_calibration=20, n_test=2, level=0.8)  # one test row of each subgroup

    def tallied(sample: Sample) -> Tally:
        return tally(Residual(), sample.y, sample.oracle(), design=design, by=sample.X[:, 1], edges=cut_at(0.5))

    draws = seed_of(seed, "two subgroups")
    found = simulated_tally(world, tallied, design=design, repeats=_MORE * repeats, seed=draws)
    quiet, noisy = (float(spread) for spread in world.law.spread(np.array([[0.0, 0.0], [0.0, 1.0]])))
    exact = [pooled_coverage(each, (quiet, noisy), each=10, rank=design.rank) for each in (quiet, noisy)]
    return Claim(
        7,
        "Two subgroups of 10, noise 0.1 and 0.5, one residual threshold at level 0.8: the quiet one is covered far "
        "more often, the noisy one far less, as the exact integrals say.",
        _verdict(true=_could_be(found, exact), shown=~np.array(_could_be(found, [design.level] * 2))),
        f"found {_in_words(found)}, exactly {' / '.join(f'{each:.3f}' for each in exact)}",
        "two_subgroups",
        {"found": _list(found), "exact": exact},
    )


def _shared_secret(repeats: int, seed: int) -> Claim:
    world, design = SharedLatentState(), Design(n_test=1)
    found = latent_state_tally(world, design=design, repeats=_MORE * repeats, seed=seed_of(seed, "shared secret"))
    exact = [world.coverage(group, design) for group in (0, 1)]
    independent = world.big_given_group(0) == world.big_given_group(1)
    return Claim(
        8,
        "Independence of score and group, row by row, is not enough: rows that share a secret are covered unevenly.",
        _verdict(true=[independent, *_could_be(found, exact)], shown=~np.array(_could_be(found, [design.level] * 2))),
        f"P(big score) {world.big_given_group(0)} and {world.big_given_group(1)}; found {_in_words(found)}, exactly "
        + " / ".join(f"{each:.3f}" for each in exact),
        None,
        {"found": _list(found), "exact": exact},
    )


def _column(scenarios: Scenarios, change: str, score: str) -> dict[tuple[str, str], Tally]:
    """Return one score under one change, by type and variant."""
    return {key: found[change, score] for key, found in scenarios.items()}


def _verdict(
    *,
    even: Iterable[Tally] = (),
    uneven: Iterable[Tally] = (),
    true: Iterable[bool] = (),
    shown: Iterable[bool] = (),
) -> str:
    """Return the verdict on what must be even or true, which can be refuted, and what must be shown beyond chance."""
    if not all(map(_even, even)) or not all(true):
        return "fails"
    return "not shown" if any(map(_even, uneven)) or not all(shown) else "holds"


def _even(found: Tally) -> bool:
    """Return whether what was covered is within what the exact law allows, in every group."""
    return bool(np.abs(found.z).max() <= LIMIT)


def _could_be(found: Tally, coverages: Iterable[float]) -> list[bool]:
    """Return whether each group's count could come from a coverage; a repeat tests one row of a group at most.

    Then rows of a group are independent over the repeats, and the count is binomial.
    """
    counts = zip(found.covered.sum(axis=0), found.sizes.sum(axis=0), coverages, strict=True)
    return [not n or binomtest(int(k), int(n), p).pvalue > _CHANCE for k, n, p in counts]


def _gap(found: Tally) -> float:
    """Return how far the worst group is from the level."""
    return float(np.abs(found.coverage - found.design.level).max())


def _gap_grows(one: Tally, other: Tally) -> bool:
    """Return whether the other's worst group is further off than the same group of the one, beyond chance."""
    gaps = [np.abs(each.coverage - each.design.level) for each in (one, other)]
    worst = gaps[1].argmax()
    return bool((gaps[1] - gaps[0])[worst] > _limit(one) * np.hypot(one.error, other.error)[worst])


def _within_a_factor_of_2(one: Tally, other: Tally) -> bool:
    """Return whether neither worst group is more than twice as far off as the other's, but for chance."""
    errors = [each.error[np.abs(each.coverage - each.design.level).argmax()] for each in (one, other)]
    room = _limit(one) * np.hypot(2 * errors[0], 2 * errors[1])
    return bool(max(_gap(one) - 2 * _gap(other), _gap(other) - 2 * _gap(one)) <= room)


def _limit(found: Tally) -> float:
    """Return the limit in standard errors that were estimated from the repeats."""
    return float(t.isf(_CHANCE / 2, len(found.sizes) - 1))


def _largest_z(column: Iterable[Tally]) -> float:
    return max(float(np.abs(found.z).max()) for found in column)


def _in_words(found: Tally) -> str:
    return " / ".join(f"{share:.3f}" for share in found.coverage)


def _list(found: Tally) -> list[float]:
    return [float(share) for share in found.coverage]


def _words(column: Mapping[tuple[str, str], Tally]) -> str:
    """Return the coverage in each type, as run."""
    return "; ".join(_in_words(found) for (_, variant), found in column.items() if variant == "as run")


def _found(**columns: Mapping[tuple[str, str], Tally]) -> dict[str, list[float]]:
    """Return the coverages of some columns as plain lists."""
    return {f"{name} {' '.join(key)}": _list(found) for name, each in columns.items() for key, found in each.items()}
