"""The paper's claims on synthetic data, each as a check that can fail.

*Even* means that in every group the number of covered test rows is consistent with its exact distribution under even
coverage (`CoverageCounts.z`). *Uneven* means that some group's number is not.

All checks use one limit: 5.5 standard errors or, for a distribution that is not normal, the same probability. For a
hundred groups with even coverage, one exceeds the limit with a probability of a few in a million (a few in 100 000 for
fewer than about fifty repeats, whose counts are skewed). A claim *fails* if something that should be even or equal is
not. It is *not shown* if something that should be uneven is consistent with even coverage. More repeats make both
checks sharper.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TypeAlias

import numpy as np
from scipy.stats import binomtest, norm, t

from evencover.inputs.arrays import FloatArray
from evencover.predictions import Prediction
from evencover.reproduction.simulation import (
    NOISE_ON_SPREAD,
    SCORES,
    TYPES,
    VARIANTS,
    CoverageCounts,
    Design,
    SharedLatentState,
    check_repeats,
    count_coverage,
    coverages,
    fixed_edge,
    latent_state_counts,
    pooled_coverage,
    seed_of,
    simulate_counts,
)
from evencover.scores import Residual
from evencover.synthetic import Sample, two_modes, two_subgroups, unit_square

Scenarios: TypeAlias = Mapping[tuple[str, str], Mapping[tuple[str, str], CoverageCounts]]

REPEATS = 400
LIMIT = 5.5  # standard errors
_LIMIT_P_VALUE = 2 * float(norm.sf(LIMIT))  # the two-sided p-value of the limit
_REPEATS_FACTOR = 50  # more repeats for the claims with at most one test row per group and repeat


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the result of its check.

    Parameters
    ----------
    number : int
        Number of the claim, 1 to 8.
    statement : str
        The claim.
    verdict : str
        "holds"; "fails" if a part of it is refuted; "not shown" if the repeats are too few to show a part of it.
    evidence : str
        The main numbers.
    figure : str or None
        Name of the figure that shows the claim.
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
    """Check the eight claims and yield them, each over `repeats` draws of 1000 calibration and 1000 test rows.

    Parameters
    ----------
    repeats : int
        Number of repeats. With few repeats, small differences in coverage (Type 4) are not significant.
    seed : int
        Seed of the draws. The same seed gives the same numbers.
    progress : callable, optional
        Called with a text before each simulation.
    """
    check_repeats(repeats)
    report_progress = progress or (lambda _: None)
    scenarios = {}
    for (kind, make), (variant, misspecifications) in product(TYPES.items(), VARIANTS.items()):
        report_progress(f"drawing {kind} {variant}")
        draws = seed_of(seed, kind, variant)
        scenarios[kind, variant] = coverages(make(), misspecifications, repeats=repeats, seed=draws)
    for check in (_oracle_claim, _noisy_spread_claim, _scaled_spread_claim, _shifted_mean_claim):
        yield check(scenarios)
    simulations = (_two_modes_claim, _running_example_claim, _two_subgroups_claim, _latent_state_claim)
    for number, simulate_claim in enumerate(simulations, start=5):
        report_progress(f"drawing for claim {number}")
        yield simulate_claim(repeats, seed)


def _oracle_claim(scenarios: Scenarios) -> Claim:
    normalised, residual = (_column(scenarios, "oracle", score) for score in ("normalised", "residual"))
    return Claim(
        1,
        "Types 1 to 3, oracle: the normalised score is even, the residual score is uneven.",
        _verdict(even=normalised.values(), uneven=residual.values()),
        f"normalised: |z| up to {_largest_z(normalised.values()):.1f}; residual: {_column_text(residual)}",
        "coverage_types_1_to_3",
        _coverage_lists(normalised=normalised, residual=residual),
    )


def _noisy_spread_claim(scenarios: Scenarios) -> Claim:
    by_size = [_column(scenarios, name, "normalised") for name in NOISE_ON_SPREAD]
    small, medium, large = by_size
    worse = [_gap_grows(small[key], medium[key]) for key in small]
    # If the noise on the variance is larger than the variance itself, more noise changes little.
    saturated = [_gaps_within_factor_2(medium[key], large[key]) for key in large if key[0] != "Type 3"]
    gaps = (", ".join(f"{_coverage_gap(column[key]):.3f}" for column in by_size) for key in small if key[1] == "as run")
    return Claim(
        2,
        "σ-shifted: the coverage gap of the normalised score grows from noise 0.01 to 0.1. The score is uneven at 0.1 "
        "and 1. Its gap saturates: from 0.1 to 1 it changes by at most a factor of 2 (Types 1 and 2, whose variance is "
        "about 0.1).",
        _verdict(uneven=(*medium.values(), *large.values()), demonstrated=worse, holds=saturated),
        f"coverage gap at 0.01, 0.1, 1: {'; '.join(gaps)}",
        "coverage_types_1_to_3",
        _coverage_lists(**dict(zip(NOISE_ON_SPREAD, by_size, strict=True))),
    )


def _scaled_spread_claim(scenarios: Scenarios) -> Claim:
    scaled = {score: _column(scenarios, "σ²-scaled 5", score) for score in SCORES}
    same = [
        np.array_equal(scaled[score][key].covered, _column(scenarios, "oracle", score)[key].covered)
        for score in ("residual", "normalised")
        for key in scaled[score]
    ]
    return Claim(
        3,
        "σ²-scaled: the normalised and residual scores cover the same rows as without scaling; the interval "
        "score becomes uneven.",
        _verdict(uneven=scaled["interval"].values(), holds=same),
        f"counts changed in {same.count(False)} of {len(same)} tables; interval: {_column_text(scaled['interval'])}",
        "coverage_types_1_to_3",
        _coverage_lists(**scaled),
    )


def _shifted_mean_claim(scenarios: Scenarios) -> Claim:
    constant = {score: _column(scenarios, "μ-shifted 1", score) for score in SCORES}
    by_spread = _column(scenarios, "μ-shifted σ", "normalised")
    return Claim(
        4,
        "μ-shifted by a constant: all three scores are uneven. By a multiple of σ: the normalised score stays even.",
        _verdict(even=by_spread.values(), uneven=[each for column in constant.values() for each in column.values()]),
        f"constant, normalised: {_column_text(constant['normalised'])}; "
        f"σ: |z| up to {_largest_z(by_spread.values()):.1f}",
        "coverage_types_1_to_3",
        _coverage_lists(by_spread=by_spread, **constant),
    )


def _two_modes_claim(repeats: int, seed: int) -> Claim:
    scenarios: dict[tuple[str, str], dict[tuple[str, str], CoverageCounts]] = {}
    for variant in VARIANTS:
        draws = seed_of(seed, "Type 4", variant)
        counts = partial(coverages, misspecifications={"oracle": ()}, repeats=repeats, seed=draws)
        paper, mixture = (two_modes(mixture=flag, as_written=variant == "as written") for flag in (False, True))
        scenarios["paper's oracle", variant] = counts(paper, oracle=mixture)
        scenarios["true moments", variant] = counts(paper)
        scenarios["mixture", variant] = counts(mixture)
    columns = {score: _column(scenarios, "oracle", score) for score in SCORES}
    normalised = columns["normalised"]
    uneven = [each for column in columns.values() for (name, _), each in column.items() if name != "true moments"]
    return Claim(
        5,
        "Type 4: no score is even with the paper's oracle, and none is even for a mixture. With the true mean and "
        "variance, the normalised score is even.",
        _verdict(even=[each for (name, _), each in normalised.items() if name == "true moments"], uneven=uneven),
        "normalised: "
        + "; ".join(f"{name} {_coverage_text(each)}" for (name, v), each in normalised.items() if v == "as run"),
        "coverage_type_4",
        _coverage_lists(**columns),
    )


def _running_example_claim(repeats: int, seed: int) -> Claim:
    def counts(name: str, xi: float, error: Callable[[FloatArray], FloatArray]) -> CoverageCounts:
        def count(sample: Sample) -> CoverageCounts:
            x2 = sample.X[:, 1]
            prediction = Prediction(sample.mean + error(x2))
            return count_coverage(Residual(), sample.y, prediction, design=Design(), by=x2, edges=fixed_edge(xi))

        draws = seed_of(seed, "unit square", name)  # a changed name changes the draws
        return simulate_counts(unit_square(), count, design=Design(), repeats=repeats, seed=draws)

    even = {
        name: counts(name, 0.5, error)
        for name, error in (("ξ = 0.5", np.zeros_like), ("ξ = 0.5, mean off by x₂ − 0.5", lambda x2: x2 - 0.5))
    }
    uneven = {
        name: counts(name, xi, error)
        for name, xi, error in (("ξ = 0.2", 0.2, np.zeros_like), ("ξ = 0.5, mean off by x₂", 0.5, lambda x2: x2))
    }
    found = even | uneven
    return Claim(
        6,
        "Unit square, split at x₂ = ξ: the residual score, although not pivotal, is even at ξ = 0.5, also with the "
        "mean off by x₂ − 0.5. It is uneven at ξ = 0.2, and with the mean off by x₂.",
        _verdict(even=even.values(), uneven=uneven.values()),
        "; ".join(f"{name}: {_coverage_text(each)}" for name, each in found.items()),
        None,
        {name: each.coverage.tolist() for name, each in found.items()},
    )


def _two_subgroups_claim(repeats: int, seed: int) -> Claim:
    data, design = two_subgroups(), Design(n_calibration=20, n_test=2, level=0.8)  # one test row of each subgroup

    def count(sample: Sample) -> CoverageCounts:
        subgroup, edges = sample.X[:, 1], fixed_edge(0.5)
        return count_coverage(Residual(), sample.y, sample.oracle(), design=design, by=subgroup, edges=edges)

    draws = seed_of(seed, "two subgroups")
    found = simulate_counts(data, count, design=design, repeats=_REPEATS_FACTOR * repeats, seed=draws)
    quiet, noisy = (float(spread) for spread in data.distribution.spread(np.array([[0.0, 0.0], [0.0, 1.0]])))
    exact = [pooled_coverage(each, (quiet, noisy), rows_per_subgroup=10, rank=design.rank) for each in (quiet, noisy)]
    return Claim(
        7,
        "Two subgroups of 10 rows, noise 0.1 and 0.5, one residual threshold at level 0.8: coverage is far above the "
        "level in the quiet subgroup and far below it in the noisy one, as the exact integrals show.",
        _verdict(
            holds=_consistent_with(found, exact), demonstrated=~np.array(_consistent_with(found, [design.level] * 2))
        ),
        f"simulated {_coverage_text(found)}, exact {' / '.join(f'{each:.3f}' for each in exact)}",
        "two_subgroups",
        {"found": found.coverage.tolist(), "exact": exact},
    )


def _latent_state_claim(repeats: int, seed: int) -> Claim:
    source, design = SharedLatentState(), Design(n_test=1)
    draws = seed_of(seed, "shared secret")  # a changed name changes the draws
    found = latent_state_counts(source, design=design, repeats=_REPEATS_FACTOR * repeats, seed=draws)
    exact = [source.coverage(group, design) for group in (0, 1)]
    big = [source.big_given_group(group) for group in (0, 1)]
    return Claim(
        8,
        "Independence of score and group in each row is not enough: coverage is uneven for rows that share a latent "
        "state.",
        _verdict(
            holds=[big[0] == big[1], *_consistent_with(found, exact)],
            demonstrated=~np.array(_consistent_with(found, [design.level] * 2)),
        ),
        f"P(big score) {big[0]} and {big[1]}; simulated {_coverage_text(found)}, exact "
        + " / ".join(f"{each:.3f}" for each in exact),
        None,
        {"found": found.coverage.tolist(), "exact": exact},
    )


def _column(scenarios: Scenarios, misspecification: str, score: str) -> dict[tuple[str, str], CoverageCounts]:
    """Return the counts of one score under one misspecification, by type and variant."""
    return {key: found[misspecification, score] for key, found in scenarios.items()}


def _verdict(
    *,
    even: Iterable[CoverageCounts] = (),
    uneven: Iterable[CoverageCounts] = (),
    holds: Iterable[bool] = (),
    demonstrated: Iterable[bool] = (),
) -> str:
    """Return the verdict on a claim.

    If `even` or `holds` is not met, the claim fails. If `uneven` or `demonstrated` is not met, it is "not shown".
    """
    if not all(map(_even, even)) or not all(holds):
        return "fails"
    return "not shown" if any(map(_even, uneven)) or not all(demonstrated) else "holds"


def _even(found: CoverageCounts) -> bool:
    """Return whether the counts of all groups are consistent with their exact distribution under even coverage."""
    return bool(np.abs(found.z).max() <= LIMIT)


def _consistent_with(found: CoverageCounts, coverages: Iterable[float]) -> list[bool]:
    """Return for each group whether its count is consistent with a coverage, by the exact binomial test.

    The count is binomial if a repeat has at most one test row of a group, because repeats are independent.
    """
    counts = zip(found.covered.sum(axis=0), found.sizes.sum(axis=0), coverages, strict=True)
    return [not n or binomtest(int(k), int(n), p).pvalue > _LIMIT_P_VALUE for k, n, p in counts]


def _coverage_gap(found: CoverageCounts) -> float:
    """Return the largest distance of a group's coverage from the level."""
    return float(np.abs(found.coverage - found.design.level).max())


