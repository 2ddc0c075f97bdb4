"""Golden outputs: what the package answers, recorded before a redesign and compared bit for bit after it.

    python -m tests.golden record build/golden.npz      with the code as it is
    python -m tests.golden compare build/golden.npz     with the code as it became
    python -m tests.golden compare --reworded FILE      the same, where sentences were rewritten: of results, all
                                                        values but sentences; of other texts, the numbers

The answers are intervals, unions, p-values, thresholds, guarantees, verdicts, advice and reports: for every score with
every taxonomy, with weights, ties, several levels and unseen groups, on six kinds of synthetic data and, if
EVENCOVER_DATA names their folder, on the paper's six data sets. Only public names are used, so that the script runs on
both sides of a redesign. Last bits depend on the machine and on the versions of numpy and scikit-learn: compare
on one machine.
"""

import json
import os
import re
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeCV
from threadpoolctl import threadpool_limits

from evencover import (
    ByFeature,
    ByFunction,
    ByPrediction,
    BySpread,
    ByTarget,
    ConformalRegressor,
    IntervalDistance,
    Marginal,
    Normalized,
    Product,
    Residual,
    Standardized,
    audit,
    calibrate,
    diagnose,
    recommend,
)
from evencover.datasets import load_dataset
from evencover.models import WithSpread, predictions_of
from evencover.studies import Plan, study
from evencover.synthetic import (
    constant_mean,
    functional_dependence,
    homoskedastic,
    low_dimensional,
    two_modes,
    two_subgroups,
)
from tests.report_pages import report_page, result_data

SYNTHETIC = {
    "homoskedastic": homoskedastic,
    "constant_mean": constant_mean,
    "functional_dependence": functional_dependence,
    "low_dimensional": low_dimensional,
    "two_modes": two_modes,
    "two_subgroups": two_subgroups,
}
REAL = ("concrete", "crime2", "puma32H", "residential", "star", "turbine")
LEVELS = (0.5, 0.8, 0.9, 0.99)
ROWS = 600

Answers = Iterator[tuple[str, np.ndarray]]


@dataclass(frozen=True)
class Sign:
    """The sign of the first feature, less its median, in words; unlike a function's, its repr is always the same."""

    def __call__(self, X):
        return np.where(np.asarray(X)[:, 0] > 0, "plus", "minus")


SCORES = {
    "residual": Residual(),
    "interval": IntervalDistance(),
    "normalized": Normalized(),
    "stabilised": Normalized(epsilon=0.3, floor=0.5, scale=1.0),
    "standardized": Standardized(),
}
TAXONOMIES = {
    "marginal": Marginal(),
    "spread": BySpread(3),
    "spread_edges": BySpread(edges=[0.7, 1.3]),
    "spread_min_rows": BySpread(7, min_rows=40),
    "prediction": ByPrediction(4),
    "feature_bins": ByFeature(0, edges=[-0.5, 0.5]),
    "feature": ByFeature(1, categories=[0.0, 1.0, 2.0]),
    "function": ByFunction(Sign()),
    "target": ByTarget([-0.5, 0.5]),
    "product": Product([BySpread(3), ByFunction(Sign())]),
    "product_target": Product([ByTarget([0.0]), ByPrediction(2), BySpread(2)]),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows in units of their own: a model's frozen prediction is learned from the first third."""

    name: str
    X: np.ndarray
    y: np.ndarray

    @property
    def thirds(self) -> list[slice]:
        """Training, calibration and test rows."""
        third = len(self.y) // 3
        return [slice(0, third), slice(third, 2 * third), slice(2 * third, 3 * third)]

    def model(self) -> FrozenEstimator:
        """Return a linear model with a spread, fitted on the training rows."""
        training = self.thirds[0]
        fitted = WithSpread(RidgeCV(np.logspace(-3, 3, 7)), random_state=0).fit(self.X[training], self.y[training])
        return FrozenEstimator(fitted)


def main(action: str, path: Path, *, reworded: bool) -> None:
    """Record the answers, or compare them with those recorded."""
    with threadpool_limits(1):  # more threads add up in another order
        found = dict(answers())
    if action == "record":
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **found)
        print(f"{len(found)} answers recorded in {path}")  # noqa: T201
        return
    with np.load(path) as recorded:
        names = sorted(set(recorded) | set(found))
        different = [name for name in names if not same(recorded, found, name, reworded=reworded)]
    print(f"{len(names) - len(different)} of {len(names)} answers are the same")  # noqa: T201
    if different:
        sys.exit("\n".join(["these differ, or are only on one side:", *different]))


def same(recorded, found, name: str, *, reworded: bool) -> bool:
    """Return whether both sides have an answer, equal in type, shape and every bit; of reworded texts, the numbers."""
    if name not in recorded or name not in found:
        return False
    old, new = recorded[name], found[name]
    if reworded and old.dtype.kind == new.dtype.kind == "U":
        return facts(old) == facts(new)
    return (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())


