"""The streaming learner without its metric, without its second order, and what the metric finds.

Second order: `FeatureMachine` solves the equations of kernel ridge regression, in blocks. First
order: `DoublyStochastic` takes a step along the gradient of each event, with the defaults of its
command (2,048 random features, steps of a ladder) and ``Matern(nu=0.5)`` of the bandwidth 1.5,
which is better for it than 6. Without a metric are `FeatureMachine(rounds=0)` and the same columns
standardized. The metric of the first-order learner is that of `rfm`, made where `FeatureMachine`
begins its own, of the last 1,600 events; then a new learner begins in the new metric with the last
4,096 events, whose mean and deviation are the unit of numbers.

Metrics are learned every 4,096 events, so that there are some after a change; "by default" they are
every 16,384, and so they are in the default model, where `FeatureMachine` is one of the experts;
"pool alone" is without it.
"L1" is the Laplace kernel of the L1 distance, by its bandwidth in units of sqrt(d); "L2" is
``Matern(nu=0.5)``, of which `FeatureMachine` itself takes the bandwidth 1.5 or 6.

Streams are 20,000 events of which the relevant columns are known; of those that change, others are
relevant from event 10,000 on. The share of the metric's diagonal in the relevant columns is that at
event 10,000, and that at the end. Errors are progressive, % or MAE, of the last 8,000 events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import QUICK, Directory

EVENTS = 20_000
HALF = EVENTS // 2
SCORED = 8_000
_BATCH = 500
_EVERY = 4_096
_LEARNED, _REPLAYED = 1_600, 4_096
_BANDWIDTH = 1.5

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Known:
    """Events (n, d) with labels, and the columns that these depend on, before and after half."""

    X: Numbers
    y: Numbers
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def task(self) -> str:
        return "regression" if self.y.dtype.kind == "f" else "classification"


# --- streams ------------------------------------------------------------------------------------


def _friedman(*, changes: bool) -> Known:
    """Friedman's function of five of ten columns; later of the other five."""
    rng = np.random.default_rng(1)
    X = rng.random((EVENTS, 10))
    before, after = tuple(range(5)), tuple(range(5, 10)) if changes else tuple(range(5))
    y = np.concatenate([_friedmans(X[:HALF, list(before)]), _friedmans(X[HALF:, list(after)])])
    return Known(X, y + rng.normal(size=EVENTS), before, after)


def _friedmans(Z: Numbers) -> Numbers:
    found: Numbers = (
        10 * np.sin(np.pi * Z[:, 0] * Z[:, 1])
        + 20 * (Z[:, 2] - 0.5) ** 2
        + 10 * Z[:, 3]
        + 5 * Z[:, 4]
    )
    return found


