"""Figure 1 of the paper: errors of approximate kernels by the cost of a prediction.

5,000 rows drawn anew for each seed; pixels divided by 255, other columns scaled to [0, 1]. The
kernel is Gaussian, of the median distance of two points as bandwidth, or of half of it. Errors are
``|G - G~| / |G|`` in the Frobenius norm, on the whole matrix. USPS and protein, which the paper
has, are replaced by sets at hand.

Landmarks are the centres of k-means. To m landmarks 5 m pseudo landmarks are added, or all products
where these are fewer. Weights are found on sampled rows, 1,000 or ten for each column; "equation 5"
has such weights for the landmarks alone, so that what pseudo landmarks do can be told from what the
weights do.

The cost is the multiplications and additions of a prediction of one output, over those of a
distance: m d + m for Nyström, m d + p + (m + p) for products, m d + p m + (m + p) for bounds.
Exponentials are not counted, of which bounds take p more. "ratio" is the error over that of Nyström
with as many more landmarks as cost the same; between its numbers of landmarks the logarithm is
interpolated. Below 1, pseudo landmarks pay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.fast_prediction import meka_basis
from benchmarks.intervals import cell, mean
from benchmarks.meka.problems import unit
from streamk.kernels import Gaussian
from streamk.landmarks import Landmarks, k_means
from streamk.prediction import PseudoLandmarks, PseudoNystrom
from streamk.prediction.pseudo import distances

Matrix = NDArray[np.float64]

SETS = ("mnist", "pendigits", "letter")
ROWS, QUICK_ROWS = 5000, 200
BANDWIDTHS = (1.0, 0.5)
"""In median distances of two points."""
LANDMARKS, QUICK_LANDMARKS = (2, 5, 10, 15, 20, 25, 30), (2, 5)
MORE, QUICK_MORE = (40, 60, 90, 130, 200, 320), (10, 30)
"""Landmarks that Nyström has for the cost of pseudo landmarks."""
EACH = 5
"""Pseudo landmarks to a landmark."""
NYSTROM, WEIGHTED = "Nyström", "equation 5"
KINDS = ("products", "lower", "upper")
SEEDS = 5


def measure(data: Directory, *, quick: bool, seeds: int = SEEDS) -> dict[str, Any]:
    """Errors and costs by data set, bandwidth, method and landmarks; MEKA's by basis."""
    found = []
    for name in SETS:
        for factor in BANDWIDTHS[: 1 if quick else None]:
            runs = [
                _run(name, data, factor, seed, quick=quick) for seed in range(1 if quick else seeds)
            ]
            lines = _gathered([lines for _, lines in runs])
            one = {"set": name, "factor": factor, "bandwidth": mean([b for b, _ in runs])}
            found.append(one | {"lines": lines})
            common.note(_brief(found[-1]))
    return {"sets": found, "meka": meka_basis.measure(data, quick=quick, seeds=seeds)}


