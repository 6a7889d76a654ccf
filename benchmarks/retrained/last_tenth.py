"""Trees trained once on nine tenths of a stream, and what ours says to the last tenth.

This is no rival but a limit: the trees know all labels before the last tenth and nothing of it, and
have nothing to do in time. Ours goes through all of the stream, each event predicted before it is
learned, and is scored on the same last tenth, where it goes on learning. Streams have their whole
length; those generated have 20,000 events, and of kdd99 there are the first 50,000.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.retrained import trees
from benchmarks.river_battery import compare, scores, tables, units
from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.loop import Outcome
from benchmarks.river_battery.measure import Battery
from benchmarks.river_battery.ours import OURS, PLAIN
from benchmarks.river_battery.streams import NUMBERS, STREAMS, Stream, load

LIMIT = 3_600.0
_PART = 10


def forest(task: str) -> Any:
    """A random forest of scikit-learn with its defaults, 100 trees."""
    from sklearn import ensemble

    regression = task == "regression"
    kind = ensemble.RandomForestRegressor if regression else ensemble.RandomForestClassifier
    return kind(random_state=SEED, n_jobs=1)


def _once(name: str, make: trees.Trees, package: str, settings: str) -> Contestant:
    return Contestant(name, partial(_made, make), package, f"{settings}, trained once")


def _made(make: trees.Trees, stream: Stream) -> Any:
    return make(stream.task)


_THOUSAND = partial(trees.lightgbm, n_estimators=1_000)
_CONTESTANTS = (
    _once("LightGBM", trees.lightgbm, "lightgbm", "defaults, n_jobs=1"),
    _once("LightGBM, 1,000", _THOUSAND, "lightgbm", "n_estimators=1000, n_jobs=1"),
    _once("forest", forest, "scikit-learn", "random forest, defaults"),
    _once("HGB", trees.histogram, "scikit-learn", "defaults, early_stopping=False"),
)
LIMITS = {one.name: one for one in _CONTESTANTS}
NO_CHANGE = "no change"
WIDE = ("HGB",)
"""Trees that take no sparse table."""


def measure(
    data: Directory, *, quick: bool, cached: bool, names: Sequence[str] = tuple(STREAMS)
) -> dict[str, Any]:
    """Figures of the last tenth by stream and method, and ours less the best limit."""
    found = {}
    for name in names:
        stream = load(name, data, quick=quick, events=0)
        found[name] = _stream(stream, cached=cached)
    return found


def _stream(stream: Stream, *, cached: bool) -> dict[str, Any]:
    start = len(stream) - max(1, len(stream) // _PART)
    end = stream.part(start, len(stream))
    limits = dict(_limits(stream, start, cached=cached))
    outcomes = dict(limits)
    for contestant in (OURS, PLAIN):
        outcome = _ours(contestant, stream, start, cached=cached)
        if outcome is not None:
            outcomes[contestant.name] = outcome
    outcomes[NO_CHANGE] = _no_change(stream, start)
    figures = {name: _scores(outcome, end) for name, outcome in outcomes.items()}
    common.note(f"  last tenth: {stream.name}: {_accuracies(figures)}")
    return {
        **stream.describe(),
        "scored": len(end),
        "methods": figures,
        "against": {
            ours: _against(outcomes[ours], limits, end)
            for ours in (OURS.name, PLAIN.name)
            if ours in outcomes and limits
        },
    }


def _limits(stream: Stream, start: int, *, cached: bool) -> Any:
    """Each with what it answers; one whose library is not installed is left out."""
    for name, contestant in LIMITS.items():
        key = contestant.key(stream, 0)
        outcome = units.kept(units.directory(), key, LIMIT)
        there = contestant.version is not None and not cached
        wide = name in WIDE and len(stream.columns) > trees.DENSE
        if outcome is None and there and not wide:
            outcome = _trained(contestant.make(stream), stream, start)
            units.keep(units.directory(), key, LIMIT, outcome)
            common.note(f"  last tenth: {stream.name}: {name}: {outcome.cpu_seconds:.1f} s")
        if outcome is not None:
            yield name, outcome


def _trained(model: Any, stream: Stream, start: int) -> Outcome:
    index = {column: j for j, column in enumerate(stream.columns)}
    X = trees.rows([x for x, _ in stream.events(none=True)], index)
    y = stream.y
    gc.collect()
    began, began_cpu = time.perf_counter(), time.process_time()
    model.fit(X[:start], y[:start])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM's, that columns have no names
        guess, p = _said(model, X[start:], y[start:], numbers=stream.task == "regression")
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    return Outcome(guess, p, seconds, cpu)


def _said(
    model: Any, X: Any, y: NDArray[Any], *, numbers: bool
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """As `Outcome` has them: a label that was never learned has the probability 0."""
    if numbers:
        return np.asarray(model.predict(X), np.float64), np.empty(0)
    shares, classes = model.predict_proba(X), model.classes_
    place = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    p = np.where(classes[place] == y, shares[np.arange(len(y)), place], 0.0)
    return classes[shares.argmax(axis=1)].astype(np.int16), p


def _ours(contestant: Contestant, stream: Stream, start: int, *, cached: bool) -> Outcome | None:
    """The last tenth of a run through all of the stream; seconds are those of all of it."""
    if not contestant.takes(stream):
        return None
    battery = Battery([stream], 0, units.directory(), LIMIT, idle=cached, keep_ours=True)
    outcome = battery.run(contestant, stream)
    if outcome is None or outcome.ended:
        return None
    return Outcome(outcome.guess[start:], outcome.p[start:], outcome.seconds, outcome.cpu_seconds)


def _no_change(stream: Stream, start: int) -> Outcome:
    before = stream.y[start - 1 : -1]
    guess = before if stream.task == "regression" else before.astype(np.int16)
    return Outcome(guess, (before == stream.y[start:]).astype(np.float64), 0.0, 0.0)


def _scores(outcome: Outcome, end: Stream) -> dict[str, float]:
    """Of every event of the last tenth."""
    losses = scores.losses(outcome, end)
    found = {"cpu_seconds": round(outcome.cpu_seconds, 3)}
    if end.task == "regression":
        return {
            "mae": float(losses.mean()),
            "rmse": float(np.sqrt(np.square(losses).mean())),
        } | found
    return {"accuracy": float(1 - losses.mean())} | found


def _accuracies(figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {k: round(one.get("accuracy", one.get("mae", 0.0)), 4) for k, one in figures.items()}


def _against(ours: Outcome, limits: Mapping[str, Outcome], end: Stream) -> dict[str, Any]:
    """Ours less the best limit, above 0 where ours is better; of numbers in parts of its error."""
    losses = {name: scores.losses(outcome, end) for name, outcome in limits.items()}
    return compare.best(losses, scores.losses(ours, end), parts=end.task == "regression")


METHODS = (OURS.name, PLAIN.name, *LIMITS, NO_CHANGE)


def render(found: Mapping[str, Any]) -> str:
    """Errors by stream and method, ours less the best of the others, and seconds."""
    classes = {name: one for name, one in found.items() if name not in NUMBERS}
    numbers = {name: one for name, one in found.items() if name in NUMBERS}
    shown = [
        _table("last tenth, %", classes, "accuracy", lambda value: f"{100 * value:.2f}"),
        _table("last tenth: MAE", numbers, "mae", tables.short),
        _table("last tenth: RMSE", numbers, "rmse", tables.short),
    ]
    for name, title in ((OURS.name, "ours"), (PLAIN.name, "no metric")):
        against = {s: one["against"][name] for s, one in found.items() if name in one["against"]}
        shown += [
            tables.against(f"{title}, last tenth: points", "best limit", against, 100),
            tables.against(f"{title}: % of its MAE", "best limit", against, 100, NUMBERS),
        ]
    shown.append(_table("processor s", found, "cpu_seconds", lambda value: f"{value:,.1f}"))
    return "\n\n".join(table for table in shown if table)


def _table(title: str, found: Mapping[str, Any], key: str, form: Any) -> str:
    """Streams by methods; of what was not run a dash."""
    rows = []
    for name, one in found.items():
        of = one["methods"]
        cells = [form(of[m][key]) if m in of else "-" for m in METHODS]
        rows.append([f"{name.partition('_')[0]}, {one['events']:,}", *cells])
    headings = [name.removeprefix(f"{OURS.name}, ") for name in METHODS]
    return common.table([title, *headings], rows) if rows else ""
