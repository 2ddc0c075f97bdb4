"""What users pass: arrays, tables of any library, dates in columns, functions that follow a long computation."""

from collections.abc import Callable
from typing import Any, Self, TypeAlias

Progress: TypeAlias = Callable[[int, int], None]  # gets the number of finished steps, and of all steps
AmountProgress: TypeAlias = Callable[[float, float | None], None]  # gets what is done, and all there is, if it is known


class Finished(int):
    """A number of finished steps of different sizes, and the share of all work that they are.

    Parameters
    ----------
    number : int
        The number.
    share : float
        The share of the work, between 0 and 1.
    """

    share: float

    def __new__(cls, number: int, share: float) -> Self:
        """Return the number with its share."""
        finished = super().__new__(cls, number)
        finished.share = share
        return finished

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make a copy, also in another process."""
        return Finished, (int(self), self.share)


StageProgress: TypeAlias = Callable[
    [str], None
]  # gets the step that begins or goes on, as text; often a `display.lines.Step`
