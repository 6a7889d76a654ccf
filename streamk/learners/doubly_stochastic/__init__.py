"""Doubly stochastic functional gradients: random features that grow with the stream (Dai 2014)."""
