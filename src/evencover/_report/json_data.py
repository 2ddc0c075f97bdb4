"""Results as JSON data."""

from dataclasses import fields, is_dataclass
from typing import Any

from evencover._internal.json_values import plain_value
from evencover._report.static_sections import versions
from evencover._version import __version__
from evencover.calibrators.two_tails import CalibratedTails
from evencover.diagnostics._formatting import short_repr
from evencover.diagnostics.audit_result import Audit
from evencover.diagnostics.diagnosis_result import Diagnosis
from evencover.diagnostics.quality import Quality
from evencover.intervals import prediction_text
from evencover.scores.evaluation import BUILTIN_SCORES
from evencover.studies import Study

_LEFT_OUT = ("inputs",)  # arrays with a value for each row


def data_of(result: Study | Diagnosis | Audit) -> dict[str, Any]:
    """Return a result as JSON data: NaN becomes null, an infinite number the text inf or -inf.

    Parameters
    ----------
    result : Study, Diagnosis or Audit
        The result.
    """
    if isinstance(result, Study):
        return {"evencover": __version__, "kind": "study", **_study_data(result)}
    kind = type(result).__name__.lower()
    return {"evencover": __version__, "kind": kind, **json_value(result), **_summary(result)}


def _summary(result: Study | Diagnosis | Audit) -> dict[str, Any]:
    """Return the verdict, what is shown in numbers, and what to do."""
    judged = result.audit if isinstance(result, Study) else result
    return {
        "verdict": judged.verdict,
        "headline": result.headline,
        "shown_within": json_value(judged.shown_within),
        "advice": judged.advice,
        **({"quality": _quality_data(judged.quality)} if isinstance(judged, Audit) else {}),
    }


def json_value(value: Any) -> Any:
    """Return a value as JSON data; a dataclass becomes an object with its fields."""
    return plain_value(value, _object_value)


def _object_value(value: Any) -> Any:
    """Return an object as JSON data: a score as Python code, another dataclass as its fields."""
    if isinstance(value, BUILTIN_SCORES):
        return short_repr(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = (part.name for part in fields(value) if part.name not in _LEFT_OUT)
        return {name: json_value(getattr(value, name)) for name in parts}
    return repr(value)


def _study_data(study: Study) -> dict[str, Any]:
    """Return the results of a study, the verdict first."""
    plan = study.plan
    recommendation = study.recommendation
    return {
        **_summary(study),
        "data": study.name,
        "target": study.target,
        "rows": study.sizes,
        "clusters": study.clusters,
        "time": study.time,
        "warnings": study.warnings,
        "notes": study.notes,
        "left_out": list(study.left_out),
        "features": json_value(study.columns),
        "model": repr(study.model),
        "nonconformity": json_value(study.regressor.calibration_.nonconformity),
        "taxonomy": short_repr(study.taxonomy),
        "tails": study.tails,
        "support": json_value(getattr(study.regressor.calibrator_.nonconformity, "support", None)),
        "level": float(plan.level),
        "prediction": prediction_text(study.intervals),
        "tolerance": study.audit.tolerance,
        "seed": plan.seed,
        "calibration": "split" if study.cross is None else "cross",
        "guarantee": str(study.regressor.guarantee_),
        "guaranteed_coverage": float(study.regressor.guarantee_.lower_bound(plan.level)),
        "thresholds": json_value(_thresholds(study)),
        "audit": json_value(study.audit),
        "diagnosis": json_value(study.diagnosis),
        "stack": json_value(study.stack_report),
        "tried": None if recommendation is None else json_value(recommendation.candidates),
        "versions": versions(),
    }


def _quality_data(quality: Quality) -> dict[str, Any]:
    """Return the measures, and what they mean."""
    return {"summary": quality.summary, "explains_nothing": quality.explains_nothing, **json_value(quality)}


def _thresholds(study: Study) -> dict[Any, Any] | None:
    """Return the threshold of each group, or those of its two tails; None if the study is cross-fitted."""
    if study.cross is not None:  # each row's interval depends on the scores of all folds
        return None
    learned, level = study.regressor.calibrator_, study.plan.level
    if isinstance(learned, CalibratedTails):
        pairs = zip(*learned.thresholds(level), strict=True)
        values: list[Any] = [{"lower": lower, "upper": upper} for lower, upper in pairs]
    else:
        values = study.regressor.calibration_.threshold(level).tolist()
    return dict(zip(study.regressor.calibration_.labels, values, strict=True))
