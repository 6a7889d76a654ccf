"""Fast prediction: trained models as trees of small kernel models."""

from streamk.prediction.compiled import CompiledModel, load
from streamk.prediction.dc_pred import dc_pred

__all__ = ["CompiledModel", "dc_pred", "load"]
