"""Positive semidefinite matrices by their entries: of points and a kernel, or given as they are.

A matrix is never formed. What selects landmarks reads its diagonal, and the entries between many
rows and a few landmarks at a time. A landmark is a vector of numbers that all rows can be crossed
with, wherever they are: its point, with its weight in a diffusion kernel, or the number of its
column in a matrix that is given.
"""

from streamk.landmarks.matrices.as_matrix import as_matrix
from streamk.landmarks.matrices.base import PRECOMPUTED, Indices, Matrix, Numbers, Rows
from streamk.landmarks.matrices.given import GivenMatrix, GivenRows, MatrixRows
from streamk.landmarks.matrices.of_points import Diffusion, DiffusionMatrix, KernelMatrix, PointRows

__all__ = [
    "PRECOMPUTED",
    "Diffusion",
    "DiffusionMatrix",
    "GivenMatrix",
    "GivenRows",
    "Indices",
    "KernelMatrix",
    "Matrix",
    "MatrixRows",
    "Numbers",
    "PointRows",
    "Rows",
    "as_matrix",
]
