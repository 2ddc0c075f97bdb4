"""Diagnose models, audit intervals, recommend a score and groups, and plan how many rows they need.

Names are loaded on first use.
"""

from evencover._lazy import loaded_on_use

TYPE_CHECKING = False  # type checkers take it for that of `typing`, which takes milliseconds to import
if TYPE_CHECKING:
    from evencover.diagnostics.audits import Audit as Audit
    from evencover.diagnostics.audits import audit as audit
    from evencover.diagnostics.diagnosis import Diagnosis as Diagnosis
    from evencover.diagnostics.diagnosis import diagnose as diagnose
    from evencover.diagnostics.diagnosis import diagnose_scores as diagnose_scores
    from evencover.diagnostics.interval_quality import Quality as Quality
    from evencover.diagnostics.interval_quality import quality as quality
    from evencover.diagnostics.recommendations import Recommendation as Recommendation
    from evencover.diagnostics.recommendations import recommend as recommend
    from evencover.diagnostics.sample_sizes import max_groups as max_groups
    from evencover.diagnostics.sample_sizes import rows_needed as rows_needed

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "diagnostics.audits": "Audit audit",
        "diagnostics.diagnosis": "Diagnosis diagnose diagnose_scores",
        "diagnostics.interval_quality": "Quality quality",
        "diagnostics.recommendations": "Recommendation recommend",
        "diagnostics.sample_sizes": "max_groups rows_needed",
    },
)
