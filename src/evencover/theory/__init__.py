"""Families of distributions of the target, and tests whether a score is pivotal for them."""

from evencover.theory.families import (
    EXPONENTIAL,
    LAPLACE,
    NORMAL,
    TRIANGULAR,
    UNIFORM,
    Distribution,
    Family,
    LocationScale,
)
from evencover.theory.pivotality import Pivotality, is_pivotal
from evencover.theory.symbolic import SymbolicFamily, pivotality_condition, standardization_system

__all__ = [
    "EXPONENTIAL",
    "LAPLACE",
    "NORMAL",
    "TRIANGULAR",
    "UNIFORM",
    "Distribution",
    "Family",
    "LocationScale",
    "Pivotality",
    "SymbolicFamily",
    "is_pivotal",
    "pivotality_condition",
    "standardization_system",
]