def _hyperplane(*, changes: bool) -> Known:
    """Sides of a plane through 5 of 20 columns, a tenth of the labels wrong; later 5 others."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(EVENTS, 20))
    before, after = tuple(range(5)), tuple(range(5, 10)) if changes else tuple(range(5))
    weights = rng.uniform(0.5, 1.5, 5)
    side = np.concatenate([X[:HALF, list(before)], X[HALF:, list(after)]]) @ weights > 0
    return Known(X, side ^ (rng.random(EVENTS) < 0.1), before, after)


def _river(name: str, before: tuple[int, ...], after: tuple[int, ...], *functions: int) -> Known:
    """A generator of River with one function, or two one after the other."""
    from river.datasets import synth

    noise = {"perturbation": 0.05} if name == "Agrawal" else {"noise": 0.1}
    parts = [
        getattr(synth, name)(function, seed=seed, **noise)
        for seed, function in enumerate(functions)
    ]
    events = [one for part in parts for one in islice(part, EVENTS // len(parts))]
    X = np.array([[float(value) for value in x.values()] for x, _ in events])
    return Known(X, np.array([bool(y) for _, y in events]), before, after)


STREAMS: dict[str, Callable[[], Known]] = {
    "Friedman": partial(_friedman, changes=False),
    "Friedman, changes": partial(_friedman, changes=True),
    "hyperplane": partial(_hyperplane, changes=False),
    "hyperplane, changes": partial(_hyperplane, changes=True),
    "SEA": partial(_river, "SEA", (0, 1), (0, 1), 0),
    # Salary, commission, age, education, car, zip code, value and years of the house, loan.
    "Agrawal": partial(_river, "Agrawal", (0, 1, 8), (0, 1, 8), 6),
    "Agrawal, changes": partial(_river, "Agrawal", (2,), (0, 1, 8), 0, 6),
}

# --- models -------------------------------------------------------------------------------------


@cache
def _beginnings() -> tuple[int, ...]:
    """Events at which `FeatureMachine` begins a metric."""
    from streamk.learners import FeatureMachine

    machine, step = FeatureMachine(task="regression", rounds=0, every=_EVERY), 64
    found: dict[int, None] = {}
    for n in range(step, EVENTS + 1, step):
        machine.learn_many(np.arange(n - step, n, dtype=np.float64)[:, None], np.arange(step))
        found[machine.last_beginning] = None
    return tuple(found)


class FirstOrder:
    """Steps along gradients, in the metric of the last events or in none."""

    def __init__(self, task: str, *, rounds: int) -> None:
        self._task, self._rounds = task, rounds
        self._X: Numbers = np.zeros((0, 0))
        self._y: Numbers = np.zeros(0)
        self._seen = 0
        self._middle, self._unit = 0.0, 1.0
        self._map: Callable[[Numbers], Numbers] = np.asarray
        self._learner = self._new()
        self.column_shares: Numbers = np.zeros(0)

    def _new(self) -> Any:
        from streamk.kernels import Matern
        from streamk.learners import DoublyStochastic, Ladder

        return DoublyStochastic(
            Matern(nu=0.5, bandwidth=_BANDWIDTH),
            loss="squared" if self._task == "regression" else "logistic",
            step=Ladder(),
            batch_size=1,
            block_size=2_048,
            max_features=2_048,
        )

    def predict_then_learn_many(self, X: Numbers, labels: Any) -> Any:
        """Predict a batch, learn it, and begin anew where a metric is due."""
        said = self._learner.predict_then_learn_many(self._map(X), self._inside(labels))
        kept = slice(-_REPLAYED, None)
        self._X = np.concatenate([self._X.reshape(-1, X.shape[1]), X])[kept]
        self._y = np.concatenate([self._y, np.asarray(labels, np.float64)])[kept]
        before, self._seen = self._seen, self._seen + len(X)
        found = said.predictions
        if self._task == "regression":
            found = found * self._unit + self._middle
        if any(before < due <= self._seen for due in _beginnings()):
            self._begin()
        return found

    def _inside(self, labels: Any) -> Any:
        """Return labels as the learner has them: classes as they are, numbers in their unit."""
        if self._task != "regression":
            return np.asarray(labels, bool).tolist()
        return (np.asarray(labels) - self._middle) / self._unit

    def _begin(self) -> None:
        from streamk.kernels import Matern
        from streamk.learners.rfm.machine import rfm

        kernel = Matern(nu=0.5, bandwidth=_BANDWIDTH)
        if self._task == "regression":
            self._middle, self._unit = float(self._y.mean()), float(self._y.std())
        X, y = self._X[-_LEARNED:], self._y[-_LEARNED:, None]
        machine = rfm(
            X, 2 * y - 1 if self._task != "regression" else y, kernel=kernel, rounds=self._rounds
        )
        self._map = lambda Z: machine.metric.mapped(machine.columns.scaled(Z))
        self.column_shares = machine.metric.shares
        self._learner = self._new()
        self._learner.learn_many(self._map(self._X), self._inside(self._y))


class SecondOrder:
    """`FeatureMachine`, of the kernel that is asked for."""

    def __init__(self, task: str, d: int, *, l1: float | None = None, **options: Any) -> None:
        from streamk.kernels import Laplacian
        from streamk.learners import FeatureMachine

        kernel = None if l1 is None else Laplacian(bandwidth=l1 * d**0.5)
        self._learner = FeatureMachine(kernel, task=task, **{"every": _EVERY, **options})

    def predict_then_learn_many(self, X: Numbers, labels: Any) -> Any:
        """Predict a batch and learn it."""
        return self._learner.predict_then_learn_many(X, labels).predictions

    @property
    def column_shares(self) -> Numbers:
        return self._learner.column_shares


class Pool:
    """The default model, or the same without this learner among its experts."""

    column_shares: Numbers = np.zeros(0)

    def __init__(self, task: str, _: int, *, expert: bool) -> None:
        from streamk.learners import MultiKernel

        experts = None if expert else ()
        self._learner = MultiKernel(task=task, seed=1, external_experts=experts)

    def predict_then_learn_many(self, X: Numbers, labels: Any) -> Any:
        """Predict a batch and learn it."""
        return self._learner.predict_then_learn_many(X, labels).predictions


PARTS: dict[str, Callable[[str, int], Any]] = {
    "neither": lambda task, _: FirstOrder(task, rounds=0),
    "metric": lambda task, _: FirstOrder(task, rounds=4),
    "2nd order": partial(SecondOrder, rounds=0),
    "both": SecondOrder,
    "by default": partial(SecondOrder, every=16_384),
    "pool alone": partial(Pool, expert=False),
    "default model": partial(Pool, expert=True),
}
KINDS: dict[str, Callable[[str, int], Any]] = {
    "L1, 1.5": partial(SecondOrder, l1=1.5, metric="diagonal"),
    "L1, 6": partial(SecondOrder, l1=6.0, metric="diagonal"),
    "L2, diagonal": partial(SecondOrder, metric="diagonal"),
    "L2, full": partial(SecondOrder, metric="full"),
}
MODELS = PARTS | KINDS


def measure(_: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors of the last events, and shares of the relevant columns, by stream and model."""
    found: dict[str, Any] = {}
    for name, make in STREAMS.items():
        stream = make()
        if quick:
            some = slice(HALF - QUICK, HALF + QUICK)
            stream = Known(stream.X[some], stream.y[some], stream.before, stream.after)
        found[name] = {"task": stream.task, "columns": stream.X.shape[1]}
        found[name] |= {"relevant": [len(stream.before), len(stream.after)], "models": {}}
        for model, new in MODELS.items():
            one = _run(stream, new(stream.task, stream.X.shape[1]))
            found[name]["models"][model] = one
            common.note(f"  {name}: {model}: {one}")
    return found


