"""Recursive feature machines: kernels whose metric of the columns is learned."""
