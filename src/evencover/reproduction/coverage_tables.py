"""The paper's two tables: coverage of the toy model by thirds of the estimated variance.

*As run* is what stands behind the printed tables: features on [0, 10], variance 0.1 mean(x), the authors' seeds. It
gives every printed digit. *As written* is the printed equation: features on [0, 100], variance 0.01 mean(x)².
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evencover._internal.arrays import FloatArray
from evencover.predictions import Prediction
from evencover.reproduction.simulation import Design, Tally, check_repeats, simulated, tally
from evencover.scores import Normalized, Residual, Score
from evencover.synthetic.data import Sample, SyntheticData, toy
from evencover.synthetic.misspecification import QuadraticVariance, misspecified

COLUMNS = ("marginal", "low", "medium", "high")
WHY_THEY_DIFFER = (
    "They differ because the printed equation has another noise: the variance goes up to 100 where what was run stays "
    "between 0 and 1, around the 0.5 at which the misspecified model has its minimum and mixes the groups up."
)

_CALIBRATION_SEED = 15
_TEST_SEEDS = (
    *(574594, 900164, 33991, 205532, 65012, 389774, 169373, 769356, 724626, 559168),
    *(781740, 199310, 84367, 514742, 570831, 245193, 724009, 801124, 583112, 724682),
)
_DESIGN = Design(n_calibration=5000, n_test=1000)
_REPEATED = Design(n_calibration=5000, n_test=20_000)  # one calibration set with all of its test rows
_SCORES: Mapping[str, Score] = {"residual": Residual(), "normalised": Normalized()}


@dataclass(frozen=True, eq=False)
class Row:
    """One row of a table: coverage and mean width, over all rows and by group.

    Parameters
    ----------
    model : str
        "oracle" or "misspecified".
    score : str
        "residual" or "normalised".
    coverage, deviation, width : ndarray of shape (4,)
        Mean and standard deviation (of the population) over the repeats, and mean width: marginal, low, medium, high.
    """

    model: str
    score: str
    coverage: FloatArray
    deviation: FloatArray
    width: FloatArray

    def as_data(self) -> dict[str, Any]:
        """Return plain values, unrounded."""
        cells = {
            name: {"coverage": float(mean), "deviation": float(deviation), "mean_width": float(width)}
            for name, mean, deviation, width in zip(COLUMNS, self.coverage, self.deviation, self.width, strict=True)
        }
        return {"model": self.model, "score": self.score, **cells}


def as_run() -> list[Row]:
    """Return the paper's tables, from the authors' world and seeds."""
    return _with_the_papers_seeds(toy())


def as_written() -> list[Row]:
    """Return the tables of the printed equation, with the same seeds."""
    return _with_the_papers_seeds(toy(as_written=True))


def repeated(repeats: int, *, seed: int = 0, as_written: bool = False) -> list[Row]:
    """Return the tables over many calibration sets, each with 20 000 test rows of its own.

    The paper's tables have one calibration set; here its luck averages out.

    Parameters
    ----------
    repeats : int
        Number of calibration sets.
    seed : int
        Seed of the draws.
    as_written : bool
        Whether the world is the printed equation's.
    """
    check_repeats(repeats)

    def tallies(sample: Sample, _: np.random.Generator) -> dict[tuple[str, str], Tally]:
        return _tallies(sample.y, sample.oracle(), _REPEATED)

    counted = simulated(toy(as_written=as_written), tallies, design=_REPEATED, repeats=repeats, seed=seed)
    return [_row(*name, groups) for name, groups in counted.items()]


def papers_calibration(world: SyntheticData) -> Sample:
    """Return the calibration set drawn with the authors' seed."""
    return world.sample(_DESIGN.n_calibration, seed=np.random.RandomState(_CALIBRATION_SEED))


def _with_the_papers_seeds(world: SyntheticData) -> list[Row]:
    """Return the tables of one calibration set and twenty test sets."""
    calibration = papers_calibration(world)
    tests = [world.sample(_DESIGN.n_test, seed=np.random.RandomState(seed)) for seed in _TEST_SEEDS]
    samples = [each for test in tests for each in (calibration, test)]
    y, mean, spread = (np.concatenate([getattr(each, part) for each in samples]) for part in ("y", "mean", "spread"))
    counted = _tallies(y, Prediction(mean, spread), _DESIGN)
    return [_row(*name, groups) for name, groups in counted.items()]


def _tallies(y: FloatArray, oracle: Prediction, design: Design) -> dict[tuple[str, str], Tally]:
    """Return what each model and score covers, by group."""
    models = {"oracle": oracle, "misspecified": misspecified(oracle, QuadraticVariance())}
    return {
        (model, score): tally(_SCORES[score], y, said, design=design)
        for model, said in models.items()
        for score in _SCORES
    }


def _row(model: str, score: str, groups: Tally) -> Row:
    """Return one row of a table: the marginal numbers before those of the groups."""
    coverage = np.hstack([groups.marginal.coverage_by_repeat, groups.coverage_by_repeat])  # (repeats, 4)
    widths = np.hstack([groups.marginal.widths, groups.widths])
    return Row(model, score, coverage.mean(axis=0), coverage.std(axis=0), widths.mean(axis=0))
