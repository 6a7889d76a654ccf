"""Fast prediction: approximate kernels whose values take few kernel evaluations a point."""

from streamk.prediction.pseudo_landmarks import PseudoLandmarks
from streamk.prediction.pseudo_nystrom import PseudoNystrom

__all__ = ["PseudoLandmarks", "PseudoNystrom"]
