"""Fast prediction: trained models as trees of small kernel models.

`dc_pred` trains one on events and labels (DC-Pred++), `compile` makes one of any trained model.
`PseudoLandmarks` and `PseudoNystrom` approximate kernels by few kernel evaluations a point.
"""

from streamk.prediction.compiled import CompiledModel, load
from streamk.prediction.dc_pred import (
    compile,  # noqa: A004 (the name that users look for)
    dc_pred,
)
from streamk.prediction.pseudo import PseudoLandmarks, PseudoNystrom
from streamk.prediction.teachers import importance_of

__all__ = [
    "CompiledModel",
    "PseudoLandmarks",
    "PseudoNystrom",
    "compile",
    "dc_pred",
    "importance_of",
    "load",
]
