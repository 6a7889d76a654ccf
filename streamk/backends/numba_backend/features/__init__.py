"""Random features in explicit vectors: dense frequencies, and Walsh-Hadamard transforms."""
