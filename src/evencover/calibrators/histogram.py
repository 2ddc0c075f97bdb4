"""The calibrator with one threshold for each group, found from histograms of the scores."""

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator

from evencover._internal.score_histograms import DEFAULT_BITS
from evencover.calibrators.by_group import CalibratedGroups
from evencover.histogram_calibration import HistogramCalibration, calibrate_histograms
from evencover.rows import Rows
from evencover.scores.score import Nonconformity
from evencover.taxonomies import Marginal, Taxonomy, fresh_taxonomy


class HistogramByGroup(BaseEstimator):  # type: ignore[misc]
    """One threshold for each group of a taxonomy, from histograms of the scores: `ByGroup` for data of any size.

    What it learns does not grow with the calibration rows, and results for parts of the rows merge by adding counts.
    Thresholds are rounded up, to numbers with `bits` binary digits after the leading one: they are at most a factor of
    1 + 2**-bits larger than those of `ByGroup`, and never smaller. So the guarantee of `ByGroup` holds: if calibration
    rows and new rows are exchangeable, then in every group an interval covers a new row with probability at least the
    level. See `HistogramCalibration`.

    Parameters
    ----------
    taxonomy : taxonomy, optional
        `Marginal()` by default: one threshold for all rows.
    bits : int
        The binary digits after the leading one, 0 to 52. With 10, thresholds are at most 0.1 % too large; with 52, they
        are exact.

    Examples
    --------
    >>> from evencover import Prediction, Residual
    >>> rows = Rows(Prediction([0.0] * 4), y=[1.0, 2.0, 4.001, 8.0])
    >>> HistogramByGroup(bits=2).learn(rows, Residual()).calibration.threshold(0.5)
    array([5.])
    """

    def __init__(self, taxonomy: Taxonomy | None = None, *, bits: int = DEFAULT_BITS) -> None:
        self.taxonomy = taxonomy
        self.bits = bits

    def learn(self, rows: Rows, nonconformity: Nonconformity) -> CalibratedGroups:
        """Learn the groups from the calibration rows and return them with the histograms of their scores."""
        taxonomy = Marginal() if self.taxonomy is None else fresh_taxonomy(self.taxonomy)
        calibration = calibrate_histograms(rows, nonconformity, taxonomy.learn(rows), bits=self.bits)
        return CalibratedGroups(taxonomy, calibration)

    def restore(self, state: Mapping[str, Any], nonconformity: Nonconformity) -> CalibratedGroups:
        """Return the calibrated groups from what their `state` returned."""
        return CalibratedGroups(state["taxonomy"], HistogramCalibration.from_state(state, nonconformity))
