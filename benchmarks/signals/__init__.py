"""Coverage of intervals and prediction sets, and alarms."""
