"""Print the seconds of the main task as JSON: each part, and a reference to compare it with.

The study has 10 000 rows and ten features, two of them text, and uses gradient boosting. Its reference is the six
fits of the model that the choice of score and groups needs; the reference of the report is the study. The interval of
one row is compared with the model's prediction for it. The encoder is compared with scikit-learn's imputer and one-
hot encoder, which give the same answer. Predictor files are compared with joblib's, which are pickles.
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

_ROWS, _MANY_ROWS, _ROUNDS, _ROWS_PREDICTED = 10_000, 200_000, 3, 200
_NUMBERS, _TEXTS = [f"x{index}" for index in range(8)], ["region", "kind"]


def main() -> None:
    """Print the median seconds of each part."""
    small, large = houses(_ROWS), houses(_MANY_ROWS)
    found = study(small, "price")
    print(
        json.dumps(
            {
                "study": median_seconds(lambda: study(small, "price")),
                "six_fits": median_seconds(lambda: six_fits(small.iloc[found.training])),
                "report": median_seconds(lambda: report(found)),
                "megabytes": len(report(found).encode()) / 1e6,
                **encoding(large[[*_NUMBERS, *_TEXTS]]),
                **files(found.regressor),
                **one_row(found.regressor, small),
            }
        )
    )


def houses(n: int) -> pd.DataFrame:
    """Return rows of numbers and text; one number in twenty is missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    table = pd.DataFrame(np.where(rng.random((n, 8)) < 0.05, np.nan, X), columns=_NUMBERS)
    table["region"], table["kind"] = rng.choice(list("abcdefghij"), n), rng.choice(["old", "new", None], n)
    return table.assign(price=X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=n))


def six_fits(table: pd.DataFrame) -> None:
    """Fit the study's model as often as the choice of score and groups does."""
    for _ in range(6):
        make_pipeline(TableEncoder(), Plan().estimator()).fit(table[[*_NUMBERS, *_TEXTS]], table["price"])


def encoding(table: pd.DataFrame) -> dict[str, float]:
    """Return the seconds of both encoders, which must give the same numbers."""
    theirs = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), _NUMBERS),
            ("texts", OneHotEncoder(max_categories=31, sparse_output=False), _TEXTS),
        ]
    )
    both = TableEncoder().fit_transform(table), theirs.fit_transform(table)
    if not np.allclose(*(np.sort(each.sum(axis=0)) for each in both)):
        sys.exit("the two encoders give different numbers")
    return {
        "encoder": median_seconds(lambda: TableEncoder().fit_transform(table)),
        "scikit_learn": median_seconds(lambda: theirs.fit_transform(table)),
    }


def one_row(model: ConformalRegressor, table: pd.DataFrame) -> dict[str, float]:
    """Return the seconds for one row: its interval, the model's full prediction, and the center alone."""
    row = table[[*_NUMBERS, *_TEXTS]].iloc[:1]
    calls: dict[str, Callable[[], object]] = {
        "one_interval": lambda: model.predict_interval(row),
        "one_full_prediction": lambda: predictions_of(model.estimator_, row),
        "one_prediction": lambda: model.estimator_.predict(row),
    }
    rounds = [{name: seconds(call) for name, call in calls.items()} for _ in range(_ROWS_PREDICTED)]
    return {name: median(times[name] for times in rounds) for name in calls}


def files(model: ConformalRegressor) -> dict[str, float]:
    """Return the seconds of writing and reading a calibrated model, without and with pickle."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"

        def ours() -> None:
            model.save(path)
            ConformalRegressor.load(path)

        def pickled() -> None:
            joblib.dump(model, path)
            joblib.load(path)

        return {"file": median_seconds(ours), "pickle": median_seconds(pickled)}


def median_seconds(call: Callable[[], object]) -> float:
    """Return the median seconds of a few calls."""
    return median(seconds(call) for _ in range(_ROUNDS))


if __name__ == "__main__":
    main()
