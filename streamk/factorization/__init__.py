"""Approximations of kernel matrices that use their clusters."""

from streamk.factorization.approximation import Meka
from streamk.factorization.meka import meka

__all__ = ["Meka", "meka"]
