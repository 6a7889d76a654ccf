"""What the ways to choose l of n landmarks compute and move, counted by hand.

A step with k landmarks has products of the n rows with k numbers each. Kernel values (n l of them),
divisions and the choice itself are of lower order and left out; numbers have 8 bytes. Bytes are of
a cache that holds nothing between two passes.
"""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    flops: int
    bytes: int


def paper(n: int, landmarks: int) -> Work:
    """Equation 6: C q, the change of R, and the column sums of both.

    Each takes 2 n k flops; C is read, R is read and written, both are read.
    """
    pairs = n * landmarks**2 // 2
    return Work(6 * pairs, 8 * (1 + 2 + 2) * pairs)


def running(n: int, landmarks: int) -> Work:
    """The same without the column sums."""
    pairs = n * landmarks**2 // 2
    return Work(4 * pairs, 8 * (1 + 2) * pairs)


def cholesky(n: int, landmarks: int) -> Work:
    """The product of the factor with one of its rows."""
    pairs = n * landmarks**2 // 2
    return Work(2 * pairs, 8 * pairs)


def columns(n: int, landmarks: int, d: int) -> int:
    """Flops of the kernel's columns: differences, squares and sums (the exponential left out)."""
    return 3 * n * landmarks * d
