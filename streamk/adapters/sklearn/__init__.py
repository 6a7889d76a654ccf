"""Kernel learners as scikit-learn estimators."""

from streamk.adapters.sklearn.learners import KernelClassifier, KernelRegressor
from streamk.adapters.sklearn.online_nystrom import NystromClassifier, NystromRegressor

__all__ = ["KernelClassifier", "KernelRegressor", "NystromClassifier", "NystromRegressor"]
