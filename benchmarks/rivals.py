"""The models that the river battery and others compare with ours, one setting each."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.streams import Event, Stream

# --- contestant -----------------------------------------------------------------------------------
#
# What takes part: a maker of models with River's interface, or with that of batches.

SEED = 1
BOTH = ("binary", "classes")
ALL = (*BOTH, "regression")


@cache
def _code() -> str:
    """A hash of this project's own code, which changes while its version stays."""
    digest = hashlib.sha256()
    for path in sorted((common.ROOT / "streamk").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Contestant:
    """A model, the same for every stream.

    `make` gets the stream for its task, columns and classes alone, and returns a model
    with `learn_one(x, y)` and `predict_proba_one(x)`, in regression `predict_one(x)`. With `batch`
    it is asked for so many events at once: `predict_many(events)` gives such answers, and
    `learn_many(events, labels)`. The first `alone` of these come one at a time.
    """

    name: str
    make: Callable[[Stream], Any]
    package: str
    settings: str
    """All that tells it from another contestant of that name; part of a kept run's key."""
    tasks: tuple[str, ...] = ALL
    of_numbers: str = ""
    """The settings in regression, where they are others."""
    batch: int = 0
    alone: int = 0
    most_columns: float = math.inf
    """It is not run on streams of more."""
    none: bool = False
    """A missing number is None in an event; else it is left out."""
    labels: bool = False
    """Events have the labels known last as columns."""

    @property
    def version(self) -> str | None:
        """Of its package, None where that is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def takes(self, stream: Stream) -> bool:
        """Return whether the stream is of a task that it knows, and not too wide."""
        return stream.task in self.tasks and len(stream.columns) <= self.most_columns

    def key(self, stream: Stream, delay: int) -> Mapping[str, Any]:
        """What a run's outcome depends on."""
        return {
            "contestant": self.name,
            "settings": (stream.task == "regression" and self.of_numbers) or self.settings,
            "package": self.package,
            "version": _code() if self.package == "streamk" else self.version,
            "seed": SEED,
            "stream": stream.name,
            **{k: v for k, v in stream.describe().items() if k in ("events", "sha256")},
            "delay": delay,
        }


def informed(contestant: Contestant, name: str) -> Contestant:
    """The contestant with the labels known last as columns."""
    told = "the last 3 labels known as columns, categories of classes"
    numbers = contestant.of_numbers and f"{contestant.of_numbers}; {told}"
    settings = f"{contestant.settings}; {told}"
    return replace(contestant, name=name, settings=settings, of_numbers=numbers, labels=True)


# --- batches --------------------------------------------------------------------------------------
#
# scikit-learn in batches of 256: StandardScaler, RBFSampler of 1,024 features, SGD.
#
# What is missing is the column's mean. In regression the numbers are standardised as they come. One
# contestant for each gamma of a grid; the best one of each stream is picked in hindsight.

_BATCH = 256
_FEATURES = 1024
GAMMAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def table(events: Sequence[Event], index: Mapping[Hashable, int]) -> NDArray[np.float64]:
    """Events as rows, a column each by its index: 0 for one that is left out, NaN for None."""
    X = np.zeros((len(events), len(index)))
    for row, event in zip(X, events, strict=True):
        row[[index[column] for column in event]] = list(event.values())
    return X


class _Sampled:
    def __init__(self, stream: Stream, gamma: float) -> None:
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.preprocessing import StandardScaler

        self._index = {column: j for j, column in enumerate(stream.columns)}
        self._labels = None if stream.task == "regression" else stream.labels
        self._scaler = StandardScaler()
        self._target = StandardScaler()
        self._sampler = RBFSampler(gamma=gamma, n_components=_FEATURES, random_state=SEED)
        self._sampler.fit(np.zeros((1, len(stream.columns))))
        if self._labels is None:
            self._model = SGDRegressor(random_state=SEED)
        else:
            self._model = SGDClassifier(loss="log_loss", random_state=SEED)
        self._ready = False

    def _features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = np.nan_to_num(self._scaler.transform(X), copy=False)
        features: NDArray[np.float64] = self._sampler.transform(scaled)
        return features

    def learn_many(self, events: Sequence[Event], labels: Sequence[Any]) -> None:
        X, y = table(events, self._index), np.array(labels)
        self._scaler.partial_fit(X)
        if self._labels is None:
            column = y[:, np.newaxis]
            y = self._target.partial_fit(column).transform(column)[:, 0]
            self._model.partial_fit(self._features(X), y)
        else:
            self._model.partial_fit(self._features(X), y, classes=self._labels)
        self._ready = True

    def predict_many(self, events: Sequence[Event]) -> Sequence[Mapping[Any, float] | float | None]:
        if not self._ready:
            return [None] * len(events)
        features = self._features(table(events, self._index))
        if self._labels is None:
            answers = self._model.predict(features)[:, np.newaxis]
            numbers: list[float] = self._target.inverse_transform(answers)[:, 0].tolist()
            return numbers
        shares = self._model.predict_proba(features).tolist()
        return [dict(zip(self._labels, row, strict=True)) for row in shares]


BATCHED = tuple(
    Contestant(
        f"sklearn, gamma {gamma:g}",
        partial(_Sampled, gamma=gamma),
        "scikit-learn",
        f"StandardScaler, RBFSampler(gamma={gamma:g}, {_FEATURES}), SGD, batches of {_BATCH}",
        batch=_BATCH,
        none=True,
    )
    for gamma in GAMMAS
)


# --- moa ------------------------------------------------------------------------------------------
#
# CapyMOA's ensembles and its nearest neighbours, in Java; columns and classes are told before.
#
# What is missing stays so for the ensembles. SAMkNN and SGBT (of the retrained trees) fail on it,
# and get the column's mean so far.


class _Moa:
    """A learner of CapyMOA with River's interface."""

    def __init__(self, stream: Stream, learner: str, options: Mapping[str, Any]) -> None:
        from capymoa import classifier
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        self._question, self._answered = Instance.from_array, LabeledInstance.from_array
        self._labels = stream.labels
        self._index = {label: j for j, label in enumerate(self._labels)}
        self._columns = {column: j for j, column in enumerate(stream.columns)}
        names = [f"c{j}" for j in self._columns.values()]
        classes = {"class": [str(label) for label in self._labels]}
        places = [str(place) for place in range(len(self._labels))]
        classes |= {f"c{self._columns[column]}": places for column in stream.nominal}
        self._schema = Schema.from_custom([*names, "class"], "class", classes)
        self._model = getattr(classifier, learner)(self._schema, **options)

    def _row(self, x: Event) -> NDArray[np.float64]:
        row = np.zeros(len(self._columns))
        row[[self._columns[column] for column in x]] = list(x.values())
        return row

    def predict_proba_one(self, x: Event) -> Mapping[Any, float] | None:
        answer = self._model.predict_proba(self._question(self._schema, self._row(x)))
        return None if answer is None else dict(zip(self._labels, answer.tolist(), strict=True))

    def learn_one(self, x: Event, y: Any) -> None:
        self._model.train(self._answered(self._schema, self._row(x), self._index[y]))


class Filled(_Moa):
    """One that gets the mean of a column for what is missing."""

    def __init__(self, stream: Stream, learner: str, options: Mapping[str, Any]) -> None:
        super().__init__(stream, learner, options)
        self._sums, self._counts = np.zeros((2, len(stream.columns)))

    def _row(self, x: Event) -> NDArray[np.float64]:
        row = super()._row(x)
        missing = np.isnan(row)
        if missing.any():
            row[missing] = (self._sums / np.maximum(self._counts, 1))[missing]
        return row

    def learn_one(self, x: Event, y: Any) -> None:
        row = super()._row(x)
        there = ~np.isnan(row)
        self._sums[there] += row[there]
        self._counts += there
        super().learn_one(x, y)


def moa(
    name: str, learner: str, settings: str, maker: type[_Moa] = _Moa, **options: Any
) -> Contestant:
    """The learner of that name in `capymoa.classifier`, with these options."""
    make = partial(maker, learner=learner, options=options)
    return Contestant(name, make, "capymoa", settings, BOTH, none=True)


MOA_MODELS = (
    moa("CapyMOA SAMkNN", "SAMkNN", "defaults", Filled, random_seed=SEED),
    moa(
        "CapyMOA ARF, 30",
        "AdaptiveRandomForestClassifier",
        "ensemble_size=30",
        ensemble_size=30,
        random_seed=SEED,
    ),
    moa(
        "CapyMOA SRP, 10",
        "StreamingRandomPatches",
        "ensemble_size=10",
        ensemble_size=10,
        random_seed=SEED,
    ),
)


# --- ours -----------------------------------------------------------------------------------------
#
# The River estimators of this project, with a seed: with their defaults, and without a metric.

NAME, PLAIN_NAME = "streamk", "streamk, no metric"
_WARM, _PLAIN_WARM = 1_300, 300
"""Events after which all is compiled that learning needs, with a feature machine and without."""


def make(stream: Stream, *, seed: int = SEED, warm: int = _WARM, **options: Any) -> Any:
    """A new estimator, after another one has learned a few events: numba compiles on the way."""
    from streamk.adapters.river import KernelClassifier, KernelRegressor

    regression = stream.task == "regression"
    maker: Any = KernelRegressor if regression else KernelClassifier
    other = maker(seed=seed, **options)
    for x, y in islice(stream.first(warm).events(none=True), warm):
        (other.predict_one if regression else other.predict_proba_one)(x)
        other.learn_one(x, y)
    return maker(seed=seed, **options)


OURS = Contestant(
    NAME, make, "streamk", "KernelClassifier or KernelRegressor, defaults, seed=1", none=True
)
PLAIN = Contestant(
    PLAIN_NAME,
    partial(make, warm=_PLAIN_WARM, external_experts=()),
    OURS.package,
    f"{OURS.settings}, external_experts=()",
    none=True,
)
"""Ours without a feature machine among the experts."""


# --- rivers ---------------------------------------------------------------------------------------
#
# River's models with their default options, but for ten members where a model is an ensemble.
#
# In regression all stand behind a StandardScaler: the linear models in the leaves of River's trees
# diverge without one. So does AMF for classes, too: where it splits depends on the columns' ranges,
# and with scaled ones it is the better on average.
#
# Linear regression on what RBFSampler gives diverges with its default step of 0.01, on every stream
# (River's sampler makes 100 features of each column, none of them scaled); it has one of 0.001.

_Maker = Callable[[Stream], Any]


def _linear(stream: Stream) -> Any:
    from river import linear_model

    if stream.task == "regression":
        return linear_model.LinearRegression()
    binary = stream.task == "binary"
    return linear_model.LogisticRegression() if binary else linear_model.SoftmaxRegression()


def _sampled(stream: Stream) -> Any:
    from river.feature_extraction import RBFSampler
    from river.linear_model import LinearRegression
    from river.optim import SGD

    regression = stream.task == "regression"
    last = LinearRegression(SGD(0.001)) if regression else _linear(stream)
    return RBFSampler(seed=SEED) | last


def _bayes(_: Stream) -> Any:
    from river.naive_bayes import GaussianNB

    return GaussianNB()


def _tree(stream: Stream) -> Any:
    from river import tree

    if stream.task == "regression":
        return tree.HoeffdingTreeRegressor()
    return tree.HoeffdingTreeClassifier()


def _adaptive_tree(stream: Stream) -> Any:
    from river import tree

    if stream.task == "regression":
        return tree.HoeffdingAdaptiveTreeRegressor(seed=SEED)
    return tree.HoeffdingAdaptiveTreeClassifier(seed=SEED)


def _adaptive_forest(stream: Stream) -> Any:
    from river import forest

    if stream.task == "regression":
        return forest.ARFRegressor(n_models=10, seed=SEED)
    return forest.ARFClassifier(n_models=10, seed=SEED, nominal_attributes=list(stream.nominal))


def _mondrian_forest(stream: Stream) -> Any:
    from river import forest

    if stream.task == "regression":
        return forest.AMFRegressor(n_estimators=10, seed=SEED)
    return forest.AMFClassifier(n_estimators=10, seed=SEED)


def _patches(stream: Stream) -> Any:
    from river import ensemble, tree

    if stream.task == "regression":
        return ensemble.SRPRegressor(n_models=10, seed=SEED)
    base = tree.HoeffdingTreeClassifier(
        grace_period=50, delta=0.01, nominal_attributes=list(stream.nominal)
    )  # SRP's own, that knows which columns are of classes
    return ensemble.SRPClassifier(base, n_models=10, seed=SEED)


def _bagging(_: Stream) -> Any:
    from river.ensemble import LeveragingBaggingClassifier
    from river.tree import HoeffdingTreeClassifier

    return LeveragingBaggingClassifier(HoeffdingTreeClassifier(), n_models=10, seed=SEED)


def _neighbours(stream: Stream) -> Any:
    from river import neighbors

    engine = neighbors.SWINN(seed=SEED)
    if stream.task == "regression":
        return neighbors.KNNRegressor(engine=engine)
    return neighbors.KNNClassifier(engine=engine)


class _LastNumber:
    """The last number that was learned."""

    last: float | None = None

    def predict_one(self, _: Any) -> float | None:
        return self.last

    def learn_one(self, _: Any, y: float) -> None:
        self.last = y


def _no_change(stream: Stream) -> Any:
    from river.dummy import NoChangeClassifier

    return _LastNumber() if stream.task == "regression" else NoChangeClassifier()


def _usual(stream: Stream) -> Any:
    from river import dummy, stats

    if stream.task == "regression":
        return dummy.StatisticRegressor(stats.Mean())
    return dummy.PriorClassifier()


BASELINES = ("no change", "majority, mean")


def _scaled(make: _Maker, stream: Stream) -> Any:
    from river.preprocessing import StandardScaler

    return StandardScaler() | make(stream)


def _scaled_numbers(make: _Maker, stream: Stream) -> Any:
    return _scaled(make, stream) if stream.task == "regression" else make(stream)


def _river(
    name: str,
    make: _Maker,
    settings: str,
    tasks: tuple[str, ...] = ALL,
    *,
    scaled: bool = False,
) -> Contestant:
    """A model behind a StandardScaler, always or in regression alone."""
    if scaled:
        return Contestant(
            name, partial(_scaled, make), "river", f"StandardScaler, {settings}", tasks
        )
    behind = f"StandardScaler, {settings}" if "regression" in tasks else ""
    maker = partial(_scaled_numbers, make)
    return Contestant(name, maker, "river", settings, tasks, of_numbers=behind)


RIVER_MODELS = (
    Contestant("no change", _no_change, "river", "the last label"),
    Contestant("majority, mean", _usual, "river", "the most frequent label, the mean"),
    _river("River linear", _linear, "logistic, softmax or linear", scaled=True),
    _river("River Hoeffding tree", _tree, "defaults"),
    _river("River naive Bayes", _bayes, "GaussianNB, defaults", BOTH),
    _river("River HAT", _adaptive_tree, "defaults"),
    _river("River AMF, 10", _mondrian_forest, "n_estimators=10", scaled=True),
    _river("River ARF, 10", _adaptive_forest, "n_models=10"),
    _river("River kNN", _neighbours, "SWINN, defaults", scaled=True),
    _river(
        "River RBFSampler",
        _sampled,
        "RBFSampler, as linear; regression: SGD(0.001)",
        scaled=True,
    ),
    _river("River SRP, 10", _patches, "n_models=10"),
    _river("River lev. bag., 10", _bagging, "HoeffdingTreeClassifier, n_models=10", BOTH),
)
"""The quick ones first."""


# --- vowpal ---------------------------------------------------------------------------------------
#
# Vowpal Wabbit: online linear models, also of all pairs of columns, with its usual losses.
#
# One of its settings is VW's default, one is the customary choice for pairs; all twelve are the
# grid from which the best one of each stream is picked in hindsight. In regression the numbers are
# standardised as they come: VW goes to numbers far from 0 in steps that are too small to arrive.

_PAIRS = "-q :: -b 22"


class Vowpal:
    """Events in VW's text form, `label | column:value ...`; what is missing is left out."""

    def __init__(self, stream: Stream, options: str) -> None:
        from river import stats

        self._names = {column: f"c{j}" for j, column in enumerate(stream.columns)}
        self._labels = [] if stream.task == "regression" else stream.labels
        self._task = stream.task
        binary = self._task == "binary"
        self._index = {y: 2 * j - 1 if binary else j + 1 for j, y in enumerate(self._labels)}
        loss = {
            "binary": "--loss_function logistic --link logistic",
            "classes": f"--loss_function logistic --oaa {len(self._labels)} --probabilities",
            "regression": "",
        }[self._task]
        self._mean, self._variance = stats.Mean(), stats.Var(ddof=0)
        self._options = f"--quiet {loss} {options}"
        self._scales: list[tuple[float, float]] = []

    @cached_property
    def _workspace(self) -> Any:
        from vowpalwabbit import Workspace

        return Workspace(self._options)

    def _text(self, x: Event) -> str:
        names = self._names
        return "| " + " ".join([f"{names[column]}:{value}" for column, value in x.items()])

    def predict_proba_one(self, x: Event) -> Mapping[Any, float]:
        return self._shares(self._workspace.predict(self._text(x)))

    def _shares(self, answer: Any) -> Mapping[Any, float]:
        if self._task == "binary":
            return {False: 1 - answer, True: answer}
        return dict(zip(self._labels, answer, strict=True))

    def predict_one(self, x: Event) -> float:
        answer: float = self._workspace.predict(self._text(x))
        return self._mean.get() + answer * self._spread

    @property
    def _spread(self) -> float:
        return math.sqrt(self._variance.get()) or 1.0

    def _example(self, x: Event, y: Any) -> str:
        if self._task == "regression":
            self._mean.update(y)
            self._variance.update(y)
            label = (y - self._mean.get()) / self._spread
        else:
            label = self._index[y]
        return f"{label} {self._text(x)}"

    def learn_one(self, x: Event, y: Any) -> None:
        self._workspace.learn(self._example(x, y))

    def write(self, events: Sequence[tuple[Event, Any]], path: Path) -> None:
        """The events in VW's form as a file; numbers as they are learned one by one."""
        with path.open("w", encoding="utf-8") as file:
            for x, y in events:
                self._scales.append((self._mean.get(), self._spread))
                file.write(f"{self._example(x, y)}\n")

    def learn_file(self, given: Path, said: Path) -> None:
        """Predict, then learn each event of a file by VW's own loop, that of the command `vw`."""
        from vowpalwabbit import Workspace

        Workspace(f"{self._options} -d {given} -p {said}").finish()

    def read(self, said: Path) -> list[Any]:
        """What it predicted, as `predict_one` or `predict_proba_one` says it."""
        lines = said.read_text(encoding="utf-8").splitlines()
        if self._task == "regression":
            both = zip(lines, self._scales, strict=True)
            return [mean + float(line) * spread for line, (mean, spread) in both]
        if self._task == "binary":
            return [self._shares(float(line)) for line in lines]
        return [self._shares([float(one.split(":")[1]) for one in line.split()]) for line in lines]


def _vowpal(name: str, options: str) -> Contestant:
    settings = f"loss of the task, numbers standardised; {options}"
    return Contestant(name, partial(Vowpal, options=options), "vowpalwabbit", settings)


VW = _vowpal("VW", "")
VW_PAIRS = _vowpal("VW -q :: -l 5", f"{_PAIRS} -l 5")
VOWPAL_GRID = tuple(
    _vowpal(f"VW {pairs}-l {rate:g} --power_t {power:g}", f"{options} -l {rate} {powers}")
    for pairs, options in (("", ""), ("-q :: ", _PAIRS))
    for power, powers in ((0.5, ""), (0, "--power_t 0"))
    for rate in (0.05, 0.5, 5)
    if (rate, power, pairs) not in ((0.5, 0.5, ""), (5, 0.5, "-q :: "))
)
"""The other ten settings of the grid."""


# --- field ----------------------------------------------------------------------------------------
#
# All contestants, and the groups of them that the tables ask for.

_CHEAP = RIVER_MODELS[:6]
_VOWPAL = (VW, VW_PAIRS, *VOWPAL_GRID)

RIVALS = (*_CHEAP, *_VOWPAL, *BATCHED, *MOA_MODELS, *RIVER_MODELS[6:])
"""In the order in which they run: those that take hours come last."""
CONTESTANTS = {contestant.name: contestant for contestant in (OURS, PLAIN, *RIVALS)}

RIVER = tuple(c.name for c in RIVER_MODELS if c.name not in BASELINES)
GRIDS = {
    "VW, best of 12": tuple(c.name for c in _VOWPAL),
    "sklearn, best of 7": tuple(c.name for c in BATCHED),
}
"""Rows that show, for each stream, the best one of these, picked in hindsight."""
SINGLES = (
    OURS.name,
    *RIVER,
    VW.name,
    VW_PAIRS.name,
    *(c.name for c in MOA_MODELS),
    *BASELINES,
)
"""Rows of one contestant with one setting: these are ranked, ours with its defaults alone."""
OTHERS = (*(c.name for c in MOA_MODELS), *(name for grid in GRIDS.values() for name in grid))
"""The rivals that are not River's, every setting by itself."""
