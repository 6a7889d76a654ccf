"""Kernel learners and factorizations as scikit-learn estimators, and landmarks as transformers."""

try:
    import sklearn  # noqa: F401 (for a message that says what to install)
except ImportError as error:
    raise ImportError(
        f"streamk.adapters.sklearn needs scikit-learn ({error}): pip install 'streamk[sklearn]'"
    ) from error

from streamk.adapters.sklearn.batch import (
    DCPredClassifier,
    DCPredRegressor,
    KernelRegression,
    RFMClassifier,
    RFMRegressor,
)
from streamk.adapters.sklearn.clusters import BlockRidge, BlockSVC, MekaClassifier, MekaRidge
from streamk.adapters.sklearn.landmarks import (
    KMeansNystroem,
    LeverageNystroem,
    OasisNystroem,
    RPCholeskyNystroem,
    UniformNystroem,
)
from streamk.adapters.sklearn.learners import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    EigenProClassifier,
    EigenProRegressor,
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    KernelClassifier,
    KernelRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    NystromClassifier,
    NystromRegressor,
)

__all__ = [
    "BlockRidge",
    "BlockSVC",
    "DCPredClassifier",
    "DCPredRegressor",
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "EigenProClassifier",
    "EigenProRegressor",
    "FeatureMachineClassifier",
    "FeatureMachineRegressor",
    "KMeansNystroem",
    "KernelClassifier",
    "KernelRegression",
    "KernelRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "LeverageNystroem",
    "MekaClassifier",
    "MekaRidge",
    "NystromClassifier",
    "NystromRegressor",
    "OasisNystroem",
    "RFMClassifier",
    "RFMRegressor",
    "RPCholeskyNystroem",
    "UniformNystroem",
]
