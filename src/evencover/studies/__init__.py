"""The main job on a table: split, fit, choose, calibrate, diagnose, evaluate."""

from evencover.studies.plan import MODELS, Plan
from evencover.studies.table_study import Study, study

__all__ = ["MODELS", "Plan", "Study", "study"]
