"""Doubly stochastic gradients beside their paper (Dai et al. 2014) and beside NORMA.

rate     Theorem 4: how fast the error falls with t, by regularization and rule of steps
storage  the table of section 6: bytes and microseconds by t, beside NORMA
ladder   several step sizes side by side, beside each of them, on eight streams

How each figure is taken stands above its part.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from benchmarks import common
from benchmarks.common import Part, cell, mean
from benchmarks.data import Dataset, Directory, load
from streamk.errors import InvalidInput
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic, Ladder, create
from streamk.learners.common.steps import InverseTime, Step

# --- ladder ---------------------------------------------------------------------------------------
#
# The ladder, `doubly-stochastic`'s rule of steps by default, beside each of its sizes, on streams.
#
# The model is `doubly-stochastic` as the command makes it: 2,048 random features of the Gaussian
# kernel behind the running scale of columns and labels, a step an event. Each event is predicted
# and then learned, the first 20,000 of a stream; cadata, cpusmall, house_16H and letter in a random
# order for each seed, the others in theirs. Sizes are in units of one over the curvature of the
# loss; the ratio is to the best of them in hindsight, which differs from stream to stream and seed
# to seed. "fixed" is a step of 1 for classes and of 1/2 for numbers, in their own units. Rates are
# medians over the seeds.

LADDER_SETS = (
    "cadata_california_housing",
    "cpusmall",
    "house_16H",
    "beijing_pm25",
    "letter",
    "elec2",
    "rialto",
    "covtype_subset93k",
)
SHUFFLED = LADDER_SETS[:3] + LADDER_SETS[4:5]
LADDER_SEEDS, LADDER_EVENTS = 5, 20_000
SIZES = (1.0, 0.25, 1 / 16, 1 / 64)
CURVATURES = {"classification": 0.5, "regression": 1.0}
_LEAST = 1e-4
Numbers = NDArray[Any]


def measure_ladder(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Losses, accuracies or errors, and rates, by data set and step."""
    found: dict[str, Any] = {}
    for name in LADDER_SETS:
        stream = load(name, data, quick=quick)
        runs = [_ordered(stream, seed) for seed in range(2 if quick else LADDER_SEEDS)]
        task = stream.task
        fixed = 1.0 if task == "classification" else 0.5
        steps = {"ladder": Ladder(), "fixed": fixed} | {
            f"{size:g}": size / CURVATURES[task] for size in SIZES
        }
        one: dict[str, Any] = {"events": len(runs[0]), "task": task, "steps": {}}
        for label, step in steps.items():
            each = [_progressive(run, task, step, seed) for seed, run in enumerate(runs)]
            one["steps"][label] = {key: mean([run[key] for run in each]) for key in each[0]}
        found[name] = one
        common.note(f"  {name}: {one['steps']['ladder']}")
    return found


def _ordered(stream: Dataset, seed: int) -> Dataset:
    """The first events that have a label, in the order in which they are learned."""
    rows = np.flatnonzero(stream.y == stream.y)
    if stream.name in SHUFFLED:
        rows = np.random.default_rng(seed).permutation(rows)
    rows = rows[:LADDER_EVENTS]
    return Dataset(stream.name, stream.X[rows], stream.y[rows], stream.columns)


def _progressive(stream: Dataset, task: str, step: Any, seed: int) -> dict[str, float]:
    """Figures of predictions before learning, event by event."""
    model = create("doubly-stochastic", task=task, seed=seed, step=step)
    y = (stream.y * 1).tolist()
    began = time.perf_counter()
    answers = model.predict_then_learn_many(stream.X, y)
    seconds = time.perf_counter() - began
    rate = {"rate": len(y) / seconds}
    if answers.probabilities is None:
        errors = answers.predictions[1:] - np.array(y[1:])
        return {"RMSE": float(np.square(errors).mean() ** 0.5), **rate}
    right = [said == label for said, label in zip(answers.predictions[1:], y[1:], strict=True)]
    places = [model.classes.index(label) for label in y[1:]]
    given = np.nan_to_num(answers.probabilities[1:][np.arange(len(y) - 1), places])
    loss = float(-np.log(np.maximum(given, _LEAST)).mean())
    return {"log loss": loss, "accuracy": float(np.mean(right)), **rate}


