"""Models whose predictions say more than a center."""

from evencover.models.adapters import FromQuantiles, FromStd
from evencover.models.speech import is_frozen, predictions_of

__all__ = ["FromQuantiles", "FromStd", "is_frozen", "predictions_of"]
