"""Recursive feature machines in batch, beside trees, plain kernels and the authors' package."""
