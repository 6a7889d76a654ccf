"""Coverage of intervals and prediction sets, and alarms: how far they can be relied on.

coverage  intervals and prediction sets of 90% on all streams of the river battery
jobs      alarms of whole jobs: false ones by kind and model, and delays on data sets

How each figure is taken stands above its part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import DataError, Directory, load
from benchmarks.streams import STREAMS, Stream
from benchmarks.streams import load as load_stream
from connectors.base import Rows
from connectors.memory import MemorySink, MemorySource
from streamk.conformal import AdaptiveIntervals, AdaptiveQuantile, AdaptiveSets, Regions, Said
from streamk.engine import Details, Engine, Watch
from streamk.engine import Stream as Events
from streamk.learners import MultiKernel, create

# --- coverage -------------------------------------------------------------------------------------
#
# Intervals and prediction sets of 90% on the streams of the river battery.
#
# The default model, without its feature machine, predicts and learns each event, labels at once or
# 48 events late, and `streamk.conformal` gives each prediction its interval or set.
#
# A set is never empty, so it holds at least what the predicted class alone holds: where that is
# right more often than the level, coverage is the accuracy and the sets have one class. The lowest
# coverage is of 1,000 successive events of those that do not overlap, of shorter streams of a third
# of them.

LATE, LEVEL = 48, 0.9
_AT_ONCE = 1000
"""Events handed over together where labels come at once."""


def measure_coverage(data: Any, *, quick: bool) -> dict[str, Any]:
    """Figures by stream and delay."""
    found: dict[str, Any] = {}
    for name in STREAMS:
        try:
            stream = load_stream(name, data, quick=quick, events=0)
        except DataError:
            if not quick:
                raise
            continue
        found[name] = {"events": len(stream), "task": stream.task}
        for delay in (0, LATE):
            found[name][str(delay)] = one = _figures(stream, delay)
            ours = one["figures"]
            common.note(f"  {name}, {delay} late: {ours['coverage']:.4f}, {ours['size']:.3f}")
    return found


def _figures(stream: Stream, delay: int) -> dict[str, Any]:
    said, labels = predicted(stream, delay), stream.y.tolist()
    regions: Regions = AdaptiveIntervals() if stream.task == "regression" else AdaptiveSets()
    unit = 1.0 if stream.task != "regression" else float(np.std(stream.y))
    given = _thresholds(regions.scores(said, labels).tolist(), delay)
    measured = regions.measures(said, labels, given)
    held, sizes = measured[~np.isnan(measured[:, 0])].T
    found = {
        "coverage": float(held.mean()),
        "lowest": lowest(held),
        "size": float(sizes.mean()) / unit,
    }
    right = [p == y for p, y in zip(said.predictions, labels, strict=True) if p is not None]
    return {"accuracy": None if unit != 1.0 else float(np.mean(right)), "figures": found}


def _thresholds(scores: list[float], delay: int) -> NDArray[np.float64]:
    """What each score is given, where one is learned after the `delay`-th; NaN is none."""
    rule, given = AdaptiveQuantile(LEVEL), list[Any]()

    def learn(t: int, late: int) -> None:
        if scores[t] == scores[t]:
            rule.learn(scores[t], given[t], late)

    for t in range(len(scores)):
        if t >= delay > 0:
            learn(t - delay, delay - 1)
        given.append(rule.threshold())
        if not delay:
            learn(t, 0)
    return np.array([one[0] if isinstance(one, tuple) else one for one in given])


def lowest(held: NDArray[np.float64]) -> float:
    """The least share of 1,000 successive events, or of a third of fewer than 3,000."""
    n = min(1000, len(held) // 3)
    whole = held[: len(held) // n * n].reshape(-1, n)
    return float(whole.mean(axis=1).min())


def predicted(stream: Stream, delay: int) -> Said:
    """Predictions of many kernels for the events of a stream."""
    task = "regression" if stream.task == "regression" else "classification"
    model = MultiKernel(task=task, seed=1, threads=1, external_experts=())
    X = np.asarray(stream.table(), np.float64)
    model.add_columns(tuple(range(X.shape[1])))
    y, parts = stream.y.tolist(), []
    if delay:
        for t in range(len(X)):
            if t >= delay:
                old = t - delay
                model.learn_held_many(X[old : old + 1], [y[old]], [old])
            parts.append(model.predict_held_many(X[t : t + 1], [t]))
    else:
        for start in range(0, len(X), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            parts.append(model.predict_then_learn_many(X[some], y[some]))
    predictions = np.concatenate([part.predictions for part in parts])
    if task == "regression":
        return Said(predictions)
    P = np.full((len(X), len(model.classes)), np.nan)
    start = 0
    for _, part in parts:
        assert part is not None
        P[start : start + len(part), : part.shape[1]] = part
        start += len(part)
    return Said(predictions, P, model.classes)


def render_coverage(found: Mapping[str, Any]) -> str:
    """A line for each stream."""
    header = ["labels at once, and 48 late", "accuracies"]
    for when in ("at once", "late"):
        header += [f"{when}: held", "lowest", "size"]
    rows = []
    for name, one in found.items():
        both = [one["0"], one[str(LATE)]]
        accuracies = [
            "-" if part["accuracy"] is None else _percent(part["accuracy"]) for part in both
        ]
        row = [f"{name}, {one['events']:,} events", " ".join(dict.fromkeys(accuracies))]
        for part in both:
            ours = part["figures"]
            row += [_percent(ours["coverage"]), _percent(ours["lowest"]), f"{ours['size']:.2f}"]
        rows.append(row)
    return common.table(header, rows)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


# --- jobs -----------------------------------------------------------------------------------------
#
# Alarms of whole jobs: how many are false, and how late they come where something changes.
#
# Jobs over independent events of one law, generated and of data sets that are shuffled: each alarm
# is a false one, and what stands here is their mean number in 100,000 events, by kind, and the most
# in one stream. Two models learn, `multi-kernel` without its feature machine and
# `doubly-stochastic`. A change of a data set then comes after 12,000 shuffled events: a column that
# is 0, labels that are others, classes that nobody has seen, noise. "delay" is the median number of
# events to the first alarm of the kind.

MODELS = {"multi-kernel": 1, "doubly-stochastic": 4}
"""Streams of each."""
EVENTS, BEFORE, AFTER, MOST = 100_000, 12_000, 3_000, 20_000
QUICK = (1_500, 200, 90, 1_000)
KINDS = ("error", "confidence", "calibration", "coverage", "covariate_drift")
SHUFFLED = (
    *("elec2", "covtype_subset93k", "gmsc", "letter", "airlines_h2o_44k", "a9a"),
    *("rialto", "ijcnn1", "pendigits", "kdd99_10pct"),
)

Floats = NDArray[np.float64]
Draw = np.random.Generator
Labelled = tuple[Floats, list[Any]]


def easy(rng: Draw, n: int) -> Labelled:
    """Return events whose class is nearly always plain."""
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.05 * rng.normal(size=n) > 0).tolist()


def noisy(rng: Draw, n: int) -> Labelled:
    """Return events of which a quarter cannot be told."""
    X = rng.normal(size=(n, 1))
    return X, (X[:, 0] + rng.normal(size=n) > 0).tolist()


def chance(rng: Draw, n: int) -> Labelled:
    """Return events that say nothing of their class."""
    return rng.normal(size=(n, 3)), (rng.random(n) < 0.3).tolist()


def imbalanced(rng: Draw, n: int) -> Labelled:
    """Return events of which 2% are of the other class."""
    X = rng.normal(size=(n, 4))
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(5.0 - 1.5 * X[:, 0]))).tolist()


def classes(rng: Draw, n: int) -> Labelled:
    """Return events of ten classes that overlap."""
    found, centers = rng.integers(10, size=n), np.random.default_rng(0).normal(size=(10, 5))
    return 1.2 * centers[found] + rng.normal(size=(n, 5)), [f"k{k}" for k in found.tolist()]


def curved(rng: Draw, n: int) -> Labelled:
    """Return events whose classes no line parts, a tenth of which are wrong."""
    X = rng.normal(size=(n, 6))
    return X, ((X[:, 0] * X[:, 1] > 0) ^ (rng.random(n) < 0.1)).tolist()


def texts(rng: Draw, n: int) -> Labelled:
    """Return events of two texts and a number, the texts as columns of 0 and 1."""
    first, second = np.eye(8)[rng.integers(8, size=n)], np.eye(20)[rng.integers(20, size=n)]
    X = np.hstack([first, second, rng.normal(size=(n, 1))])
    w = np.append(np.random.default_rng(1).normal(size=28), 0.5)
    return X, (X @ w + rng.normal(size=n) > 0).tolist()


def numbers(rng: Draw, n: int) -> Labelled:
    """Return events whose label is a number."""
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.5 * rng.normal(size=n)).tolist()


def tails(rng: Draw, n: int) -> Labelled:
    """Return events whose label is a number of heavy tails."""
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.standard_t(2, size=n)).tolist()


LAWS: tuple[Callable[[Draw, int], Labelled], ...] = (
    *(easy, noisy, chance, imbalanced, classes, curved, texts, numbers, tails),
)


def _zero(column: int) -> Callable[[Draw, Floats, list[Any]], None]:
    def change(rng: Draw, X: Floats, y: list[Any]) -> None:
        del rng, y
        X[:, column] = 0.0

    return change


def _labels(rng: Draw, X: Floats, y: list[Any]) -> None:
    del rng
    known = sorted(set(y))
    other = dict(zip(known, known[1:] + known[:1], strict=True))
    for i in np.flatnonzero(X[:, 1] > np.median(X[:, 1])).tolist():
        y[i] = other[y[i]]


def _noise(rng: Draw, X: Floats, y: list[Any]) -> None:
    del y
    X += 0.5 * X.std(axis=0) * rng.normal(size=X.shape)


CHANGES: dict[str, tuple[str, Callable[[Draw, Floats, list[Any]], None] | None]] = {
    "elec2, other labels of half the events": ("elec2", _labels),
    "elec2, noise": ("elec2", _noise),
    "covtype, a column is 0": ("covtype_subset93k", _zero(0)),
    "covtype, other classes": ("covtype_subset93k", None),
    "letter, a column is 0": ("letter", _zero(6)),
    "letter, noise": ("letter", _noise),
    "gmsc, a column is 0": ("gmsc", _zero(0)),
}


def _changed(data: Directory, kind: str, sizes: tuple[int, ...], *, quick: bool, seed: int) -> Any:
    name, change = CHANGES[kind]
    stream, (_, before, after, _) = load(name, data, quick=quick), sizes
    rng = np.random.default_rng([seed, 31])
    order = rng.permutation(len(stream))
    if change is None:  # the two most frequent classes first, then the others
        y = np.asarray(stream.y)
        found, counts = np.unique(y, return_counts=True)
        common_ones = np.isin(y[order], found[np.argsort(counts)[-2:]])
        order = np.append(order[common_ones][:before], order[~common_ones][:after])
    order = order[: before + after]
    X, y = np.array(stream.X[order], np.float64), np.asarray(stream.y)[order].tolist()
    if change is not None:
        later, labels = X[before:], y[before:]
        change(rng, later, labels)
        X[before:], y[before:] = later, labels
    return X, [f"k{label}" for label in y]


def alarms(model: str, X: Floats, y: list[Any], seed: int) -> list[tuple[str, int]]:
    """Return the kinds of a job's alarms, and after how many events each comes."""
    sink, regression = MemorySink(), isinstance(y[0], float)
    task = "regression" if regression else "classification"
    regions = Details(interval=0.9) if regression else Details(prediction_set=0.9)
    source = MemorySource(Rows(X, y))
    learner = create(model, task=task, seed=seed)
    stream, watch = Events(label="label"), Watch(alarms=sink)
    Engine(source, learner, stream=stream, watch=watch, details=regions).run()
    return [(output.value["kind"], output.value["events"]) for output in sink.outputs]