def facts(answer: np.ndarray) -> object:
    """Return a text without its sentences: of results, the values that are not sentences; of a page, nothing."""
    try:
        return without_sentences(json.loads(str(answer)))
    except ValueError:
        text_of_answer = re.sub(r"\(\d\)", "", str(answer))  # without the numbers of a list
        return [] if "<html" in text_of_answer else sorted(re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", text_of_answer))


def without_sentences(value: object) -> object:
    """Return JSON values with each text of several words replaced."""
    if isinstance(value, dict):
        return [without_sentences(part) for part in value.values()]
    if isinstance(value, list):
        return [without_sentences(part) for part in value]
    return "a sentence" if isinstance(value, str) and " " in value else value


def answers() -> Answers:
    """Yield each answer with its name."""
    warnings.simplefilter("ignore")
    for sample in samples():
        yield from (named(sample.name, each) for each in of_sample(sample))
        print(sample.name, file=sys.stderr)  # noqa: T201


def named(prefix: str, answer: tuple[str, np.ndarray]) -> tuple[str, np.ndarray]:
    """Return an answer with a longer name."""
    return f"{prefix}/{answer[0]}", answer[1]


def samples() -> Iterator[Sample]:
    """Yield the synthetic data, each also with ties, and the real data sets."""
    for name, make in SYNTHETIC.items():
        drawn = make().sample(ROWS, seed=7)
        yield standardised(name, drawn.X, drawn.y)
        yield standardised(f"{name}_ties", drawn.X.round(), drawn.y.round(1), digits=1)
    folder = os.environ.get("EVENCOVER_DATA")
    if folder is None:
        print("EVENCOVER_DATA names no folder: the real data sets are left out", file=sys.stderr)  # noqa: T201
        return
    for name in REAL:
        data = load_dataset(name, data_dir=folder)
        order = np.random.default_rng(0).permutation(len(data.y))[: 3 * ROWS]
        yield standardised(name, data.X[order], data.y[order])


def standardised(name: str, X: np.ndarray, y: np.ndarray, digits: int | None = None) -> Sample:
    """Return rows in standard units, a column of three categories put in second place."""
    X = (X - np.median(X, axis=0)) / (X.std(axis=0) + (X.std(axis=0) == 0))
    y = (y - y.mean()) / y.std()
    if digits is not None:
        X, y = X.round(digits), y.round(digits)
    return Sample(name, np.insert(X, 1, np.arange(len(y)) % 3, axis=1), y)


def of_sample(sample: Sample) -> Answers:
    """Yield the answers on some rows."""
    model = sample.model()
    for score in SCORES:
        for taxonomy in TAXONOMIES:
            yield from (named(f"{score}/{taxonomy}", each) for each in of_regressor(sample, model, score, taxonomy))
    yield from of_mapping(sample, model)
    yield from of_arrays(sample, model)
    yield from of_diagnostics(sample, model)
    yield from of_study(sample)


def of_regressor(sample: Sample, model: FrozenEstimator, score: str, taxonomy: str) -> Answers:
    """Yield what a score with a taxonomy answers: several levels, one, unions, p-values, weights."""
    _, old, new = sample.thirds
    X, y = sample.X[new], sample.y[new]
    regressor = ConformalRegressor(model, nonconformity=SCORES[score], taxonomy=clone(TAXONOMIES[taxonomy]))
    regressor.fit(sample.X[old], sample.y[old])
    made = regressor.predict_interval(X, level=LEVELS)
    yield "intervals", np.asarray(made)
    yield "one level", np.asarray(regressor.predict_interval(X, level=0.9))
    yield "one row", np.asarray(regressor.predict_interval(X[:1], level=0.9))
    yield "groups", text("none" if made.groups is None else made.groups.label_of_rows().tolist())
    union = regressor.predict_union(X, level=LEVELS)
    yield "union", np.stack([np.asarray(piece) for piece in union.pieces])
    yield "union guarantee", text(str(union.guarantee))
    yield "p-values", regressor.p_values(X, y)
    yield "smoothed", regressor.p_values(X, y, seed=3)
    yield "thresholds", regressor.calibration_.threshold(LEVELS)
    guarantee = regressor.guarantee_
    yield "guarantee", text([str(guarantee), guarantee.kind, guarantee.assumption, str(guarantee.sizes)])
    yield "promised", text({level: str(guarantee.coverage(level)) for level in LEVELS})
    yield "repr", text([repr(regressor.calibration_), repr(made), repr(union)])
    weights = 1 + np.abs(sample.X[:, 0])
    regressor.calibrate(sample.X[old], sample.y[old], weights=weights[old])
    yield "weighted", np.asarray(regressor.predict_interval(X, level=LEVELS, weights=weights[new]))
    yield "weighted p-values", regressor.p_values(X, y, weights=weights[new], seed=3)
    yield "weighted guarantee", text(str(regressor.guarantee_))


def of_mapping(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield what a score for each group answers."""
    _, old, new = sample.thirds
    scores = {"low": Residual(), "medium": Normalized(), "high": IntervalDistance()}
    regressor = ConformalRegressor(model, nonconformity=scores, taxonomy=BySpread(3))
    regressor.fit(sample.X[old], sample.y[old])
    yield "mapping/intervals", np.asarray(regressor.predict_interval(sample.X[new], level=LEVELS))
    yield "mapping/p-values", regressor.p_values(sample.X[new], sample.y[new], seed=1)


def of_arrays(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield what plain arrays with groups answer: unseen groups, merged calibrations, edges and weights among them."""
    _, old, new = sample.thirds
    old_prediction, new_prediction = predictions_of(model, sample.X[old]), predictions_of(model, sample.X[new])
    groups, new_groups = (np.array(["a", "b", "c"])[sample.X[rows, 1].astype(int)] for rows in (old, new))
    with_unseen = np.where(np.arange(len(new_groups)) % 5 == 0, "d", new_groups)
    whole = calibrate(sample.y[old], old_prediction, nonconformity=Normalized(), groups=groups)
    half = len(groups) // 2
    parts = [
        calibrate(sample.y[old][rows], old_prediction[rows], nonconformity=Normalized(), groups=groups[rows])
        for rows in (slice(0, half), slice(half, None))
    ]
    yield (
        "arrays/merged",
        np.asarray(parts[0].merge(parts[1]).interval(new_prediction, groups=new_groups, level=LEVELS)),
    )
    for unseen in ("marginal", "inf"):
        made = whole.interval(new_prediction, groups=with_unseen, level=LEVELS, unseen=unseen)
        yield f"arrays/{unseen}", np.asarray(made)
        yield f"arrays/{unseen} guarantee", text(str(made.guarantee))
        yield (
            f"arrays/{unseen} p-values",
            whole.p_values(sample.y[new], new_prediction, groups=with_unseen, unseen=unseen, seed=2),
        )
    weights = 1 + np.abs(sample.X[:, 0])
    weighted = calibrate(sample.y[old], old_prediction, groups=groups, weights=weights[old])
    made = weighted.interval(new_prediction, groups=with_unseen, level=LEVELS, unseen="marginal", weights=weights[new])
    yield "arrays/weighted", np.asarray(made)
    yield "arrays/weighted thresholds", weighted.threshold(LEVELS, test_weight=1.5)
    yield (
        "arrays/one group",
        np.asarray(calibrate(sample.y[old], old_prediction.center).interval(new_prediction.center, level=0.9)),
    )


def of_diagnostics(sample: Sample, model: FrozenEstimator) -> Answers:
    """Yield verdicts and advice: of diagnoses, of audits, of a recommendation."""
    training, old, new = sample.thirds
    for taxonomy in (None, ByFunction(Sign()), ByTarget([0.0]), BySpread(2), BySpread(5)):
        regressor = ConformalRegressor(model, taxonomy=taxonomy).fit(sample.X[old], sample.y[old])
        for level in (0.5, 0.9):
            found = diagnose(regressor, taxonomy=taxonomy, level=level)
            yield f"diagnose/{taxonomy}/{level}", text([str(found), result_data(found)])
        audited = audit(sample.y[new], regressor.predict_interval(sample.X[new]), X=sample.X[new])
        yield f"audit/{taxonomy}", text([str(audited), result_data(audited)])
    chosen = recommend(RidgeCV(), sample.X[training], sample.y[training], level=0.8)
    yield "recommend", text(str(chosen.recommendation_))


def of_study(sample: Sample) -> Answers:
    """Yield a study's text, numbers, intervals and report, and its predictor's answers after its file."""
    table = pd.DataFrame(sample.X, columns=[f"x{place}" for place in range(sample.X.shape[1])])
    table["colour"] = np.array(["red", "green", "blue"])[sample.X[:, 1].astype(int)]
    table["y"] = sample.y
    plans = {"default": Plan(model="linear"), "boosting": Plan("boosting", level=0.8)}
    plans["column"] = Plan("boosting", taxonomy=ByFeature("colour"))
    names = ["default"] if sample.name.endswith("_ties") else list(plans)
    for name in names:
        found = study(table, "y", plan=plans[name], name=sample.name)
        yield f"study/{name}", text([str(found), result_data(found)])
        columns = {key: np.asarray(values).tolist() for key, values in found.columns_of_intervals().items()}
        yield f"study/{name}/intervals", text(columns)
        yield f"study/{name}/report", text(report_page(found))


def text(value: object) -> np.ndarray:
    """Return a value as text, in an array."""
    return np.array(value if isinstance(value, str) else json.dumps(value, default=str))


if __name__ == "__main__":
    parser = ArgumentParser(description="Record what the package answers, or compare it with what was recorded.")
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--reworded", action="store_true", help="do not compare sentences and pages")
    main(**vars(parser.parse_args()))
