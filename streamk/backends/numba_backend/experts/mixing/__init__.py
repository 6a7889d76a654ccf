"""From the experts' outputs to one prediction, its calibration and its interval."""
