"""The reproduction of the paper: tables digit by digit, claims as checks that can fail, exact coverages."""

from fractions import Fraction
from itertools import islice, product

import numpy as np
import pytest
from scipy import stats

from evencover import Normalized, Prediction, Residual, calibrate, coverage, mean_width
from evencover.reproduction import claims as claims_module
from evencover.reproduction import coverage_tables, simulation
from evencover.reproduction.claims import claims
from evencover.reproduction.paper_figures import figures
from evencover.reproduction.simulation import (
    SCORES,
    VARIANTS,
    CoverageCounts,
    Design,
    SharedLatentState,
    blocks_of,
    count_coverage,
    coverages,
    fixed_edge,
    latent_state_counts,
    pooled_coverage,
    seed_of,
    simulate_counts,
)
from evencover.synthetic import NoisyVariance, constant_mean, homoskedastic, low_dimensional, misspecified, toy
from tests.synthetic import ONE_IN_A_MILLION

PRINTED = """
oracle       residual   0.905 0.008 0.951 0.010 0.904 0.017 0.856 0.018
oracle       normalised 0.902 0.008 0.905 0.018 0.902 0.015 0.898 0.017
misspecified residual   0.905 0.008 0.905 0.017 0.905 0.014 0.905 0.012
misspecified normalised 0.905 0.008 0.886 0.017 0.897 0.014 0.931 0.008
"""
WIDTHS = """
oracle       residual   2.359 2.359 2.359 2.359
oracle       normalised 2.318 1.980 2.347 2.652
misspecified residual   2.359 2.359 2.359 2.359
misspecified normalised 2.390 2.230 2.308 2.614
"""
HAND = Design(n_calibration=300, n_test=200)


def row_text(row, *columns):
    return " ".join(
        [row.model, row.score, *(f"{value:.3f}" for values in zip(*columns, strict=True) for value in values)]
    )


def lines(text):
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def test_as_run_all_32_printed_numbers_are_equal():
    assert [row_text(row, row.coverage, row.deviation) for row in coverage_tables.as_run()] == lines(PRINTED)


def test_as_run_the_mean_widths_agree_with_those_of_the_authors_code():
    assert [row_text(row, row.width) for row in coverage_tables.as_run()] == lines(WIDTHS)


def test_as_written_the_residual_score_is_more_uneven_than_printed():
    residual, normalised = coverage_tables.as_written()[:2]
    assert [f"{share:.3f}" for share in residual.coverage[1:]] == ["0.978", "0.917", "0.826"]
    assert (
        row_text(normalised, normalised.coverage, normalised.deviation) == lines(PRINTED)[1]
    )  # pivotal: the noise has no influence


def test_the_vectorised_tables_agree_with_calibrate():
    """For one calibration set and one test set."""
    calibration = coverage_tables.paper_calibration(toy())
    test = toy().sample(1000, seed=np.random.RandomState(574594))
    y = np.concatenate([calibration.y, test.y])
    oracle = toy().oracle(np.concatenate([calibration.X, test.X]))
    for score in (Residual(), Normalized()):
        by_hand = calibrate(calibration.y, calibration.oracle(), nonconformity=score).interval(test.oracle(), level=0.9)
        found = count_coverage(score, y, oracle, design=Design(5000, 1000)).marginal
        assert found.coverage_by_repeat[0, 0] == coverage(test.y, by_hand)
        assert found.widths[0, 0] == pytest.approx(mean_width(by_hand), rel=1e-12)


def test_repeated_tables_have_the_exact_marginal_coverage():
    """It is k / (n + 1) = 4501 / 5001 for every score; within five standard errors."""
    for row in coverage_tables.repeated(60, seed=1):
        assert abs(row.coverage[0] - 4501 / 5001) < 5 * row.deviation[0] / np.sqrt(60)


