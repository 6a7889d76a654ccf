"""Theorem 4: how fast the learned function comes to the optimum, in powers of t.

Events are drawn from a set of 400 points, uniform on [-1, 1]^2, whose labels are a function of the
Gaussian kernel's space and normal noise, as the paper draws from a fixed set. The optimum f* of
``mean (f - y)^2 / 2 + nu/2 |f|^2`` over such events is kernel ridge regression on the set, which
is solved exactly. Algorithm 1 is run as it is printed, one event and one random feature a step,
in double precision, to 2^15 steps. E|f_t - f*|^2 is the mean over 200 other points and ten seeds;
its slope is that of a straight line through its logarithms at t = 2^11, 2^11.5, ... 2^15, and the
interval of the slope is that of five pairs of seeds.

Theorem 4 promises 1/t where theta nu is in (1, 2), here 1.5. Rules: "theta / t" is the theorem's;
"theta / (t + t0)" has t0 = theta^2: the noise of one random feature makes E f^2 greater by
a factor of some 1 + gamma^2, which the regularization's 1 - 2 gamma nu outweighs where gamma is
below 2 nu. With theta / t it is not before t = theta^2, and f has grown until then. "The
learner's" is its `InverseTime(theta)`, where that has an offset of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.doubly_stochastic.rivals.expansion import gaussian
from benchmarks.doubly_stochastic.steps import default, inverse_time
from benchmarks.intervals import cell, mean
from streamk.errors import InvalidInput
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic
from streamk.learners.common.steps import Step

Numbers = NDArray[Any]

POINTS, TESTED, SPREAD = 400, 200, 0.1
BANDWIDTH = 0.5
GAMMA = 1.0 / (2.0 * BANDWIDTH**2)
REGULARIZATIONS = (1.0, 0.1, 0.03, 0.01)
C = 1.5
FIRST, LAST = 11, 15
"""Powers of two between which the slope is taken."""
GROUPS, SEEDS = 5, 2
"""Groups of seeds, and seeds in each."""
GOAL = (-1.15, -0.85)
DEFAULT = "the learner's"
RULES = ("theta / t", "theta / (t + t0)", DEFAULT)


def rule(name: str, theta: float) -> Step:
    """Return the step sizes of a name."""
    if name == DEFAULT:
        return default(theta)
    return inverse_time(theta, 0.0 if name == RULES[0] else theta**2)


def measure(_: Directory, *, quick: bool) -> dict[str, Any]:
    """Mean squared distances to the optimum by t, and their slope, by rule and regularization.

    The data, for which the other parts have their first argument, are generated.
    """
    first, last = (3, 6) if quick else (FIRST, LAST)
    stops = np.unique(np.round(2.0 ** np.arange(first, last + 0.25, 0.5)).astype(int))
    rows = []
    for nu in REGULARIZATIONS[:2] if quick else REGULARIZATIONS:
        for name in RULES:
            steps = rule(name, C / nu)
            if steps is None:
                continue
            groups = [
                _group(nu, name, stops, range(group * SEEDS, (group + 1) * SEEDS))
                for group in range(2 if quick else GROUPS)
            ]
            rows.append({"nu": nu, "rule": name, "step": steps.to_json()})
            rows[-1] |= _summary(stops, groups)
            common.note(f"  {rows[-1]}")
    return {"stops": stops.tolist(), "rows": rows}


def _summary(stops: Numbers, groups: list[Numbers]) -> dict[str, Any]:
    if not all(np.isfinite(one).all() for one in groups):
        return {"errors": None, "slope": None}
    together = np.mean(groups, axis=0)
    slopes = [slope(stops, one) for one in groups]
    return {"errors": [mean(list(at)) for at in np.transpose(groups)], "slope": mean(slopes)} | {
        "fitted": slope(stops, together)
    }


def slope(t: Numbers, errors: Numbers) -> float:
    """Return the slope of the straight line through the logarithms."""
    return float(np.polyfit(np.log(t), np.log(errors), 1)[0])


def _group(nu: float, name: str, stops: Numbers, seeds: range) -> Numbers:
    """Return mean squared distances at the stops, of the mean over seeds."""
    return np.asarray(np.mean([distances(nu, name, stops, seed) for seed in seeds], axis=0))


def target(nu: float) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return points, labels, other points and the optimum f* at these."""
    random = np.random.default_rng(0)
    X, other = random.uniform(-1, 1, (POINTS, 2)), random.uniform(-1, 1, (TESTED, 2))
    centers = random.uniform(-1, 1, (10, 2))
    weights = random.normal(size=10)
    y = gaussian(X, centers, GAMMA) @ weights + SPREAD * random.normal(size=POINTS)
    K = gaussian(X, X, GAMMA)
    coefficients = np.linalg.solve(K + POINTS * nu * np.eye(POINTS), y)
    return X, y, other, gaussian(other, X, GAMMA) @ coefficients


def distances(nu: float, name: str, stops: Numbers, seed: int) -> Numbers:
    """Return mean squared distances of one run to the optimum; infinite from an overflow on."""
    X, y, other, optimum = target(nu)
    model = DoublyStochastic(
        Gaussian(bandwidth=BANDWIDTH),
        loss="squared",
        seed=seed,
        step=rule(name, C / nu),
        regularization=nu,
        batch_size=1,
        block_size=1,
        max_features=int(stops[-1]),
        dtype="float64",
        threads=1,
    )
    drawn = np.random.default_rng(1000 + seed).integers(0, POINTS, int(stops[-1]))
    found, at = np.full(len(stops), np.inf), 0
    for place, stop in enumerate(stops):
        try:
            model.learn_many(X[drawn[at:stop]], y[drawn[at:stop]])
        except InvalidInput:
            break
        at = int(stop)
        f = model.decision_many(other)[:, 0]
        found[place] = float(np.mean((f - optimum) ** 2))
    return found


def render(found: Mapping[str, Any]) -> str:
    """A line for each regularization and rule."""
    rows = []
    shown = [0, len(found["stops"]) // 2, len(found["stops"]) - 1]
    for row in found["rows"]:
        name = f"nu {row['nu']:g}, {row['rule']}"
        if row["slope"] is None:
            rows.append([name, "overflows", *[""] * len(shown), ""])
            continue
        errors = [f"{row['errors'][place]['mean']:.2e}" for place in shown]
        met = "yes" if GOAL[0] <= row["slope"]["mean"] <= GOAL[1] else "no"
        rows.append([name, cell(row["slope"], 2), *errors, met])
    header = [f"t = {found['stops'][place]:,}" for place in shown]
    goal = f"in [{GOAL[0]:g}, {GOAL[1]:g}]"
    return common.table(["E|f_t - f*|^2", "slope", *header, goal], rows)
