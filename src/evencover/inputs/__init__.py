"""What users pass: arrays, tables of any library, dates in columns, functions that follow a long computation."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]  # gets the number of finished steps, and of all steps
AmountProgress: TypeAlias = Callable[[float, float | None], None]  # gets what is done, and all there is, if it is known
StageProgress: TypeAlias = Callable[[str], None]  # gets the stage that begins, as text
