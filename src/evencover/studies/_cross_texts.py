"""What a cross-fitted study says in addition: its weaker guarantee, and the law of its tests."""

from math import floor

from evencover.guarantees import NO_BOUND, Guarantee
from evencover.quantiles import level_fraction

LAW = (
    "Every row was tested once, by models that were fitted and calibrated without it. They had fewer rows than the "
    "model for new rows, so their intervals can be wider, above all in tables of fewer than 50 rows. The tests use the "
    "binomial law, as if the tests of different rows were independent. This is an approximation, because the models "
    "share most of their rows."
)


def guarantee_sentence(guarantee: Guarantee, level: float) -> str:
    """Return what is guaranteed at a level, and what is usual, for readers who know no statistics."""
    usual = f"usually it is close to {100 * level:g} %"
    if guarantee.lower_bound == NO_BOUND:
        return f"For new rows, no share is guaranteed, because the groups depend on predictions; {usual}."
    bound = guarantee.lower_bound(level)
    percent, where = floor(100 * bound), " in every group" * (len(guarantee.sizes) > 1)
    if not percent:
        return f"For new rows, nothing is guaranteed at so low a level; {usual}."
    if bound == 1:
        return f"For new rows, the intervals are infinite{where}, so that no target is missed."
    if bound >= level_fraction(level):  # few rows: the next narrower interval would miss too often
        return f"For new rows, at least {percent} % is guaranteed{where}."
    return f"For new rows, at least {percent} % is guaranteed{where}; {usual}."


def rows_text(n_rows: int, n_tested: int, n_calibration: int, clusters: str | None) -> str:
    """Return how many rows there are, and what they were used for."""
    if clusters is not None:
        uses = (
            "to calibrate and to test" if n_calibration == n_tested else f"to test, and {n_calibration} to calibrate,"
        )
        return f"{n_rows} rows to train; {n_tested} of them, one of each {clusters}, also {uses} in turn"
    if n_calibration < n_rows:
        return f"{n_rows} rows, each used to train and to test in turn, and {n_calibration} of them to calibrate"
    return f"{n_rows} rows, each used to train, to calibrate and to test in turn"