def test_groups_and_counts_agree_with_a_direct_computation():
    sample = low_dimensional().sample(2 * HAND.n_rows, seed=5)
    found = count_coverage(Residual(), sample.y, sample.oracle(), design=HAND)
    for repeat, start in enumerate((0, HAND.n_rows)):
        old, new = slice(start, start + 300), slice(start + 300, start + 500)
        scores = np.abs(sample.y - sample.mean)
        threshold = np.sort(scores[old])[270]  # the 271st: ceil(0.9 * 301)
        edges = np.quantile(sample.spread[old] ** 2, [1 / 3, 2 / 3])
        codes = np.searchsorted(edges, sample.spread[new] ** 2)
        for code in range(3):
            rows = scores[new][codes == code]
            assert found.sizes[repeat, code] == len(rows)
            assert found.covered[repeat, code] == (rows <= threshold).sum()
            assert found.widths[repeat, code] == pytest.approx(2 * threshold)


def counts_of(data, score, design, repeats, seed, **how):
    def count(sample):
        return count_coverage(score, sample.y, sample.oracle(), design=design, **how)

    return simulate_counts(data, count, design=design, repeats=repeats, seed=seed)


def test_counts_of_a_pivotal_score_follow_their_exact_distribution():
    """In each group BetaBinomial(m, k, n + 1 - k): the randomised probabilities of the counts are uniform."""
    design = Design(n_calibration=99, n_test=60)
    found = counts_of(low_dimensional(), Normalized(), design, 2000, 3)
    rng = np.random.default_rng(0)
    for code in range(3):
        exact = stats.betabinom(found.sizes[:, code], design.rank, 100 - design.rank)
        covered = found.covered[:, code]
        p = exact.cdf(covered) - rng.random(len(covered)) * exact.pmf(covered)
        assert stats.kstest(p, "uniform").pvalue > ONE_IN_A_MILLION


def test_z_has_variance_1_if_the_score_is_pivotal_and_not_if_it_is_not():
    """Binomial errors, which ignore the threshold's, would make the variance about 10: found with certainty."""
    design = Design(n_calibration=60, n_test=600)  # so few that the threshold varies more than the counts
    for score, even in ((Normalized(), True), (Residual(), False)):
        z = [counts_of(constant_mean(), score, design, 40, seed).z for seed in range(50)]
        squares = np.square(z).sum(axis=0)  # chi-squared with as many degrees of freedom as seeds, in each group
        tails = np.minimum(stats.chi2.sf(squares, len(z)), stats.chi2.cdf(squares, len(z)))
        assert bool(tails.min() > ONE_IN_A_MILLION) is even


def test_the_standard_error_is_that_of_the_coverage():
    """(coverage - true) / error is Student's t with 49 degrees of freedom; the test compares its mean square.

    Binomial errors, which ignore the threshold's, would make it 2.5: found with probability 0.997 (normal).
    """
    design = Design(n_calibration=199, n_test=300)
    found = [counts_of(constant_mean(), Normalized(), design, 50, seed) for seed in range(150)]
    squares = np.square([(each.coverage - design.rank / 200) / each.standard_error for each in found])
    mean, fourth = 49 / 47, 3 * 49**2 / (47 * 45)
    assert (np.abs(squares.mean(axis=0) - mean) < 5 * np.sqrt((fourth - mean**2) / len(found))).all()


def test_repeats_do_not_depend_on_how_many_follow():
    few, many = (counts_of(toy(), Residual(), HAND, repeats, 0) for repeats in (70, 130))
    np.testing.assert_array_equal(few.covered, many.covered[:70])
    assert (len(few.covered), len(many.covered)) == (70, 130)
    assert [size for size, _ in blocks_of(130, 0)] == [50, 50, 50]


def test_seeds_depend_on_names():
    assert seed_of(0, "Type 1", "as run") == seed_of(0, "Type 1", "as run")
    assert len({seed_of(seed, name) for seed in (0, 1) for name in ("Type 1", "Type 2")}) == 4


