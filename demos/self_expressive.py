"""SEED: a union of subspaces found again by a few of its own points, and cleaned of noise.

    python demos/self_expressive.py [PICTURE.png]

A thousand points lie on five subspaces of four dimensions in 50. Oasis chooses landmarks among
them, and every point is written as a combination of at most four. The landmarks span the points
exactly once there are 20 of them, the rank; the codes tell which subspace a point is of, though
nobody said so; and what the codes leave out is mostly noise.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from streamk.landmarks import SelfExpressive, self_expressive

Matrix = NDArray[np.float64]

SUBSPACES, DIMENSION, COLUMNS, POINTS = 5, 4, 50, 200
RANK = SUBSPACES * DIMENSION
LANDMARKS = 30
NOISE = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
SHOWN = 0.1
BLUE, ORANGE, GREY, GREEN = "#0072b2", "#d55e00", "#8c8c8c", "#009e73"


def main() -> None:
    """Choose, code, cluster and denoise; print figures and draw them."""
    picture = Path(sys.argv[1] if len(sys.argv) > 1 else "self_expressive.png")
    rng = np.random.default_rng(1)
    clean, labels = union_of_subspaces(rng)
    directions = rng.normal(size=clean.shape)
    directions *= np.linalg.norm(clean) / np.linalg.norm(directions)

    recovery = recovered(clean, rng)
    exact = next(k for k, error in enumerate(recovery["oasis"][0], start=1) if error < 1e-10)
    print(f"{len(clean):,} points of rank {RANK}: exact with {exact} landmarks of oasis")

    coded = self_expressive(
        clean + SHOWN * directions, max_landmarks=LANDMARKS, sparsity=DIMENSION, error=0.0
    )
    found = matched(coded.cluster(SUBSPACES), labels)
    right = np.mean(found == labels)
    print(f"{SHOWN:.0%} noise, {LANDMARKS} landmarks: {right:.1%} of the points in their cluster")

    errors = denoised(clean, directions)
    at = NOISE.index(SHOWN)
    print(f"error of the codes {errors['codes'][at]:.1%} of the points instead of {SHOWN:.0%}")

    draw(picture, recovery, coded, labels, right, errors)
    print(f"drawn in {picture}")


def union_of_subspaces(rng: np.random.Generator) -> tuple[Matrix, NDArray[np.int64]]:
    """Points of many lengths on random subspaces, and which of them each is on."""
    parts = []
    for _ in range(SUBSPACES):
        basis, _ = np.linalg.qr(rng.normal(size=(COLUMNS, DIMENSION)))
        lengths = np.exp(0.7 * rng.normal(size=(POINTS, 1)))
        inside = rng.normal(size=(POINTS, DIMENSION))
        parts.append(lengths * inside @ basis.T)
    return np.concatenate(parts), np.repeat(np.arange(SUBSPACES), POINTS)


def relative(error: Matrix, of: Matrix) -> float:
    """Frobenius norm of an error, as a share."""
    return float(np.linalg.norm(error) / np.linalg.norm(of))


def recovered(X: Matrix, rng: np.random.Generator) -> dict[str, list[list[float]]]:
    """Error of the projection on the first k landmarks, and on k points drawn at random."""
    chosen = self_expressive(X, max_landmarks=RANK).indices
    drawn = [rng.permutation(len(X))[: RANK + 10] for _ in range(5)]

    def errors(indices: NDArray[np.int64]) -> list[float]:
        bases = (np.linalg.qr(X[indices[:k]].T)[0] for k in range(1, len(indices) + 1))
        return [relative(X - X @ basis @ basis.T, X) for basis in bases]

    return {"oasis": [errors(chosen)], "uniform": [errors(indices) for indices in drawn]}


def matched(found: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Clusters under the numbers of the subspaces that they agree with best."""
    counts = np.zeros((SUBSPACES, SUBSPACES))
    np.add.at(counts, (found, labels), 1)
    _, names = linear_sum_assignment(-counts)
    return np.asarray(names[found])