def _gap_grows(one: CoverageCounts, other: CoverageCounts) -> bool:
    """Return whether the gap in the worst group of `other` is significantly larger than in the same group of `one`."""
    gaps = [np.abs(each.coverage - each.design.level) for each in (one, other)]
    worst = gaps[1].argmax()
    return bool((gaps[1] - gaps[0])[worst] > _limit(one) * np.hypot(one.standard_error, other.standard_error)[worst])


def _gaps_within_factor_2(one: CoverageCounts, other: CoverageCounts) -> bool:
    """Return whether neither coverage gap is significantly more than twice the other."""
    errors = [each.standard_error[np.abs(each.coverage - each.design.level).argmax()] for each in (one, other)]
    margin = _limit(one) * np.hypot(2 * errors[0], 2 * errors[1])
    gap, other_gap = _coverage_gap(one), _coverage_gap(other)
    return bool(max(gap - 2 * other_gap, other_gap - 2 * gap) <= margin)


def _limit(found: CoverageCounts) -> float:
    """Return the limit for standard errors estimated from the repeats: a quantile of Student's t."""
    return float(t.isf(_LIMIT_P_VALUE / 2, len(found.sizes) - 1))


def _largest_z(column: Iterable[CoverageCounts]) -> float:
    return max(float(np.abs(found.z).max()) for found in column)


def _coverage_text(found: CoverageCounts) -> str:
    """Return the coverage in each group as text."""
    return " / ".join(f"{share:.3f}" for share in found.coverage)


def _column_text(column: Mapping[tuple[str, str], CoverageCounts]) -> str:
    """Return the coverage for each type, as run, as text."""
    return "; ".join(_coverage_text(found) for (_, variant), found in column.items() if variant == "as run")


def _coverage_lists(**columns: Mapping[tuple[str, str], CoverageCounts]) -> dict[str, list[float]]:
    """Return the coverages of several columns by name."""
    return {
        f"{name} {' '.join(key)}": found.coverage.tolist()
        for name, each in columns.items()
        for key, found in each.items()
    }
