"""Conformal regression whose coverage is even across noise levels, not only on average.

A prediction interval is the set of targets whose score is at most a calibrated threshold.

Names are loaded on first use, so importing the package is fast.
"""

from evencover._lazy import loaded_on_use

TYPE_CHECKING = False  # type checkers take it for that of `typing`, which takes milliseconds to import
if TYPE_CHECKING:
    from evencover._version import __version__ as __version__
    from evencover.calibration.calibration import Calibration as Calibration
    from evencover.calibration.calibration import calibrate as calibrate
    from evencover.calibration.group_thresholds import ByGroup as ByGroup
    from evencover.calibration.group_thresholds import TwoTails as TwoTails
    from evencover.calibration.predictive import PredictiveDistribution as PredictiveDistribution
    from evencover.conformal.cross import CrossConformalRegressor as CrossConformalRegressor
    from evencover.conformal.split import ConformalRegressor as ConformalRegressor
    from evencover.diagnostics.audits import Audit as Audit
    from evencover.diagnostics.audits import audit as audit
    from evencover.diagnostics.diagnosis import Diagnosis as Diagnosis
    from evencover.diagnostics.diagnosis import diagnose as diagnose
    from evencover.diagnostics.diagnosis import diagnose_scores as diagnose_scores
    from evencover.diagnostics.recommendations import Recommendation as Recommendation
    from evencover.diagnostics.recommendations import recommend as recommend
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
    from evencover.models.auto import AutoRegressor as AutoRegressor
    from evencover.models.spread import WithSpread as WithSpread
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
    from evencover.scores import Standardized as Standardized
    from evencover.studies.main_job import study as study
    from evencover.studies.plan import Plan as Plan
    from evencover.studies.study_result import Study as Study
    from evencover.target_support import Support as Support
    from evencover.taxonomies import ByFeature as ByFeature
    from evencover.taxonomies import ByFunction as ByFunction
    from evencover.taxonomies import ByPrediction as ByPrediction
    from evencover.taxonomies import BySpread as BySpread
    from evencover.taxonomies import ByTarget as ByTarget
    from evencover.taxonomies import Marginal as Marginal
    from evencover.taxonomies import Product as Product

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "_version": "__version__",
        "calibration.calibration": "Calibration calibrate",
        "calibration.group_thresholds": "ByGroup TwoTails",
        "calibration.predictive": "PredictiveDistribution",
        "conformal.cross": "CrossConformalRegressor",
        "conformal.split": "ConformalRegressor",
        "diagnostics.audits": "Audit audit",
        "diagnostics.diagnosis": "Diagnosis diagnose diagnose_scores",
        "diagnostics.recommendations": "Recommendation recommend",
        "groups": "Groups",
        "guarantees": "Guarantee TooFewRowsWarning",
        "intervals": "IntervalUnion Intervals",
        "metrics": "coverage coverage_by_group crps interval_score mean_width",
        "models.auto": "AutoRegressor",
        "models.spread": "WithSpread",
        "predictions": "Prediction",
        "quantiles": "conformal_quantile conformal_rank",
        "report.writing": "write_report",
        "rows": "Rows",
        "scores": "Bounded IntervalDistance Normalized OneSided ProbabilityDistance RelativeIntervalDistance Residual "
        "Standardized",
        "studies.main_job": "study",
        "studies.plan": "Plan",
        "studies.study_result": "Study",
        "target_support": "Support",
        "taxonomies": "ByFeature ByFunction ByPrediction BySpread ByTarget Marginal Product",
    },
)
