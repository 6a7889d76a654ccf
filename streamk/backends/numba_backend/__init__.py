"""The compiled backend; see `streamk.backends` for its functions."""

from streamk.backends.host import current, fetch, get, put, xp
from streamk.backends.numba_backend.generator import frequencies, orthogonal, rotations, sketches
from streamk.backends.numba_backend.landmarks import choose, extend
from streamk.backends.numba_backend.learning import decay, descend, finish, loss_gradient, score
from streamk.backends.numba_backend.pairwise import pairwise, pairwise_product
from streamk.backends.numba_backend.projection import (
    accumulate,
    features,
    gradient,
    predict,
    step,
)
from streamk.backends.numba_backend.scaling import measure, rescale, rescale_each, spread
from streamk.backends.numba_backend.single import single

__all__ = [
    "accumulate",
    "choose",
    "current",
    "decay",
    "descend",
    "extend",
    "features",
    "fetch",
    "finish",
    "frequencies",
    "get",
    "gradient",
    "loss_gradient",
    "measure",
    "orthogonal",
    "pairwise",
    "pairwise_product",
    "predict",
    "put",
    "rescale",
    "rescale_each",
    "rotations",
    "score",
    "single",
    "sketches",
    "spread",
    "step",
    "xp",
]
