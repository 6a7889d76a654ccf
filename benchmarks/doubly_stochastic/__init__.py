"""Doubly stochastic gradients, beside their paper: Dai et al., NIPS 2014."""
