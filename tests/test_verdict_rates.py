"""Error rates of the diagnostics on the toy model."""

from scipy.stats import binom

from evencover.diagnostics import one_threshold, score_tests
from evencover.reproduction.verdict_rates import SCENARIOS, TESTS, rejections, true_coverage, verdict_shares
from tests.synthetic import ONE_IN_A_MILLION


def test_even_coverage_is_rejected_in_at_most_5_percent_of_the_repeats(monkeypatch):
    """The tests are valid with any number of draws, so that few are enough here.

    A test that rejects 20 % is found with probability 0.9998 (binomial); the guarantees are tested more closely.
    """
    monkeypatch.setattr(one_threshold, "N_DRAWS", 999)
    monkeypatch.setattr(score_tests, "_MIN_RESAMPLES", 500)
    found = rejections(100, repeats=300)
    assert list(found) == list(TESTS)
    limit = binom.isf(ONE_IN_A_MILLION, 300, 0.05) / 300
    assert all(rate <= limit for rate in found.values())
    assert any(found.values())


def test_true_coverages_are_those_of_the_papers_tables():
    """Up to the random error of the paper's calibration set."""
    papers = {
        "residual, oracle": (0.951, 0.904, 0.856),
        "normalised, oracle": (0.9, 0.9, 0.9),
        "residual, misspecified": (0.9, 0.9, 0.9),
        "normalised, misspecified": (0.886, 0.897, 0.931),
    }
    for name, expected in papers.items():
        found = true_coverage(name)
        assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 0.01


def test_power_grows_with_rows_and_with_misspecification():
    few, many = (verdict_shares("residual, oracle", rows, repeats=40)["uneven"] for rows in (100, 2000))
    assert few < 0.7 < many
    names = [f"normalised, noise {noise} in the variance" for noise in (0.05, 0.1, 0.2)]
    shares = [verdict_shares(name, 1000, repeats=40)["uneven"] for name in names]
    assert shares == sorted(shares)
    assert shares[0] < 0.3 < shares[2]
    assert set(names) <= set(SCENARIOS)


def test_the_same_seed_gives_the_same_numbers():
    assert rejections(20, repeats=5, seed=1) == rejections(20, repeats=5, seed=1)
    assert verdict_shares("residual, oracle", 200, repeats=9, seed=1) == verdict_shares(
        "residual, oracle", 200, repeats=9, seed=1
    )