def test_scenarios_with_different_names_have_different_draws(checked):
    """So that their results are independent."""
    normalised = [tuple(shares) for name, shares in checked[0].found.items() if name.startswith("normalised")]
    assert len(set(normalised)) == len(normalised) == 6


def test_a_fixed_edge_makes_two_groups():
    found = counts_of(toy(), Residual(), HAND, 3, 0, edges=fixed_edge(0.5))
    assert found.sizes.shape == (3, 2)
    assert (found.sizes.sum(axis=1) == 200).all()


def test_the_misspecifications_are_those_of_the_figures_columns():
    """For an oracle of mean 0 and standard deviation 10, as run and as written."""
    oracle = Prediction(np.zeros(100_000), np.full(100_000, 10.0))
    for variant, columns in VARIANTS.items():
        wrong = {name: misspecified(oracle, *column, seed=0) for name, column in columns.items()}
        assert (wrong["oracle"].center == 0).all()
        assert (wrong["oracle"].spread == 10).all()
        for size in (0.01, 0.1, 1.0):
            noisy = wrong[f"σ-shifted {size:g}"].spread ** (2 if variant == "as run" else 1)
            assert noisy.std() == pytest.approx(size, rel=0.02)
            assert noisy.mean() == pytest.approx(100 if variant == "as run" else 10, abs=0.02)
        np.testing.assert_allclose(wrong["σ²-scaled 5"].spread ** 2, 500)
        assert (wrong["μ-shifted 1"].center == 1).all()
        by_spread = wrong["μ-shifted σ"].center
        assert by_spread.mean() == pytest.approx(10 if variant == "as run" else 0, abs=0.02)
        assert by_spread.std() == pytest.approx(0 if variant == "as run" else 1, rel=0.02)


def test_all_misspecifications_use_the_same_rows():
    found = coverages(constant_mean(), VARIANTS["as run"], repeats=5, seed=0, design=HAND)
    assert set(found) == set(product(VARIANTS["as run"], SCORES))
    np.testing.assert_array_equal(found["oracle", "residual"].covered, found["σ²-scaled 5", "residual"].covered)


@pytest.fixture(scope="module")
def checked():
    """A repeat of claims 7 and 8 has few test rows, so these claims need more repeats than the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claims_module, "_REPEATS_FACTOR", 2 * claims_module._REPEATS_FACTOR)
        return list(claims(repeats=100, seed=1))


def test_all_eight_claims_hold(checked):
    assert [claim.number for claim in checked] == list(range(1, 9))
    assert [(claim.number, claim.verdict) for claim in checked] == [(number, "holds") for number in range(1, 9)]


def test_a_claim_is_one_line_with_its_evidence(checked):
    assert {claim.figure for claim in checked} - {None} <= set(figures())
    for claim in checked:
        assert "\n" not in str(claim)
        assert claim.found
        assert all(0 <= share <= 1 for shares in claim.found.values() for share in shares)
    assert str(checked[0]).startswith("1  HOLDS      Types 1 to 3, oracle")


def test_the_numbers_of_the_claims_agree_with_independent_code(checked):
    """Another implementation with more repeats, within the sampling error of 100 repeats: a standard error is 0.002.

    An even coverage of Type 4, 0.9 instead of 0.916, is found with probability 0.999 (normal).
    """
    known = {
        4: ("normalised Type 1 as run", (0.70, 1.00, 1.00)),
        5: ("normalised paper's oracle as run", (0.916, 0.898, 0.888)),
        7: ("exact", (0.998, 0.64)),
        8: ("exact", (0.872, 0.929)),
    }
    for number, (name, shares) in known.items():
        np.testing.assert_allclose(checked[number - 1].found[name], shares, atol=0.008)


def few_claims(patch, repeats, **how):
    """Yield the claims of so few repeats that they are drawn as one block, without rows to spare."""
    patch.setattr(simulation, "_BLOCK", repeats)
    return claims(repeats=repeats, seed=0, **how)


@pytest.fixture(scope="module")
def few_repeats():
    """The verdicts by number, and the messages of their progress."""
    messages = []
    with pytest.MonkeyPatch.context() as patch:
        found = {claim.number: claim.verdict for claim in few_claims(patch, 5, progress=messages.append)}
    return found, messages


def test_progress_is_reported_as_text(few_repeats):
    _, messages = few_repeats
    assert messages[0] == "drawing Type 1 as run"
    assert messages[-1] == "drawing for claim 8"


def test_few_repeats_show_fewer_claims_but_refute_none(few_repeats):
    verdicts, _ = few_repeats
    assert "fails" not in verdicts.values()
    assert verdicts[5] == "not shown"


class ByVariance:
    """The residual divided by the variance instead of the standard deviation."""

    def __call__(self, y, prediction):
        return np.abs(y - prediction.center) / prediction.spread**2

    def interval(self, threshold, prediction):
        return Residual().interval(threshold * prediction.spread**2, prediction)


@pytest.fixture(scope="module")
def broken():
    """The numbers of the claims that fail after three mistakes, each of which concerns other claims."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "SCORES", {**SCORES, "normalised": ByVariance()})
        patch.setattr(
            claims_module, "pooled_coverage", lambda *arguments, **more: 0.02 + pooled_coverage(*arguments, **more) / 2
        )
        dependent = SharedLatentState(group_1=SharedLatentState().group_1[::-1])
        patch.setattr(claims_module, "SharedLatentState", lambda: dependent)
        return {claim.number for claim in few_claims(patch, 30) if claim.verdict == "fails"}


