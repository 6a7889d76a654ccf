"""The paper's Tables I to III: error and seconds, by problem, kernel and method.

MATLAB on an iMac with a 2.7 GHz processor; Table III in C++ on 192 cores at 2.83 GHz.
"""

from __future__ import annotations

Figure = tuple[float, float]

METHODS = ("oASIS", "uniform", "leverage scores", "k-means", "Farahat")

_EXPLICIT: dict[tuple[str, str], tuple[Figure, ...]] = {
    ("Two Moons", "gaussian"): (
        (1.00e-6, 1.20),
        (2.14e-3, 0.01),
        (9.46e-4, 3.96),
        (1.05e-3, 0.38),
        (8.31e-7, 19.7),
    ),
    ("Two Moons", "diffusion"): (
        (1.10e-6, 1.16),
        (1.22e-2, 0.01),
        (7.45e-3, 4.00),
        (5.49e-3, 1.21),
        (1.11e-6, 19.6),
    ),
    ("Abalone", "gaussian"): (
        (1.23e-6, 2.60),
        (2.65e-3, 0.01),
        (5.23e-4, 35.8),
        (1.73e-3, 0.84),
        (2.85e-7, 64.8),
    ),
    ("Abalone", "diffusion"): (
        (1.62e-6, 2.51),
        (3.76e-1, 0.01),
        (1.47e-1, 35.9),
        (3.24e-1, 8.26),
        (5.61e-7, 64.7),
    ),
    ("BORG", "gaussian"): (
        (5.30e-2, 4.71),
        (3.90e-1, 0.01),
        (4.31e-1, 252.0),
        (8.89e-2, 2.53),
        (2.75e-2, 176.0),
    ),
    ("BORG", "diffusion"): (
        (6.29e-2, 4.73),
        (3.90e-1, 0.01),
        (4.23e-1, 244.0),
        (7.70e-2, 48.3),
        (2.78e-2, 174.0),
    ),
}
EXPLICIT: dict[tuple[str, str, str], Figure] = {
    (*problem, method): figure
    for problem, figures in _EXPLICIT.items()
    for method, figure in zip(METHODS, figures, strict=True)
}
"""Table I."""

IMPLICIT: dict[str, Figure] = {
    "oASIS": (1.53e-6, 8260.0),
    "uniform": (7.48e-5, 946.0),
    "k-means": (7.30e-7, 188.0),
}
"""Table II, MNIST."""

PARALLEL: dict[str, Figure] = {"oASIS-P": (5.10e-6, 108.0), "uniform": (5.90e-4, 279.0)}
"""Table III, Two Moons."""
