"""Kernel learners as River estimators, and what extensions add to these.

Events are dicts whose keys name columns: strings, whole numbers from 0, or tuples of such. A number
or a boolean is its column's value, a string `s` under the name `c` is the column "c=s" with value
1, and None or NaN is missing. The first 256 strings of a column have a column each; any further one
shares one of 64 columns, "c=#0" to "c=#63", with others of its hash. Columns may come and go: a
column is 0 in events that lack it, and one that no learned event had is passed over in predicting.
"""

from typing import Any

from streamk.adapters.river.estimators import (
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
    StreamingMekaClassifier,
    StreamingMekaRegressor,
)
from streamk.extensions import find, provided

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "EigenProClassifier",
    "EigenProRegressor",
    "FeatureMachineClassifier",
    "FeatureMachineRegressor",
    "KernelClassifier",
    "KernelRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "NystromClassifier",
    "NystromRegressor",
    "StreamingMekaClassifier",
    "StreamingMekaRegressor",
    *provided("river"),
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Return an estimator of an extension, by its name."""
    found = find("river", name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
