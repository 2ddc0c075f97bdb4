"""Studies of a table: split, fit, select score and groups, calibrate, diagnose, audit."""

from evencover.studies.main_job import study
from evencover.studies.messages import TableError, TableWarning
from evencover.studies.plan import MODELS, Plan
from evencover.studies.study_result import Study

__all__ = ["MODELS", "Plan", "Study", "TableError", "TableWarning", "study"]
