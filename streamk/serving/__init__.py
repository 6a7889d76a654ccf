"""Models that a job has learned, to predict with in an application."""

from __future__ import annotations

from streamk.serving.trained import TrainedModel, load

__all__ = ["TrainedModel", "load"]
