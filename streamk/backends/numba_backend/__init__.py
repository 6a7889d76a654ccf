"""The compiled backend; see `streamk.backends` for its functions."""

from streamk.backends.numba_backend.dense import accumulate, features, gradient, step
from streamk.backends.numba_backend.generator import frequencies, philox
from streamk.backends.numba_backend.learning import descend, finish, loss_gradient
from streamk.backends.numba_backend.scaling import measure, rescale, spread

__all__ = [
    "accumulate",
    "descend",
    "features",
    "finish",
    "frequencies",
    "gradient",
    "loss_gradient",
    "measure",
    "philox",
    "rescale",
    "spread",
    "step",
]
