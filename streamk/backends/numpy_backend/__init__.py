"""The reference backend: the same numbers as the compiled one, in plain NumPy."""

from streamk.backends.host import current, fetch, get, put, xp
from streamk.backends.numpy_backend.generator import (
    frequencies,
    orthogonal,
    philox,
    rotations,
    sketches,
)
from streamk.backends.numpy_backend.landmarks import choose, extend
from streamk.backends.numpy_backend.learning import (
    crammer_singer,
    decay,
    descend,
    finish,
    loss_gradient,
    loss_values,
    score,
    sigmoid,
    softmax,
    targets,
)
from streamk.backends.numpy_backend.pairwise import pairwise, pairwise_product
from streamk.backends.numpy_backend.projection import (
    accumulate,
    features,
    gradient,
    predict,
    single,
    step,
)
from streamk.backends.numpy_backend.scaling import measure, rescale, rescale_each, spread

__all__ = [
    "accumulate",
    "choose",
    "crammer_singer",
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
    "loss_values",
    "measure",
    "orthogonal",
    "pairwise",
    "pairwise_product",
    "philox",
    "predict",
    "put",
    "rescale",
    "rescale_each",
    "rotations",
    "score",
    "sigmoid",
    "single",
    "sketches",
    "softmax",
    "spread",
    "step",
    "targets",
    "xp",
]
