"""Approximations of kernel matrices that use the clusters of their points."""

from streamk.factorization.block import BlockKernel, block_kernel

__all__ = ["BlockKernel", "block_kernel"]
