"""Pseudo landmarks, whose kernel values are computed from those of a few landmarks."""

from streamk.prediction.pseudo.landmarks import PseudoLandmarks
from streamk.prediction.pseudo.nystrom import PseudoNystrom

__all__ = ["PseudoLandmarks", "PseudoNystrom"]
