"""Studies of a table: split, fit, select score and groups, calibrate, diagnose, audit."""

from evencover.studies.plan import MODELS, Plan
from evencover.studies.table_study import Study, study

__all__ = ["MODELS", "Plan", "Study", "study"]