def denoised(clean: Matrix, directions: Matrix) -> dict[str, list[float]]:
    """Errors that codes and projections leave, at each level of noise."""
    errors: dict[str, list[float]] = {"projection": [], "codes": []}
    for level in NOISE:
        noisy = clean + level * directions
        coded = self_expressive(noisy, max_landmarks=LANDMARKS, sparsity=DIMENSION, error=0.0)
        errors["codes"].append(relative(coded.reconstruct() - clean, clean))
        errors["projection"].append(relative(coded.project(noisy) - clean, clean))
    return errors


def draw(
    path: Path,
    recovery: dict[str, list[list[float]]],
    coded: SelfExpressive,
    labels: NDArray[np.int64],
    right: float,
    errors: dict[str, list[float]],
) -> None:
    """Draw the recovery, the codes and the denoising side by side."""
    figure = Figure(figsize=(13, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, last = figure.subplots(1, 3, width_ratios=(1, 1.15, 1))
    draw_recovery(left, recovery)
    image = draw_codes(middle, coded, labels, right)
    figure.colorbar(image, ax=middle, label="size of the coefficient", shrink=0.85, pad=0.01)
    draw_errors(last, errors)
    for axes in (left, last):
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def draw_recovery(axes: Any, recovery: dict[str, list[list[float]]]) -> None:
    """Draw how fast landmarks come to span the points."""
    for n, errors in enumerate(recovery["uniform"]):
        label = "five uniform draws" if n == 0 else None
        axes.semilogy(range(1, len(errors) + 1), errors, color=GREY, linewidth=1.1, label=label)
    (errors,) = recovery["oasis"]
    axes.semilogy(
        range(1, len(errors) + 1), errors, "o-", color=BLUE, markersize=4, label="chosen by oasis"
    )
    axes.axvline(RANK, color=GREEN, linewidth=1, linestyle=(0, (4, 3)))
    axes.annotate(f"rank {RANK}", (RANK, 1e-4), (4, 0), textcoords="offset points", color=GREEN)
    axes.set(xlabel="landmarks", ylabel="|Z − PZ| / |Z|", xlim=(0, RANK + 10), ylim=(1e-17, 3))
    axes.set_title("Points without noise, recovered exactly", loc="left", fontsize=11)
    axes.legend(frameon=False, loc="center left", fontsize=9)


def draw_codes(axes: Any, coded: SelfExpressive, labels: NDArray[np.int64], right: float) -> Any:
    """Draw the codes, landmarks in the order of their subspaces."""
    owners = labels[coded.indices]
    order = np.argsort(owners, kind="stable")
    sizes = np.abs(coded.codes.toarray())[:, order]
    shown = np.ma.masked_equal(sizes.T, 0.0)
    image = axes.imshow(
        shown, aspect="auto", interpolation="none", cmap="Blues", norm=LogNorm(3e-3, sizes.max())
    )
    for edge in np.cumsum(np.bincount(owners, minlength=SUBSPACES))[:-1]:
        axes.axhline(edge - 0.5, color=ORANGE, linewidth=0.8)
    for edge in range(POINTS, len(labels), POINTS):
        axes.axvline(edge - 0.5, color=ORANGE, linewidth=0.8)
    axes.set(xlabel="points, subspace by subspace", ylabel="landmarks, subspace by subspace")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(
        f"Codes at {SHOWN:.0%} noise: {right:.1%} clustered right", loc="left", fontsize=11
    )
    return image


def draw_errors(axes: Any, errors: dict[str, list[float]]) -> None:
    """Draw the errors left against the noise."""
    axes.plot(NOISE, NOISE, color=GREY, linewidth=1.4, label="noisy points")
    axes.plot(
        NOISE,
        errors["projection"],
        "s-",
        color=ORANGE,
        markersize=4,
        label="on the landmarks' span",
    )
    axes.plot(
        NOISE,
        errors["codes"],
        "o-",
        color=BLUE,
        markersize=4,
        label=f"codes of {DIMENSION} landmarks",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.0%}")
    axes.set(
        xlabel="noise", ylabel="error against the clean points", xlim=(0, None), ylim=(0, None)
    )
    axes.set_title("Noise taken away", loc="left", fontsize=11)
    axes.legend(frameon=False, loc="upper left", fontsize=9)


if __name__ == "__main__":
    main()