def measure_jobs(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Numbers of false alarms by model, stream and kind, and delays by model, change and kind."""
    sizes = QUICK if quick else (EVENTS, BEFORE, AFTER, MOST)
    found: dict[str, Any] = {"false": {}, "changes": {}, "sizes": list(sizes)}
    for model, streams in MODELS.items():
        streams = 1 if quick else streams
        for law in LAWS:
            of = [law(np.random.default_rng([s, 21]), sizes[0]) for s in range(streams)]
            _note_false(found, model, law.__name__, of)
        for name in SHUFFLED[:1] if quick else SHUFFLED:
            _note_false(found, model, name, _shuffled(data, name, sizes[3], quick=quick))
        for kind in list(CHANGES)[:4] if quick else CHANGES:
            heard = [
                alarms(model, *_changed(data, kind, sizes, quick=quick, seed=s), s)
                for s in range(streams)
            ]
            delays = {
                which: [
                    min(
                        (n - sizes[1] for k, n in each if k == which and n > sizes[1]), default=None
                    )
                    for each in heard
                ]
                for which in KINDS
            }
            found["changes"][f"{kind}: {model}"] = {
                which: [delay for delay in each if delay is not None]
                for which, each in delays.items()
            } | {"streams": streams}
            common.note(f"  {kind}, {model}: {found['changes'][f'{kind}: {model}']}")
    return found


def _shuffled(data: Directory, name: str, most: int, *, quick: bool) -> list[Labelled]:
    stream = load(name, data, quick=quick)
    order = np.random.default_rng(0).permutation(len(stream))[:most]
    labels = np.asarray(stream.y)[order].tolist()
    return [(np.asarray(stream.X[order], np.float64), [f"k{label}" for label in labels])]


def _note_false(found: dict[str, Any], model: str, name: str, streams: list[Labelled]) -> None:
    heard = [[kind for kind, _ in alarms(model, *one, seed)] for seed, one in enumerate(streams)]
    counts = {kind: [each.count(kind) for each in heard] for kind in KINDS}
    events = sum(len(X) for X, _ in streams)
    found["false"][f"{name}: {model}"] = {"events": events, **counts}
    common.note(f"  {name}, {model}: {counts}")


def render_jobs(found: Mapping[str, Any]) -> str:
    """Two tables: false alarms in 100,000 events, and delays."""
    rows, sums = [], {}
    for name, one in found["false"].items():
        cells = [f"{sum(one[kind]) * 1e5 / one['events']:.1f}" for kind in KINDS]
        rows.append([name, f"{one['events']:,}", *cells])
        each = sums.setdefault(name.split(": ")[1], dict.fromkeys(("events", *KINDS), 0))
        each["events"] += one["events"]
        for kind in KINDS:
            each[kind] += sum(one[kind])
    for model, one in sums.items():
        cells = [f"{one[kind] * 1e5 / one['events']:.2f}" for kind in KINDS]
        rows.append([f"all: {model}", f"{one['events']:,}", *cells])
    header = ["false alarms in 100,000 events of one law", "events"]
    kinds = [kind.replace("covariate_drift", "covariate drift") for kind in KINDS]
    false = common.table([*header, *kinds], rows)
    rows = []
    for name, one in found["changes"].items():
        cells = []
        for kind in KINDS:
            missed = one["streams"] - len(one[kind])
            delay = f"{np.median(one[kind]):,.0f}" if one[kind] else "-"
            cells.append(f"{delay} ({missed} missed)" if missed and one[kind] else delay)
        rows.append([name, *cells])
    _, before, after, _ = found["sizes"]
    title = f"events to an alarm, {before:,} + {after:,} events"
    return f"{false}\n\n{common.table([title, *kinds], rows)}"


# --- the parts ------------------------------------------------------------------------------------

NAME = "signals"
PARTS = {
    "coverage": Part(lambda o: measure_coverage(o.data, quick=o.quick), render_coverage),
    "jobs": Part(lambda o: measure_jobs(o.data, quick=o.quick), render_jobs),
}

render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
