"""Approximations of kernel matrices that use their clusters."""

from streamk.factorization.approximation import Meka
from streamk.factorization.block import BlockKernel, block_kernel
from streamk.factorization.meka import meka

__all__ = ["BlockKernel", "Meka", "block_kernel", "meka"]
