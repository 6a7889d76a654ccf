"""Landmarks: points chosen to span a kernel, and the Nyström approximations that they make."""

from streamk.landmarks.matrices import Diffusion
from streamk.landmarks.nystrom import Landmarks, nystrom
from streamk.landmarks.oasis import oasis

__all__ = ["Diffusion", "Landmarks", "nystrom", "oasis"]
