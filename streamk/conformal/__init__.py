"""Intervals and sets that hold a share of the labels to come, whatever the model and the drift.

Conformal prediction needs no more of a model than its predictions: a score tells how badly a label
fits what was predicted, and a region holds all labels whose score is below a threshold. Where
events are exchangeable a quantile of past scores is that threshold (Vovk et al. 2005). Streams
drift; `AdaptiveQuantile` therefore moves the level of the quantile by what the regions have missed,
as adaptive conformal inference does (Gibbs and Candès 2021).
"""

from streamk.conformal.quantile import AdaptiveQuantile
from streamk.conformal.regions import AdaptiveIntervals, AdaptiveSets, Regions, Said

__all__ = ["AdaptiveIntervals", "AdaptiveQuantile", "AdaptiveSets", "Regions", "Said"]
