"""Landmarks: points chosen to span a kernel, and the Nyström approximations that they make."""

from streamk.landmarks.incremental import Admission, Change, IncrementalOasis, Removal, carried
from streamk.landmarks.matrices import Diffusion
from streamk.landmarks.methods import (
    METHODS,
    block_rpcholesky,
    k_means,
    leverage_scores,
    oasis,
    rpcholesky,
    uniform,
)
from streamk.landmarks.nystrom import Landmarks, nystrom
from streamk.landmarks.self_expressive import SelfExpressive, self_expressive

__all__ = [
    "METHODS",
    "Admission",
    "Change",
    "Diffusion",
    "IncrementalOasis",
    "Landmarks",
    "Removal",
    "SelfExpressive",
    "block_rpcholesky",
    "carried",
    "k_means",
    "leverage_scores",
    "nystrom",
    "oasis",
    "rpcholesky",
    "self_expressive",
    "uniform",
]
