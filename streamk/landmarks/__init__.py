"""Landmarks: points chosen to span a kernel, and the Nyström approximations that they make."""

from collections.abc import Callable

from streamk.landmarks.baselines import k_means, leverage_scores, uniform
from streamk.landmarks.incremental import Admission, Change, IncrementalOasis, Removal, carried
from streamk.landmarks.matrices import Diffusion
from streamk.landmarks.nystrom import Landmarks, nystrom
from streamk.landmarks.oasis import oasis
from streamk.landmarks.rpcholesky import block_rpcholesky, rpcholesky
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

METHODS: dict[str, Callable[..., Landmarks]] = {
    "oasis": oasis,
    "uniform": uniform,
    "k-means": k_means,
    "leverage-scores": leverage_scores,
    "rpcholesky": rpcholesky,
    "block-rpcholesky": block_rpcholesky,
}
"""Methods by name. All take X, a kernel, `max_landmarks`, `seed`, `dtype` and `threads`."""