def _run(stream: Known, model: Any) -> dict[str, float]:
    """The error of the last events, and the shares at half and at the end."""
    n = len(stream.X)
    missed: list[Numbers] = []
    shares = []
    for start in range(0, n, _BATCH):
        some = stream.y[start : start + _BATCH]
        labels = some if stream.task == "regression" else some.tolist()
        said = model.predict_then_learn_many(stream.X[start : start + _BATCH], labels)
        wrong = np.array(said, object) != np.array(labels, object)
        missed.append(np.abs(said - some) if stream.task == "regression" else 100.0 * wrong)
        shares.append(model.column_shares)
    scored = np.concatenate(missed).astype(np.float64)[-SCORED:]
    middle = shares[max(0, n // 2 // _BATCH - 1)]
    found = {"error": float(scored.mean())}
    for key, columns, at in (
        ("before", stream.before, middle),
        ("after", stream.after, shares[-1]),
    ):
        if len(at):
            found[key] = float(at[list(columns)].sum())
    return found


def render(found: Mapping[str, Any]) -> str:
    """Errors, and the shares of the relevant columns beside those of a metric of equal ones."""
    shares = []
    metrics = ["metric", "both", *KINDS]
    for name, one in found.items():
        equal = [count / one["columns"] for count in one["relevant"]]
        cells = [
            _shares([one["models"][m].get(key) for key in ("before", "after")]) for m in metrics
        ]
        shares.append([name, _shares(equal), *cells])
    tables = (
        _errors(found, "last 8,000 events", PARTS),
        _errors(found, "the same by distance", KINDS),
        common.table(["relevant columns", "equal", *metrics], shares),
    )
    return "\n\n".join(tables)


def _errors(found: Mapping[str, Any], title: str, models: Mapping[str, Any]) -> str:
    rows = [
        [
            name + (" %" if one["task"] == "classification" else ""),
            *(f"{one['models'][m]['error']:.2f}" for m in models),
        ]
        for name, one in found.items()
    ]
    return common.table([title, *models], rows)


def _shares(two: list[float | None]) -> str:
    return " ".join("-" if share is None else f"{share:.2f}" for share in two)
