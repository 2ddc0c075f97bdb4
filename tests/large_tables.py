"""Tables of predictions, and their calibration in memory."""

import numpy as np
import pyarrow as pa

from evencover import Normalized, Prediction, calibrate

HOSTILE = [
    "",
    "a'b",
    'a"b',
    "; DROP TABLE t; --",
    "line\nbreak",
    "tab\t",
    "日本 🌍",
    "nan",
    "null",
    "\\",
    "%s{}",
    "x" * 3000,
]
COLUMNS = {"target": "y", "center": "c", "spread": "s", "group": "g"}


def table(n=3000, seed=0, groups=("a", "b", "c")):
    """Return a table of predictions with noise of different sizes."""
    rng = np.random.default_rng(seed)
    center, spread = rng.normal(size=n), np.exp(rng.normal(size=n))
    labels = np.array(groups, dtype=object)[rng.integers(0, len(groups), n)].tolist()
    return pa.table({"y": center + spread * rng.standard_t(4, n), "c": center, "s": spread, "g": labels})


def in_memory(whole, score=None):
    """Return the calibration of the same rows in memory."""
    prediction = Prediction(whole["c"].to_numpy(), spread=whole["s"].to_numpy())
    return calibrate(
        whole["y"].to_numpy(), prediction, nonconformity=score or Normalized(), groups=whole["g"].to_pylist()
    )
