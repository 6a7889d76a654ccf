"""What the paper has in its tables (Si, Hsieh and Dhillon, JMLR 18, 2017)."""

from __future__ import annotations

METHODS = ("Nys", "RNys", "KNys", "ENys", "RKS", "Fastfood", "MEKA")
"""In the order of its columns."""

_ERRORS = {
    "pendigits": (0.1325, 0.1361, 0.0828, 0.2881, 0.4404, 0.4726, 0.0811),
    "ijcnn1": (0.0423, 0.0385, 0.0234, 0.1113, 0.2972, 0.2975, 0.0082),
    "covtype_subset93k": (0.3700, 0.3738, 0.2752, 0.5646, 0.8825, 0.8920, 0.1192),
}
ERRORS = {name: dict(zip(METHODS, row, strict=True)) for name, row in _ERRORS.items()}
"""Table 7; its covtype has 581,012 rows."""

_RIDGE = {
    "wine_quality": (0.7514, 0.7555, 0.7568, 0.7732, 0.7459, 0.7509, 0.7375),
    "cadata_california_housing": (0.1504, 0.1505, 0.1386, 0.1462, 0.1334, 0.1502, 0.1209),
    "cpusmall": (8.8747, 8.6973, 6.9638, 9.2831, 9.6795, 10.2601, 6.1130),
    "covtype_subset93k": (0.8197, 0.8216, 0.8172, 0.8454, 0.8011, 0.8026, 0.7106),
}
RIDGE = {name: dict(zip(METHODS, row, strict=True)) for name, row in _RIDGE.items()}
"""Table 8, root of the mean squared error."""

STAGES = {
    "pendigits": (0.05, 0.69, 0.35),
    "ijcnn1": (0.15, 1.27, 0.84),
    "covtype_subset93k": (1.83, 9.82, 12.23),
}
"""Table 5, seconds: clusters, bases, links."""

RANKS = {
    "k-means": (
        (16, 14, 13, 7, 7),
        (14, 29, 13, 9, 9),
        (13, 13, 20, 10, 10),
        (7, 9, 10, 29, 11),
        (7, 9, 10, 11, 28),
    ),
    "random": (
        (139, 99, 101, 44, 45),
        (99, 116, 86, 43, 44),
        (101, 86, 131, 46, 47),
        (44, 43, 46, 47, 45),
        (45, 44, 47, 45, 49),
    ),
}
"""Table 3."""

MACHINES = {
    "ijcnn1": {
        "BKA-SVM": (98.49, 5.0),
        "LIBSVM": (98.69, 115.0),
        "LIBSVM, a fifth": (98.24, 6.0),
        "LLSVM": (98.23, 38.0),
        "Fastfood": (95.95, 87.0),
    },
    "covtype_subset93k": {
        "BKA-SVM": (96.05, 436.0),
        "LIBSVM": (96.15, 83631.0),
        "LIBSVM, a fifth": (92.46, 5330.0),
        "LLSVM": (84.21, 4451.0),
        "Fastfood": (80.1, 8550.0),
    },
}
"""Table 2, accuracy in per cent and seconds; its covtype has 581,012 rows."""
