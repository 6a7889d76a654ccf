"""Approximations of kernel matrices that use their clusters."""
