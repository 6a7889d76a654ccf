"""Recursive feature machines: kernels in a learned metric, single or in leaves of a tree."""
