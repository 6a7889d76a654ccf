"""Landmarks: points chosen to span a kernel, and the Nyström approximations that they make."""

from collections.abc import Callable

from streamk.landmarks.changes import Admission, Change, Removal, carried
from streamk.landmarks.incremental import IncrementalOasis
from streamk.landmarks.k_means import k_means
from streamk.landmarks.leverage import leverage_scores
from streamk.landmarks.matrices import Diffusion
from streamk.landmarks.nystrom import Landmarks, nystrom
from streamk.landmarks.oasis import oasis
from streamk.landmarks.rpcholesky import block_rpcholesky, rpcholesky
from streamk.landmarks.self_expressive import SelfExpressive, self_expressive
from streamk.landmarks.uniform import uniform

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

METHODS: dict[str, Callable[..., Landmarks]] = {
    "oasis": oasis,
    "uniform": uniform,
    "k-means": k_means,
    "leverage-scores": leverage_scores,
    "rpcholesky": rpcholesky,
    "block-rpcholesky": block_rpcholesky,
}
"""Methods by name. All take X, a kernel, `max_landmarks`, `seed`, `dtype` and `threads`."""
