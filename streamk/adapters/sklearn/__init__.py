"""Kernel learners and factorizations as scikit-learn estimators, and landmarks as transformers."""

try:
    import sklearn  # noqa: F401 (for a message that says what to install)
except ImportError as error:
    raise ImportError(
        f"streamk.adapters.sklearn needs scikit-learn ({error}): pip install 'streamk[sklearn]'"
    ) from error

from streamk.adapters.sklearn.block_svc import BlockSVC
from streamk.adapters.sklearn.dc_pred import DCPredClassifier, DCPredRegressor
from streamk.adapters.sklearn.doubly_stochastic import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
)
from streamk.adapters.sklearn.eigenpro import EigenProClassifier, EigenProRegressor
from streamk.adapters.sklearn.feature_machine import (
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    RFMClassifier,
    RFMRegressor,
)
from streamk.adapters.sklearn.kernel_ridge import KernelRidgeClassifier, KernelRidgeRegressor
from streamk.adapters.sklearn.landmarks import (
    KMeansNystroem,
    LeverageNystroem,
    OasisNystroem,
    RPCholeskyNystroem,
    UniformNystroem,
)
from streamk.adapters.sklearn.learners import KernelClassifier, KernelRegressor
from streamk.adapters.sklearn.meka import MekaClassifier, MekaRidge
from streamk.adapters.sklearn.online_nystrom import NystromClassifier, NystromRegressor
from streamk.adapters.sklearn.ridge import BlockRidge, KernelRegression

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
