"""Seconds that the main job takes, as JSON: its parts against what they are made of, or what others do instead.

A study of 10 000 rows and ten features, two of them text, by gradient boosting. Its floor is the six fits of the model
that choosing takes; the report's is the study. One row served is compared with the model's own prediction of it. A
table's numbers are compared with those of scikit-learn's imputer and one-hot encoder, which give the same answer, and
files with joblib's, which are pickles.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks.timing import seconds
from evencover import ConformalRegressor, predictions_of
from evencover._report.writing import report
from evencover.models import TableEncoder
from evencover.studies import Plan, study

_ROWS, _MANY, _ROUNDS, _ROWS_SERVED = 10_000, 200_000, 3, 200
_NUMBERS, _TEXTS = [f"x{place}" for place in range(8)], ["region", "kind"]


def main() -> None:
    """Print the median seconds of each part."""
    small, large = houses(_ROWS), houses(_MANY)
    found = study(small, "price")
    print(
        json.dumps(
            {
                "study": middle(lambda: study(small, "price")),
                "six_fits": middle(lambda: six_fits(small.iloc[found.training])),
                "report": middle(lambda: report(found)),
                "megabytes": len(report(found).encode()) / 1e6,
                **encoding(large[[*_NUMBERS, *_TEXTS]]),
                **files(found.regressor),
                **serving(found.regressor, small),
            }
        )
    )


def houses(n: int) -> pd.DataFrame:
    """Return rows of numbers and text, one number in twenty missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    table = pd.DataFrame(np.where(rng.random((n, 8)) < 0.05, np.nan, X), columns=_NUMBERS)
    table["region"], table["kind"] = rng.choice(list("abcdefghij"), n), rng.choice(["old", "new", None], n)
    return table.assign(price=X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=n))


def six_fits(table: pd.DataFrame) -> None:
    """Fit the study's model as often as choosing score and groups does."""
    for _ in range(6):
        make_pipeline(TableEncoder(), Plan().estimator()).fit(table[[*_NUMBERS, *_TEXTS]], table["price"])


def encoding(table: pd.DataFrame) -> dict[str, float]:
    """Return the seconds of both ways from a table to numbers, which must be the same."""
    theirs = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), _NUMBERS),
            ("texts", OneHotEncoder(max_categories=31, sparse_output=False), _TEXTS),
        ]
    )
    both = TableEncoder().fit_transform(table), theirs.fit_transform(table)
    if not np.allclose(*(np.sort(each.sum(axis=0)) for each in both)):
        sys.exit("the two encoders differ")
    return {
        "encoder": middle(lambda: TableEncoder().fit_transform(table)),
        "scikit_learn": middle(lambda: theirs.fit_transform(table)),
    }


def serving(model: ConformalRegressor, table: pd.DataFrame) -> dict[str, float]:
    """Return the seconds of one row: its interval, and the model's own prediction, full and of the center alone."""
    row = table[[*_NUMBERS, *_TEXTS]].iloc[:1]
    ways: dict[str, Callable[[], object]] = {
        "one_interval": lambda: model.predict_interval(row),
        "one_full_prediction": lambda: predictions_of(model.estimator_, row),
        "one_prediction": lambda: model.estimator_.predict(row),
    }
    rounds = [{name: seconds(way) for name, way in ways.items()} for _ in range(_ROWS_SERVED)]
    return {name: median(times[name] for times in rounds) for name in ways}


def files(model: ConformalRegressor) -> dict[str, float]:
    """Return the seconds of writing and reading a calibrated model, without pickle and with it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"

        def ours() -> None:
            model.save(path)
            ConformalRegressor.load(path)

        def pickled() -> None:
            joblib.dump(model, path)
            joblib.load(path)

        return {"file": middle(ours), "pickle": middle(pickled)}


def middle(way: Callable[[], object]) -> float:
    """Return the median seconds of a few calls."""
    return median(seconds(way) for _ in range(_ROUNDS))


if __name__ == "__main__":
    main()