def _run(
    name: str, data: Directory, factor: float, seed: int, *, quick: bool
) -> tuple[float, dict[str, dict[int, dict[str, float]]]]:
    """The bandwidth; errors and costs by method and number of landmarks."""
    X = _points(name, data, seed, quick=quick)
    apart = distances(X[: len(X) // 4], X[len(X) // 4 : len(X) // 2])
    kernel = Gaussian(bandwidth=factor * float(np.median(apart)))
    G = kernel.pairwise(X)
    lines: dict[str, dict[int, dict[str, float]]] = {}
    for m in QUICK_LANDMARKS if quick else LANDMARKS:
        plain = k_means(X, kernel, max_landmarks=m, seed=seed, threads=1)
        lines.setdefault(NYSTROM, {})[m] = _nystrom(G, plain)
        for method, pseudo in _methods(X, kernel, plain, seed).items():
            F = PseudoNystrom.of(X, pseudo, seed=seed).transform(X)
            cost = pseudo.multiply_adds / X.shape[1]
            lines.setdefault(method, {})[m] = {"cost": cost, "error": _error(G, F)}
    most = max(one["cost"] for kind in KINDS for one in lines[kind].values())
    for m in QUICK_MORE if quick else MORE:
        if max(one["cost"] for one in lines[NYSTROM].values()) < most:
            plain = k_means(X, kernel, max_landmarks=m, seed=seed, threads=1)
            lines[NYSTROM][m] = _nystrom(G, plain)
    _compare(lines)
    return kernel.bandwidth, lines


def _methods(
    X: Matrix, kernel: Gaussian, plain: Landmarks, seed: int
) -> dict[str, PseudoLandmarks]:
    """Pseudo landmarks that are added to the landmarks, by method."""
    Z = plain.points
    assert Z is not None
    m = len(Z)
    counts = {WEIGHTED: 0, "products": min(EACH * m, m * (m + 1) // 2)}
    return {
        method: PseudoLandmarks.of(
            X,
            kernel,
            landmarks=Z,
            n_pseudo=counts.get(method, EACH * m),
            kind="products" if method == WEIGHTED else method,
            seed=seed,
        )
        for method in (WEIGHTED, *KINDS)
    }


def _compare(lines: dict[str, dict[int, dict[str, float]]]) -> None:
    """Divide each error by that of Nyström at equal cost."""
    plain = lines[NYSTROM].values()
    costs, errors = (np.log([one[key] for one in plain]) for key in ("cost", "error"))
    for method in (WEIGHTED, *KINDS):
        for one in lines[method].values():
            theirs = float(np.exp(np.interp(np.log(one["cost"]), costs, errors)))
            one["ratio"] = one["error"] / theirs


def _nystrom(G: Matrix, plain: Landmarks) -> dict[str, float]:
    d = plain.matrix.points.shape[1]
    return {"cost": len(plain) * (d + 1) / d, "error": _error(G, plain.factor)}


def _points(name: str, data: Directory, seed: int, *, quick: bool) -> Matrix:
    X = load(name, data, quick=quick).X.astype(np.float64)
    count = min(QUICK_ROWS if quick else ROWS, len(X))
    scaled = X / 255.0 if name == "mnist" else unit(X)
    return scaled[np.random.default_rng(seed).choice(len(X), count, replace=False)]


def _error(G: Matrix, F: Matrix) -> float:
    missed = 0.0
    for first in range(0, len(G), 500):
        rows = slice(first, first + 500)
        missed += float(np.linalg.norm(G[rows] - F[rows] @ F.T)) ** 2
    return float(np.sqrt(missed) / np.linalg.norm(G))


def _gathered(runs: list[Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Means over seeds of each figure."""
    return {
        method: {
            str(m): {key: mean([run[method][m][key] for run in runs]) for key in one}
            for m, one in lines.items()
        }
        for method, lines in runs[0].items()
    }


def _brief(one: Mapping[str, Any]) -> str:
    last = str(max(map(int, one["lines"]["products"])))
    errors = {method: one["lines"][method][last] for method in (NYSTROM, WEIGHTED, *KINDS)}
    text = ", ".join(f"{method} {of['error']['mean']:.4f}" for method, of in errors.items())
    return f"  {one['set']} {one['factor']:g}: {last} landmarks, {text}"


# --- tables ---------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Errors, costs, and the comparison at equal cost, a table each; then MEKA's bases."""
    tables = []
    for one in found["sets"]:
        lines, title = one["lines"], f"{one['set']}, σ = {one['bandwidth']['mean']:.3g}"
        errors, costs = [], []
        for m in lines["products"]:
            methods = (NYSTROM, WEIGHTED, *KINDS)
            errors.append([m, *(cell(lines[method][m]["error"]) for method in methods)])
            each = (f"{lines[method][m]['cost']['mean']:.1f}" for method in (NYSTROM, *KINDS))
            costs.append([m, *each, *(cell(lines[kind][m]["ratio"], 2) for kind in KINDS)])
        tables += [
            common.table([f"{title}: m, errors", NYSTROM, WEIGHTED, *KINDS], errors),
            common.table(
                [f"{title}: m, cost", NYSTROM, *KINDS, *(f"{kind}, ratio" for kind in KINDS)],
                costs,
            ),
        ]
    return "\n\n".join([*tables, meka_basis.render(found["meka"])])