def test_a_broken_normalised_score_makes_the_claims_fail(broken):
    assert broken - {7, 8} == {1, 4, 5}


def test_a_broken_residual_score_makes_a_claim_fail(monkeypatch):
    """A scaled spread must not change the counts of the residual score."""
    monkeypatch.setattr(simulation, "SCORES", {**SCORES, "residual": Normalized(epsilon=0.1, scale=1.0)})
    first_three = islice(few_claims(monkeypatch, 10), 3)
    assert [claim.verdict for claim in first_three][-1] == "fails"


def test_rows_whose_scores_depend_on_their_group_make_claim_8_fail(broken):
    assert 8 in broken


def test_a_wrong_integral_makes_claim_7_fail(broken):
    assert 7 in broken


# Exact coverages.


def test_pooled_coverage_of_equal_subgroups_is_the_conformal_coverage():
    for rank in (1, 5, 8):
        assert pooled_coverage(2.0, (2.0, 2.0), rows_per_subgroup=4, rank=rank) == pytest.approx(rank / 9)


def test_pooled_coverage_lies_on_both_sides_of_the_level():
    quiet, noisy = (pooled_coverage(each, (0.1, 0.5), rows_per_subgroup=10, rank=17) for each in (0.1, 0.5))
    assert noisy < 17 / 21 < quiet


def test_pooled_coverage_with_a_much_quieter_subgroup():
    """A noisy row is covered only if its residual is as small as the quiet ones: with probability about 10⁻⁵."""
    assert pooled_coverage(100.0, (1e-3, 100.0), rows_per_subgroup=10, rank=8) == pytest.approx(9.2e-6, rel=0.05)


@pytest.mark.parametrize("spread", [0.1, 0.5])
def test_pooled_coverage_agrees_with_a_simulation(spread):
    rng = np.random.default_rng(0)
    scores = np.abs(rng.normal(size=(200_000, 6))) * np.repeat([0.1, 0.5], 3)
    covered = np.abs(rng.normal(size=200_000)) * spread <= np.sort(scores, axis=1)[:, 3]
    exact = pooled_coverage(spread, (0.1, 0.5), rows_per_subgroup=3, rank=4)
    assert abs(covered.mean() - exact) < 5 * np.sqrt(exact * (1 - exact) / 200_000)


