"""Print the seconds that a study, its report and its predictor take, next to a lower bound or an alternative, as JSON.

The study has 10 000 rows and ten features, two of them text, and uses gradient boosting. Its lower bound is the six
fits of the model that the selection of score and groups needs. The interval of one row is compared with the model's own
prediction, the table encoder with scikit-learn's imputer and one-hot encoder (which give the same numbers), and files
with the pickles of joblib.
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
from evencover import ConformalRegressor
from evencover.models import TableEncoder, predictions_of
from evencover.report.writing import report
from evencover.studies import Plan, study

_ROWS, _MANY_ROWS, _ROUNDS, _SINGLE_ROWS = 10_000, 200_000, 3, 200
_NUMBERS, _TEXTS = [f"x{number}" for number in range(8)], ["region", "kind"]


def main() -> None:
    """Print the median seconds of each part."""
    small, large = houses(_ROWS), houses(_MANY_ROWS)
    result = study(small, "price")
    print(
        json.dumps(
            {
                "study": median_seconds(lambda: study(small, "price")),
                "fit": median_seconds(lambda: fit_model(small.iloc[result.training])),
                "report": median_seconds(lambda: report(result)),
                "megabytes": len(report(result).encode()) / 1e6,
                **encoding(large[[*_NUMBERS, *_TEXTS]]),
                **files(result.regressor),
                **serving(result.regressor, small),
            }
        )
    )


def houses(n: int) -> pd.DataFrame:
    """Return a table of numbers and text; one number in twenty is missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    table = pd.DataFrame(np.where(rng.random((n, 8)) < 0.05, np.nan, X), columns=_NUMBERS)
    table["region"], table["kind"] = rng.choice(list("abcdefghij"), n), rng.choice(["old", "new", None], n)
    return table.assign(price=X[:, 0] + np.exp(X[:, 1] / 2) * rng.normal(size=n))


def fit_model(table: pd.DataFrame) -> None:
    """Fit the study's model, which the selection of score and groups does not fit again."""
    make_pipeline(TableEncoder(), Plan().estimator()).fit(table[[*_NUMBERS, *_TEXTS]], table["price"])


def encoding(table: pd.DataFrame) -> dict[str, float]:
    """Return the seconds of both encoders; exit if their numbers differ."""
    reference = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median", add_indicator=True), _NUMBERS),
            ("texts", OneHotEncoder(max_categories=31, sparse_output=False), _TEXTS),
        ]
    )
    both = TableEncoder().fit_transform(table), reference.fit_transform(table)
    if not np.allclose(*(np.sort(each.sum(axis=0)) for each in both)):
        sys.exit("the two encoders give different numbers")
    return {
        "encoder": median_seconds(lambda: TableEncoder().fit_transform(table)),
        "scikit_learn": median_seconds(lambda: reference.fit_transform(table)),
    }


def serving(model: ConformalRegressor, table: pd.DataFrame) -> dict[str, float]:
    """Return the seconds for one row: its interval, and the model's own prediction, full or only the center."""
    row = table[[*_NUMBERS, *_TEXTS]].iloc[:1]
    functions: dict[str, Callable[[], object]] = {
        "one_interval": lambda: model.predict_interval(row),
        "one_full_prediction": lambda: predictions_of(model.estimator_, row),
        "one_prediction": lambda: model.estimator_.predict(row),
    }
    rounds = [{name: seconds(function) for name, function in functions.items()} for _ in range(_SINGLE_ROWS)]
    return {name: median(times[name] for times in rounds) for name in functions}


def files(model: ConformalRegressor) -> dict[str, float]:
    """Return the seconds of writing and reading a calibrated model, without and with pickle."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"

        def save_and_load() -> None:
            model.save(path)
            ConformalRegressor.load(path)

        def pickle_and_load() -> None:
            joblib.dump(model, path)
            joblib.load(path)

        return {"file": median_seconds(save_and_load), "pickle": median_seconds(pickle_and_load)}


def median_seconds(function: Callable[[], object]) -> float:
    """Return the median seconds of a few calls."""
    return median(seconds(function) for _ in range(_ROUNDS))


if __name__ == "__main__":
    main()
