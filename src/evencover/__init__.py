"""Conformal regression whose coverage is even across noise levels, not only on average.

A prediction interval is the set of targets whose score is at most a calibrated threshold.

Names are loaded on first use, so importing the package is fast.
"""

TYPE_CHECKING = False  # type checkers take it for that of `typing`, which takes milliseconds to import
if TYPE_CHECKING:
    from evencover._version import __version__ as __version__
    from evencover.calibration.by_group import ByGroup as ByGroup
    from evencover.calibration.calibration import Calibration as Calibration
    from evencover.calibration.calibration import calibrate as calibrate
    from evencover.calibration.predictive import PredictiveDistribution as PredictiveDistribution
    from evencover.calibration.protocols import Calibrated as Calibrated
    from evencover.calibration.protocols import Calibrator as Calibrator
    from evencover.calibration.two_tails import TwoTails as TwoTails
    from evencover.conformal.cross import CrossConformalRegressor as CrossConformalRegressor
    from evencover.conformal.split import ConformalRegressor as ConformalRegressor
    from evencover.diagnostics.audit_result import Audit as Audit
    from evencover.diagnostics.audits import audit as audit
    from evencover.diagnostics.diagnosis import diagnose as diagnose
    from evencover.diagnostics.diagnosis import diagnose_scores as diagnose_scores
    from evencover.diagnostics.diagnosis_result import Diagnosis as Diagnosis
    from evencover.diagnostics.quality import Quality as Quality
    from evencover.diagnostics.quality import quality as quality
    from evencover.diagnostics.recommendation_result import Recommendation as Recommendation
    from evencover.diagnostics.recommendations import recommend as recommend
    from evencover.diagnostics.sample_sizes import groups_affordable as groups_affordable
    from evencover.diagnostics.sample_sizes import rows_needed as rows_needed
    from evencover.groups import Groups as Groups
    from evencover.guarantees import Guarantee as Guarantee
    from evencover.guarantees import TooFewRowsWarning as TooFewRowsWarning
    from evencover.intervals import Intervals as Intervals
    from evencover.intervals import IntervalUnion as IntervalUnion
    from evencover.metrics import coverage as coverage
    from evencover.metrics import coverage_by_group as coverage_by_group
    from evencover.metrics import crps as crps
    from evencover.metrics import interval_score as interval_score
    from evencover.metrics import mean_width as mean_width
    from evencover.metrics import mean_width_by_group as mean_width_by_group
    from evencover.metrics import misses_by_group as misses_by_group
    from evencover.metrics import pinball_loss as pinball_loss
    from evencover.model_selection import CoverageScorer as CoverageScorer
    from evencover.model_selection import IntervalScorer as IntervalScorer
    from evencover.model_selection import intervals_of as intervals_of
    from evencover.model_selection import three_way_split as three_way_split
    from evencover.models.estimators import predictions_of as predictions_of
    from evencover.predictions import Prediction as Prediction
    from evencover.quantiles import conformal_quantile as conformal_quantile
    from evencover.quantiles import conformal_rank as conformal_rank
    from evencover.report.writing import write_report as write_report
    from evencover.rows import Rows as Rows
    from evencover.scores import Bounded as Bounded
    from evencover.scores import IntervalDistance as IntervalDistance
    from evencover.scores import Normalized as Normalized
    from evencover.scores import OneSided as OneSided
    from evencover.scores import ProbabilityDistance as ProbabilityDistance
    from evencover.scores import RelativeIntervalDistance as RelativeIntervalDistance
    from evencover.scores import Residual as Residual
    from evencover.scores import Score as Score
    from evencover.scores import Standardized as Standardized
    from evencover.scores import scores_of as scores_of
    from evencover.scores import threshold_intervals as threshold_intervals
    from evencover.target_support import Support as Support
    from evencover.taxonomies import ByFeature as ByFeature
    from evencover.taxonomies import ByFunction as ByFunction
    from evencover.taxonomies import ByPrediction as ByPrediction
    from evencover.taxonomies import BySpread as BySpread
    from evencover.taxonomies import ByTarget as ByTarget
    from evencover.taxonomies import Marginal as Marginal
    from evencover.taxonomies import Product as Product
    from evencover.taxonomies import Taxonomy as Taxonomy
    from evencover.theory.pivotality import is_pivotal as is_pivotal

_MODULES = {
    "_version": ("__version__",),
    "calibration.by_group": ("ByGroup",),
    "calibration.calibration": (
        "Calibration",
        "calibrate",
    ),
    "calibration.predictive": ("PredictiveDistribution",),
    "calibration.protocols": (
        "Calibrated",
        "Calibrator",
    ),
    "calibration.two_tails": ("TwoTails",),
    "conformal.cross": ("CrossConformalRegressor",),
    "conformal.split": ("ConformalRegressor",),
    "diagnostics.audit_result": ("Audit",),
    "diagnostics.audits": ("audit",),
    "diagnostics.diagnosis": (
        "diagnose",
        "diagnose_scores",
    ),
    "diagnostics.diagnosis_result": ("Diagnosis",),
    "diagnostics.quality": (
        "Quality",
        "quality",
    ),
    "diagnostics.recommendation_result": ("Recommendation",),
    "diagnostics.recommendations": ("recommend",),
    "diagnostics.sample_sizes": (
        "groups_affordable",
        "rows_needed",
    ),
    "groups": ("Groups",),
    "guarantees": (
        "Guarantee",
        "TooFewRowsWarning",
    ),
    "intervals": (
        "IntervalUnion",
        "Intervals",
    ),
    "metrics": (
        "coverage",
        "coverage_by_group",
        "crps",
        "interval_score",
        "mean_width",
        "mean_width_by_group",
        "misses_by_group",
        "pinball_loss",
    ),
    "model_selection": (
        "CoverageScorer",
        "IntervalScorer",
        "intervals_of",
        "three_way_split",
    ),
    "models.estimators": ("predictions_of",),
    "predictions": ("Prediction",),
    "quantiles": (
        "conformal_quantile",
        "conformal_rank",
    ),
    "report.writing": ("write_report",),
    "rows": ("Rows",),
    "scores": (
        "Bounded",
        "IntervalDistance",
        "Normalized",
        "OneSided",
        "ProbabilityDistance",
        "RelativeIntervalDistance",
        "Residual",
        "Score",
        "Standardized",
        "scores_of",
        "threshold_intervals",
    ),
    "target_support": ("Support",),
    "taxonomies": (
        "ByFeature",
        "ByFunction",
        "ByPrediction",
        "BySpread",
        "ByTarget",
        "Marginal",
        "Product",
        "Taxonomy",
    ),
    "theory.pivotality": ("is_pivotal",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
