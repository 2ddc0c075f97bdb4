"""What to write to extend the package: the protocols, and functions that help to follow them."""

from evencover.calibration.protocols import Calibrated, Calibrator
from evencover.models.spread import SpreadSource
from evencover.scores import Score, scores_of, threshold_intervals
from evencover.taxonomies import Taxonomy

__all__ = ["Calibrated", "Calibrator", "Score", "SpreadSource", "Taxonomy", "scores_of", "threshold_intervals"]