def render_ladder(found: Mapping[str, Any]) -> str:
    """A line for each data set and step."""
    rows = []
    for name, one in found.items():
        first = "RMSE" if one["task"] == "regression" else "log loss"
        best = np.min([one["steps"][f"{size:g}"][first]["values"] for size in SIZES], axis=0)
        short = name.partition("_")[0]
        for step, figures in one["steps"].items():
            values = figures[first]
            ratio = mean((np.array(values["values"]) / best).tolist())
            digits = 4 if values["mean"] < 10.0 else 2 if values["mean"] < 1000.0 else 0
            rows.append(
                [
                    f"{short}: {step}",
                    cell(values, digits),
                    cell(figures["accuracy"]) if "accuracy" in figures else "",
                    cell(ratio, 3),
                    f"{np.median(figures['rate']['values']):,.0f}",
                ]
            )
    header = ["step=", "log loss or RMSE", "accuracy", "to the best size", "events/s"]
    return common.table(header, rows)


# --- problems -------------------------------------------------------------------------------------
#
# What the methods share: the width of the kernel.

PAIRED = 4000
"""Events whose distances have the median."""


def median_distance(X: Numbers, seed: int = 0) -> float:
    """Return the median distance of pairs of rows that differ."""
    rows = np.random.default_rng(seed).permutation(len(X))[:PAIRED]
    distances = pdist(X[rows])
    return float(np.median(distances[distances > 0.0]))


# --- rivals_expansion -----------------------------------------------------------------------------
#
# Sums of Gaussian kernels at centers, which grow, in single precision.

BLOCK = 256
"""Events whose kernel values with all centers are one product of matrices."""
_CENTERS = 4096
"""Centers of a product: its values then stay in the cache for the exponential."""


def gaussian(X: Numbers, Z: Numbers, gamma: float) -> Numbers:
    """Kernel values (n, m) of rows X (n, d) and Z (m, d)."""
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Z, Z)
    squares -= 2.0 * (X @ Z.T)
    np.maximum(squares, 0.0, out=squares)
    squares *= -gamma
    np.exp(squares, out=squares)
    return np.asarray(squares)


