"""From scores to thresholds, prediction sets, p-values and distributions."""
