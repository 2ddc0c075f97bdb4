"""Studies of a table: split, fit, select score and groups, calibrate, diagnose, audit."""

from evencover.studies.large_study import study_in_batches
from evencover.studies.messages import TableError, TableWarning
from evencover.studies.plan import MODELS, Plan
from evencover.studies.study_result import Study
from evencover.studies.table_study import study

__all__ = ["MODELS", "Plan", "Study", "TableError", "TableWarning", "study", "study_in_batches"]
