"""Kernel learners as scikit-learn estimators, and landmarks as transformers."""

from streamk.adapters.sklearn.landmarks import (
    FarahatNystroem,
    KMeansNystroem,
    LeverageNystroem,
    OasisNystroem,
    RPCholeskyNystroem,
    UniformNystroem,
)
from streamk.adapters.sklearn.learners import KernelClassifier, KernelRegressor

__all__ = [
    "FarahatNystroem",
    "KMeansNystroem",
    "KernelClassifier",
    "KernelRegressor",
    "LeverageNystroem",
    "OasisNystroem",
    "RPCholeskyNystroem",
    "UniformNystroem",
]