class Expansion:
    """``f(x) = sum_j a_j k(z_j, x)``; arrays double as centers are added.

    Parameters
    ----------
    gamma : float
    """

    def __init__(self, gamma: float) -> None:
        self.gamma, self.size = gamma, 0
        self._centers = np.zeros((0, 0), np.float32)
        self._coefficients = np.zeros(0, np.float64)

    @property
    def coefficients(self) -> Numbers:
        """The a_j, float64 (size,), to be changed in place."""
        return self._coefficients[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of the centers and coefficients in use."""
        return self.size * (4 * self._centers.shape[1] + 8)

    def add(self, X: Numbers, coefficients: Numbers) -> None:
        """Append centers (m, d) with their coefficients (m,)."""
        stop = self.size + len(X)
        if stop > len(self._centers):
            room = max(BLOCK, 2 * len(self._centers), stop)
            centers, numbers = np.zeros((room, X.shape[1]), np.float32), np.zeros(room)
            if self.size:
                centers[: self.size] = self._centers[: self.size]
                numbers[: self.size] = self.coefficients
            self._centers, self._coefficients = centers, numbers
        self._centers[self.size : stop] = X
        self._coefficients[self.size : stop] = coefficients
        self.size = stop

    def scores(self, X: Numbers) -> Numbers:
        """f(x) of rows (n, d), float64 (n,)."""
        found = np.zeros(len(X))
        for at in range(0, len(X), BLOCK):
            rows = X[at : at + BLOCK]
            for begin in range(0, self.size, _CENTERS):
                some = slice(begin, min(begin + _CENTERS, self.size))
                numbers = self._coefficients[some].astype(np.float32)
                K = gaussian(rows, self._centers[some], self.gamma)
                found[at : at + len(rows)] += K @ numbers
        return found


# --- rate -----------------------------------------------------------------------------------------
#
# Theorem 4: how fast the learned function comes to the optimum, in powers of t.
#
# Events are drawn from a set of 400 points, uniform on [-1, 1]^2, whose labels are a function of
# the Gaussian kernel's space and normal noise, as the paper draws from a fixed set. The optimum f*
# of ``mean (f - y)^2 / 2 + nu/2 |f|^2`` over such events is kernel ridge regression on the set,
# which is solved exactly. Algorithm 1 is run as it is printed, one event and one random feature a
# step, in double precision, to 2^15 steps. E|f_t - f*|^2 is the mean over 200 other points and ten
# seeds; its slope is that of a straight line through its logarithms at t = 2^11, 2^11.5, ... 2^15,
# and the interval of the slope is that of five pairs of seeds.
#
# Theorem 4 promises 1/t where theta nu is in (1, 2), here 1.5. Rules: "theta / t" is the theorem's;
# "theta / (t + t0)" has t0 = theta^2: the noise of one random feature makes E f^2 greater by
# a factor of some 1 + gamma^2, which the regularization's 1 - 2 gamma nu outweighs where gamma is
# below 2 nu. With theta / t it is not before t = theta^2, and f has grown until then. "The
# learner's" is its `InverseTime(theta)`, where that has an offset of its own.

POINTS, TESTED, SPREAD = 400, 200, 0.1
BANDWIDTH = 0.5
GAMMA = 1.0 / (2.0 * BANDWIDTH**2)
REGULARIZATIONS = (1.0, 0.1, 0.03, 0.01)
C = 1.5
FIRST, LAST = 11, 15
"""Powers of two between which the slope is taken."""
GROUPS, RATE_SEEDS = 5, 2
"""Groups of seeds, and seeds in each."""
GOAL = (-1.15, -0.85)
DEFAULT = "the learner's"
RULES = ("theta / t", "theta / (t + t0)", DEFAULT)


def rule(name: str, theta: float) -> Step:
    """Return the step sizes of a name."""
    if name == DEFAULT:
        return InverseTime(theta)
    return InverseTime(theta, offset=0.0 if name == RULES[0] else theta**2)


def measure_rate(*, quick: bool) -> dict[str, Any]:
    """Mean squared distances to the optimum by t, and their slope, by rule and regularization."""
    first, last = (3, 6) if quick else (FIRST, LAST)
    stops = np.unique(np.round(2.0 ** np.arange(first, last + 0.25, 0.5)).astype(int))
    rows = []
    for nu in REGULARIZATIONS[:2] if quick else REGULARIZATIONS:
        for name in RULES:
            steps = rule(name, C / nu)
            groups = [
                _group(nu, name, stops, range(group * RATE_SEEDS, (group + 1) * RATE_SEEDS))
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


def render_rate(found: Mapping[str, Any]) -> str:
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


# --- rivals_norma ---------------------------------------------------------------------------------
#
# NORMA: stochastic gradient descent in the space of the kernel, an event a step.
#
# Step t on an event (x, y) makes f to ``(1 - g_t nu) f + g_t y k(x, .)`` if ``y f(x) < 1``, else to
# ``(1 - g_t nu) f`` (Kivinen, Smola and Williamson 2004, section III, soft margin loss). Steps are
# taken one after the other; the kernel values of a block of events are found together.


class Norma:
    """NORMA with the hinge loss, without truncation and intercept.

    Parameters
    ----------
    gamma : float
        Of the kernel.
    nu : float
        Regularization.
    step : Step
        g_t, one of the learner's own rules.
    """

    def __init__(self, gamma: float, nu: float, step: Step) -> None:
        self.expansion, self._nu, self._step, self._t = Expansion(gamma), nu, step, 0

    def learn(self, first: int, X: Numbers, y: Numbers) -> None:
        """Steps on events (n, d) with labels -1 and +1, in their order."""
        for at in range(0, len(X), BLOCK):
            self._learn(np.asarray(X[at : at + BLOCK], np.float32), y[at : at + BLOCK])

    def _learn(self, X: Numbers, y: Numbers) -> None:
        sizes = self._step.sizes(self._t + 1, len(X))
        F, K = self.expansion.scores(X), gaussian(X, X, self.expansion.gamma)
        coefficients = np.zeros(len(X))
        decay = _steps(F, K, y.astype(np.float64), sizes, self._nu, coefficients)
        self.expansion.coefficients[:] *= decay
        added = np.flatnonzero(coefficients)
        self.expansion.add(X[added], coefficients[added])
        self._t += len(X)

    def scores(self, X: Numbers) -> Numbers:
        """f(x) of rows (n, d)."""
        return self.expansion.scores(np.asarray(X, np.float32))


@numba.njit(cache=True)
def _steps(F: Any, K: Any, y: Any, sizes: Any, nu: float, coefficients: Any) -> float:
    """Take the steps of a block: F (n,) are its scores before; return how much f has shrunk."""
    shrunk = 1.0
    for j in range(len(y)):
        decay = 1.0 - sizes[j] * nu
        margin = y[j] * F[j]
        shrunk *= decay
        for i in range(j):
            coefficients[i] *= decay
        if margin < 1.0:
            coefficients[j] = sizes[j] * y[j]
        for i in range(j + 1, len(y)):
            F[i] = decay * F[i] + coefficients[j] * K[j, i]
    return shrunk


# --- storage --------------------------------------------------------------------------------------
#
# The table of section 6: storage and time by the events learned, ours and NORMA.
#
# Events are those of covtype (54 columns) and of MNIST (784), class 2 and 8 against the rest. Ours
# draws one random feature for each event, in blocks of 64 for batches of 64, NORMA keeps the events
# that it made an error on, or nearly. "regenerated" keeps nothing of its features
# (``cache_bytes=0``) and "Hadamard" some eight bytes of each. Stored is what a saved model has:
# coefficients, and NORMA's centers. Memory has what is kept of features, too. Microseconds are of
# an event among 1,024 that are learned, and among as many that are predicted, at that size, in
# processor time of one thread; means of five seeds.

STORAGE_SETS = {"covtype_subset93k": 2, "mnist": 8}
"""With the class that is +1."""
STORAGE_EVENTS = (1 << 10, 1 << 12, 1 << 14)
TIMED = 1024
AT_ONCE = 64
STORAGE_SEEDS = 5
NU = 1e-5


class _Ours:
    """The learner with a feature for each event."""

    def __init__(self, bandwidth: float, seed: int, options: Mapping[str, Any]) -> None:
        self._model = DoublyStochastic(
            Gaussian(bandwidth=bandwidth),
            loss="hinge",
            classes=(-1, 1),
            seed=seed,
            step=InverseTime(1000.0, offset=500.0),
            regularization=NU,
            batch_size=AT_ONCE,
            block_size=AT_ONCE,
            max_features=1 << 17,
            threads=1,
            **options,
        )

    def learn(self, X: Numbers, y: Numbers) -> None:
        self._model.learn_many(X, y)

    def scores(self, X: Numbers) -> Numbers:
        return self._model.decision_many(X)

    def sizes(self) -> tuple[int, int, int]:
        """Return features, bytes of a saved model and bytes in memory."""
        stored = sum(array.nbytes for array in self._model.state().arrays.values())
        return self._model.n_features, stored, self._model.nbytes


class _Norma:
    """NORMA, whose centers are events."""

    def __init__(self, bandwidth: float, seed: int, options: Mapping[str, Any]) -> None:
        self._model = Norma(1.0 / (2.0 * bandwidth**2), NU, InverseTime(1000.0, offset=500.0))

    def learn(self, X: Numbers, y: Numbers) -> None:
        self._model.learn(0, X, y)

    def scores(self, X: Numbers) -> Numbers:
        return self._model.scores(X)

    def sizes(self) -> tuple[int, int, int]:
        """Return centers, bytes of a saved model and bytes in memory."""
        expansion = self._model.expansion
        return expansion.size, expansion.nbytes, expansion.nbytes


METHODS: dict[str, Callable[[float, int], Any]] = {
    "ours, Hadamard": lambda b, seed: _Ours(b, seed, {"sampler": "hadamard"}),
    "ours, regenerated": lambda b, seed: _Ours(b, seed, {"cache_bytes": 0}),
    "NORMA": lambda b, seed: _Norma(b, seed, {}),
}


def measure_storage(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Sizes and times of each method by the events learned."""
    rows = []
    for name, positive in STORAGE_SETS.items():
        stream = load(name, data, quick=quick)
        X = stream.X / np.maximum(np.abs(stream.X).max(axis=0), 1.0).astype(np.float32)
        y = np.where(stream.y == positive, 1, -1)
        events, timed = ((64, 128), 64) if quick else (STORAGE_EVENTS, TIMED)
        for method, make in METHODS.items():
            found: list[list[dict[str, float]]] = [[] for _ in events]
            for seed in range(2 if quick else STORAGE_SEEDS):
                order = np.random.default_rng(seed).permutation(len(X))
                bandwidth = median_distance(X[order[:1000]]) / 2**0.5
                _one(make(bandwidth, seed), X[order], y[order], events, timed, found)
            for at, figures in zip(events, found, strict=True):
                row = {key: mean([one[key] for one in figures]) for key in figures[0]}
                rows.append({"set": name, "columns": X.shape[1], "method": method, "t": at, **row})
                common.note(f"  {name} {method} {at}: {_text(rows[-1])}")
    return {"rows": rows}


def _one(
    model: Any,
    X: Numbers,
    y: Numbers,
    events: tuple[int, ...],
    timed: int,
    found: list[list[dict[str, float]]],
) -> None:
    """Learn events of a seed, and note sizes and times at each number of them."""
    model.learn(X[:AT_ONCE], y[:AT_ONCE])
    model.scores(X[:AT_ONCE])
    done = AT_ONCE
    for at, figures in zip(events, found, strict=True):
        start = max(done, at - timed)
        model.learn(X[done:start], y[done:start])
        count = at - start
        learning = 0.0
        if count:
            began = time.process_time()
            model.learn(X[start:at], y[start:at])
            learning = (time.process_time() - began) / count
        began = time.process_time()
        model.scores(X[-timed:])
        predicting = (time.process_time() - began) / timed
        terms, stored, memory = model.sizes()
        done = at
        figures.append(
            {
                "terms": terms,
                "stored": stored,
                "memory": memory,
                "learning": 1e6 * learning,
                "predicting": 1e6 * predicting,
            }
        )


def _text(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{row['terms']['mean']:,.0f}",
        f"{row['stored']['mean'] / 1e3:,.0f}",
        f"{row['memory']['mean'] / 1e3:,.0f}",
        cell(row["learning"], 1),
        cell(row["predicting"], 1),
    ]


def render_storage(found: Mapping[str, Any]) -> str:
    """A line for each method and number of events."""
    rows = [
        [f"{row['columns']} columns, {row['method']}, t = {row['t']:,}", *_text(row)]
        for row in found["rows"]
    ]
    header = ["section 6", "terms", "stored, kB", "memory, kB", "us to learn", "to predict"]
    return common.table(header, rows)


# --- the parts ------------------------------------------------------------------------------------

NAME = "doubly_stochastic"
PARTS = {
    "rate": Part(lambda o: measure_rate(quick=o.quick), render_rate),
    "storage": Part(lambda o: measure_storage(o.data, quick=o.quick), render_storage),
    "ladder": Part(lambda o: measure_ladder(o.data, quick=o.quick), render_ladder),
}

render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
