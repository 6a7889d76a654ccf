"""Predict, then learn: events decoded, learned in a thread of its own, scored and written."""
