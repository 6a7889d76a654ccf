"""Landmarks: points chosen to span a kernel, and the Nyström approximations that they make."""

from streamk.landmarks.incremental import Admission, Change, IncrementalOasis, Removal, carried
from streamk.landmarks.matrices import Diffusion
from streamk.landmarks.nystrom import Landmarks, nystrom
from streamk.landmarks.oasis import oasis

__all__ = [
    "Admission",
    "Change",
    "Diffusion",
    "IncrementalOasis",
    "Landmarks",
    "Removal",
    "carried",
    "nystrom",
    "oasis",
]
