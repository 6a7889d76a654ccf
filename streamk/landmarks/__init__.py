"""Landmarks: the few points whose kernels stand for those of all."""

from streamk.landmarks.incremental import Admission, Change, IncrementalOasis, Removal, carried

__all__ = ["Admission", "Change", "IncrementalOasis", "Removal", "carried"]
