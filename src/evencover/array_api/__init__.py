"""Calibration of arrays of torch, CuPy, JAX and numpy where they are, such as on a GPU."""

from evencover.array_api.array_calibration import ArrayCalibration, calibrate
from evencover.array_api.array_scores import groups_by_edges, scores
from evencover.array_api.array_thresholds import thresholds

__all__ = ["ArrayCalibration", "calibrate", "groups_by_edges", "scores", "thresholds"]
