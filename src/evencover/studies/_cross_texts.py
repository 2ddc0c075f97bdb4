"""What a cross-fitted study says in addition: its weaker guarantee, and the law of its tests."""

from math import floor

from evencover.guarantees import NO_BOUND, Guarantee
from evencover.quantiles import level_fraction


def law_text(*, clusters: bool) -> str:
    """Return which models tested the rows, and by which law the tests were made."""
    tested, without, units = "Every row", "it", "rows"
    if clusters:
        tested, without, units = "One row of each cluster", "any row of its cluster", "clusters"
    return (
        f"{tested} was tested once, by models that were fitted and calibrated without {without}. They had fewer "
        f"{units} than the model for new rows, so their intervals can be wider, above all in tables of fewer than 50 "
        f"{units}. The tests use the binomial law, as if the tests of different rows were independent. This is an "
        f"approximation, because the models share most of their {units}."
    )


def guarantee_sentence(guarantee: Guarantee, level: float) -> str:
    """Return what is guaranteed at a level, and what is usual, for readers who know no statistics."""
    usual = f"usually it is close to {100 * level:g} %"
    new = "For rows of new clusters" if guarantee.for_new_clusters else "For new rows"
    known = " For rows of known clusters, nothing is guaranteed." * guarantee.for_new_clusters
    if guarantee.lower_bound == NO_BOUND:
        return f"{new}, no share is guaranteed, because the groups depend on predictions; {usual}."
    bound = guarantee.lower_bound(level)
    percent, where = floor(100 * bound), " in every group" * (len(guarantee.sizes) > 1)
    if not percent:
        return f"{new}, nothing is guaranteed at so low a level; {usual}."
    if bound == 1:
        return f"{new}, the intervals are infinite{where}, so that no target is missed."
    if bound >= level_fraction(level):  # few rows: the next narrower interval would miss too often
        return f"{new}, at least {percent} % is guaranteed{where}.{known}"
    return f"{new}, at least {percent} % is guaranteed{where}; {usual}.{known}"


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