def test_with_a_shared_latent_state_the_score_of_a_row_is_independent_of_its_group():
    source = SharedLatentState()
    scores, groups = source.sample(60_000, 1, np.random.default_rng(0))
    by_group = [scores[groups == group] for group in (0, 1)]
    assert source.big_given_group(0) == source.big_given_group(1)
    assert stats.ks_2samp(*by_group).pvalue > ONE_IN_A_MILLION


@pytest.mark.parametrize("design", [Design(19, 50), Design(300, 100)], ids=["19 rows", "300 rows"])
def test_exact_coverage_with_a_shared_latent_state_agrees_with_a_simulation(design):
    source = SharedLatentState()
    found = latent_state_counts(source, design=design, repeats=8000, seed=0)
    exact = [source.coverage(group, design) for group in (0, 1)]
    assert (np.abs(found.coverage - exact) < 5 * found.standard_error).all()


def test_independence_must_hold_given_the_calibration_rows():
    """The new group is independent of the calibration rows and of the new score, but the coverage is uneven."""
    fifth, none, often = Fraction(1, 5), Fraction(0), Fraction(9, 10)
    source = SharedLatentState(group_1=(often, often), big=((none, fifth), (fifth, none)))
    assert source.big_given_group(0) == source.big_given_group(1) == Fraction(1, 10)
    found = latent_state_counts(source, design=Design(), repeats=1000, seed=0)
    exact = np.array([source.coverage(group, Design()) for group in (0, 1)])
    assert (np.abs(found.coverage - exact) < 5 * found.standard_error).all()
    assert exact[0] < 0.88
    assert exact[1] > 0.9


def test_a_threshold_per_group_is_even_with_a_shared_latent_state():
    """Mondrian: the rows of one group are exchangeable."""
    scores, groups = SharedLatentState().sample(4000, 240, np.random.default_rng(1))
    excess, n_tests = 0.0, 0
    for repeat in range(4000):
        mine = scores[repeat][groups[repeat] == groups[repeat, -1]]
        n = len(mine) - 1
        rank = int(np.ceil(0.9 * (n + 1) - 1e-9))
        if rank <= n:
            excess += (mine[-1] <= np.sort(mine[:-1])[rank - 1]) - rank / (n + 1)
            n_tests += 1
    assert abs(excess) < 5 * np.sqrt(0.1 * 0.9 * n_tests)


def test_counts_are_concatenated():
    one = CoverageCounts(np.array([[9, 8]]), np.array([[10, 10]]), np.array([[1.0, 2.0]]), HAND)
    both = CoverageCounts.concatenate([one, one, one], 2)
    assert both.covered.shape == (2, 2)
    np.testing.assert_allclose(both.coverage, [0.9, 0.8])
    assert both.marginal.coverage_by_repeat[0, 0] == 0.85
    assert both.marginal.widths[0, 0] == 1.5


def test_a_group_without_rows_has_coverage_nan_and_z_0():
    found = counts_of(toy(), Residual(), HAND, 2, 0, edges=fixed_edge(-1.0))
    assert np.isnan(found.coverage_by_repeat[:, 0]).all()
    assert np.isnan(found.widths[:, 0]).all()
    np.testing.assert_array_equal(found.marginal.sizes, [[200], [200]])
    assert found.z[0] == 0


def test_the_homoskedastic_control_is_even_with_every_score():
    found = coverages(homoskedastic(), {"oracle": ()}, repeats=50, seed=0)
    assert all(np.abs(each.z).max() < 5 for each in found.values())


def test_noise_on_the_variance_reaches_the_groups():
    """In random groups the residual score becomes even, because of contamination."""
    found = coverages(constant_mean(), {"noise": (NoisyVariance(50.0),)}, repeats=50, seed=0)
    assert np.abs(found["noise", "residual"].z).max() < 5
