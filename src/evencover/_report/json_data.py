"""Results as plain data, for machines to read."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from evencover._report.static_sections import versions
from evencover._version import __version__
from evencover.diagnostics._formatting import short_repr
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.scores import BUILTIN_SCORES
from evencover.studies import Study

_ARRAYS = ("inputs",)  # what a result rests on, row by row


def data_of(result: Study | Diagnosis | Audit) -> dict[str, Any]:
    """Return a result as JSON knows it: NaN is null, an infinite number is the text inf or -inf.

    Parameters
    ----------
    result : Study, Diagnosis or Audit
        The result.
    """
    if isinstance(result, Study):
        return {"evencover": __version__, "kind": "study", **_of_study(result)}
    return {"evencover": __version__, "kind": type(result).__name__.lower(), **plain(result)}


def plain(value: Any) -> Any:
    """Return a value as JSON knows it; a frozen object by the names of its parts."""
    if isinstance(value, BUILTIN_SCORES):
        return short_repr(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = (part.name for part in fields(value) if part.name not in _ARRAYS)
        return {name: plain(getattr(value, name)) for name in parts}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | bool | int | float) else repr(value)


def _of_study(study: Study) -> dict[str, Any]:
    """Return a study's findings, the verdict first."""
    plan = study.plan
    chosen = study.recommendation
    return {
        "verdict": study.verdict,
        "advice": study.audit.advice,
        "data": study.name,
        "target": study.target,
        "rows": study.sizes,
        "clusters": study.clusters,
        "features": plain(study.columns),
        "model": repr(study.model),
        "nonconformity": plain(study.regressor.calibration_.nonconformity),
        "taxonomy": short_repr(study.regressor.taxonomy),
        "level": float(plan.level),
        "tolerance": plan.tolerance,
        "seed": plan.seed,
        "guarantee": str(study.regressor.guarantee_),
        "thresholds": plain(dict(zip(study.regressor.calibration_.labels, _thresholds(study), strict=True))),
        "audit": plain(study.audit),
        "diagnosis": plain(study.diagnosis),
        "tried": None if chosen is None else plain(chosen.candidates),
        "versions": versions(),
    }


def _thresholds(study: Study) -> list[float]:
    found: list[float] = study.regressor.calibration_.threshold(study.plan.level).tolist()
    return found
