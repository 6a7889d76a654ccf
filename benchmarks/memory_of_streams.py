"""What a stream that remembers gains, and what that costs.

labels    errors of the default model with and without the expert of labels, and of trees that are
          trained anew with the labels known then as columns; labels at once, and 48 events late
entities  accuracy of the default model on events that know the past of their entities, beside
          trees with the same columns
table     time and memory of a table of entities, by how many there are
text      accuracy on mails and tickets whose texts are words, one category, and of rivals
run       `streamk run` of a file: events a second of the processor and peak memory
horizon   errors of labels some events ahead, beside trees with the same labels as columns, the
          label of a season before, and River's models; intervals, rate and memory of the job

How each figure is taken stands above its part.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import Directory
from benchmarks.data import load as load_file
from benchmarks.streams import Stream, labels_before
from benchmarks.streams import load as load_stream
from connectors.memory import MemorySink, MemorySource
from streamk.encoding import Schema
from streamk.engine import Details, Engine
from streamk.engine import Stream as Events
from streamk.late import Horizon
from streamk.learners import EntityMemory, MultiKernel
from streamk.memory import EntityTable, entity_number

SEED = 1
Floats = NDArray[np.float64]
Predict = Callable[[Floats, Floats], Floats]


class Timed(NamedTuple):
    """What was predicted of all events, and the seconds of the processor that it took."""

    predictions: Any
    seconds: float


def timed(work: Callable[[], Any]) -> Timed:
    """Do work, and take its time."""
    began = time.process_time()
    found = work()
    return Timed(found, time.process_time() - began)


# --- labels ---------------------------------------------------------------------------------------
#
# Whole streams in their order, one pass, each event predicted before it is learned. "no change" is
# the last label that was known. The trees are LightGBM with its defaults, trained every 1,000
# events on the last 20,000 whose labels were known; "+ 3 labels" has the last three known ones as
# columns. Errors are of all events after the first 1,000, before which the trees do not predict.

LATE, EVERY, KEPT = 48, 1_000, 20_000
_AT_ONCE = 16
"""Events that are predicted together where labels come late."""
LABELS = (
    *("arena_metro_traffic", "beijing_pm25", "cadata_california_housing", "house_16H"),
    *("cpusmall", "arena_fried", "FriedmanDrift", "TrumpApproval", "ChickWeights"),
)


def measure_labels(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors by stream, delay and contestant."""
    found: dict[str, Any] = {}
    for name in LABELS[-2:] if quick else LABELS:
        stream = load_stream(name, data, quick=quick, events=0)
        X, y = np.asarray(stream.X, np.float64), np.asarray(stream.y, np.float64)
        found[name] = {"events": len(y)}
        for delay in (0, LATE):
            contestants: dict[str, Callable[[], Floats]] = {
                "no change": partial(last_known, y, delay),
                "without": partial(ours, X, y, delay, memory=False),
                "streamk": partial(ours, X, y, delay),
                "effort 0, without": partial(ours, X, y, delay, memory=False, effort=0),
                "effort 0": partial(ours, X, y, delay, effort=0),
            }
            if len(y) > 2 * EVERY:
                contestants["LightGBM"] = partial(trees, X, y, delay)
                contestants["LightGBM + 3 labels"] = partial(
                    trees, np.hstack([X, labels_before(y, delay + 1, 0.0)]), y, delay
                )
            some = slice(EVERY if len(y) > 2 * EVERY else 1, None)
            figures = {}
            for who, work in contestants.items():
                predicted, seconds = timed(work)
                missed = (predicted - y)[some]
                figures[who] = {
                    "rmse": float(np.sqrt(np.mean(missed**2))),
                    "mae": float(np.abs(missed).mean()),
                    "us": 1e6 * seconds / len(y),
                }
            found[name][str(delay)] = figures
            common.note(f"  {name}, {delay} late: {figures}")
    return found


def last_known(y: Floats, delay: int) -> Floats:
    """The label that came last before each event was predicted, 0 before the first."""
    return labels_before(y, delay + 1, 0.0)[:, 0]


def ours(X: Floats, y: Floats, delay: int, **options: Any) -> Floats:
    """Predictions of the default model."""
    model = MultiKernel(task="regression", seed=SEED, threads=1, **options)
    found = np.zeros(len(y))
    if not delay:
        for first in range(0, len(y), 512):
            some = slice(first, first + 512)
            found[some] = model.predict_then_learn_many(X[some], y[some].tolist()).predictions
        return found
    numbers = list(range(len(y)))
    for first in range(0, len(y), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        found[some] = model.predict_held_many(X[some], numbers[some]).predictions
        before = slice(max(0, first - delay), max(0, first - delay + _AT_ONCE))
        if before.stop > before.start:
            model.learn_held_many(X[before], y[before].tolist(), numbers[before])
    return found


def trees(X: Floats, y: NDArray[Any], delay: int, *, every: int = EVERY, kept: int = KEPT) -> Any:
    """Predictions of trees that are trained anew every so many events; 0 before the first time."""
    import lightgbm

    kind = lightgbm.LGBMRegressor if y.dtype.kind == "f" else lightgbm.LGBMClassifier
    found = np.zeros(len(y), y.dtype)
    for first in range(every, len(y), every):
        known = slice(max(0, first - delay - kept), first - delay)
        some = slice(first, first + every)
        model = kind(n_jobs=1, verbose=-1, random_state=SEED).fit(X[known], y[known])
        found[some] = np.asarray(model.predict(X[some]))
    return found


def render_labels(found: Mapping[str, Any]) -> str:
    """A table of each error and delay."""
    who = ("no change", "LightGBM", "LightGBM + 3 labels", "without", "streamk")
    who = (*who, "effort 0, without", "effort 0")
    texts = []
    for delay in ("0", str(LATE)):
        late = "labels at once" if delay == "0" else f"labels {delay} late"
        for name, error in (("RMSE", "rmse"), ("MAE", "mae"), ("us an event", "us")):
            rows = [
                [stream, *(f"{one[delay][w][error]:.4g}" if w in one[delay] else "" for w in who)]
                for stream, one in found.items()
            ]
            texts.append(common.table([f"{name}, {late}", *who], rows))
    return "\n\n".join(texts)


# --- entities -------------------------------------------------------------------------------------
#
# "airlines" has its carrier, its airports, its route and its flight as entities. "clicks" and
# "payments" are generated by the laws in their functions. The trees are LightGBM with its defaults,
# trained every 20,000 events on the last 150,000, without and with the columns of the same tables;
# the first 10,000 events, before which they are trained twice, do not count.

CLICKS = 200_000
_FIRST, _TRAINED, _OF = 10_000, 20_000, 150_000


class Entities(NamedTuple):
    """Events with keys of entities (n, k), times (n,), other columns and labels."""

    keys: Floats
    times: Floats
    X: Floats
    y: NDArray[np.int64]


def clicks(n: int, seed: int = 0) -> Entities:
    """Ads that are clicked by users' and ads' own rates, and by how they fit, which drift."""
    rng = np.random.default_rng(seed)
    users, ads = rng.zipf(1.2, n) % 20_000, rng.zipf(1.3, n) % 500
    taste, kind = rng.normal(size=(20_000, 2)), rng.normal(size=(500, 2))
    likes, draws = rng.normal(size=20_000), rng.normal(size=500)
    hour = rng.integers(0, 24, n)
    score = -0.5 + likes[users] + draws[ads] + (taste[users] * kind[ads]).sum(axis=1)
    score += 0.5 * np.sin(2 * np.pi * hour / 24)
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64)
    pair = users * 1_000.0 + ads
    return Entities(np.column_stack([users, ads, pair]).astype(float), np.arange(n) * 5.0,
                    np.column_stack([hour, rng.normal(size=n)]), y)  # fmt: skip


def payments(n: int, seed: int = 0) -> Entities:
    """Payments that are fraud where they are large for their user, or their merchant is bad."""
    rng = np.random.default_rng(seed)
    users, merchants = rng.integers(0, 10_000, n), rng.zipf(1.3, n) % 1_000
    scale, bad = np.exp(rng.normal(size=10_000)), rng.random(1_000) < 0.05
    amount = np.exp(rng.normal(size=n)) * scale[users]
    score = 2.0 * np.log(amount / scale[users]) + 3.0 * bad[merchants] - 3.0
    y = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64)
    times = np.cumsum(rng.exponential(10.0, n))
    return Entities(np.column_stack([users, merchants]).astype(float), times, amount[:, None], y)


def airlines(data: Directory, n: int) -> Entities:
    """The field's airlines: the order of events is their time."""
    found = load_file("arena_airlines", data)
    X, y = np.asarray(found.X[:n], np.float64), np.asarray(found.y[:n], np.int64)
    carrier, flight, origin, goal = X[:, 0], X[:, 1], X[:, 2], X[:, 3]
    route = origin * 1_000 + goal
    keys = np.column_stack([carrier, origin, goal, route, carrier * 100_000 + flight])
    return Entities(keys, np.arange(len(y), dtype=float), X, y)


def measure_entities(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Accuracy and time, by stream and contestant."""
    streams: dict[str, tuple[Callable[[], Entities], tuple[float, ...]]] = {
        "clicks": (lambda: clicks(2_000 if quick else CLICKS), (3_600.0, 86_400.0)),
        "payments": (lambda: payments(2_000 if quick else CLICKS), (3_600.0, 86_400.0)),
    }
    if not quick:
        streams["airlines"] = (lambda: airlines(data, 10**9), (60.0, 1_000.0))
    found: dict[str, Any] = {}
    for name, (make, spans) in streams.items():
        events = make()
        first = min(_FIRST, len(events.y) // 4)
        numbers = [] if name == "airlines" else [f"c{n}" for n in range(events.X.shape[1])]
        seen = columns_of(events, spans, numbers)
        wide = np.hstack([events.X, seen])
        contestants: dict[str, Callable[[], Any]] = {
            "without": partial(without_entities, events),
            "streamk": partial(with_entities, events, spans, numbers),
            "LightGBM": partial(_trees, events.X, events.y, first),
            "LightGBM, same columns": partial(_trees, wide, events.y, first),
        }
        figures = {}
        for who, work in contestants.items():
            predicted, seconds = timed(work)
            right = (np.asarray(predicted) == events.y)[first:]
            figures[who] = {"accuracy": float(right.mean()), "us": 1e6 * seconds / len(events.y)}
            common.note(f"  {name}: {who}: {figures[who]}")
        found[name] = {"events": len(events.y), "columns": wide.shape[1], "figures": figures}
    return found


def _trees(X: Floats, y: NDArray[np.int64], first: int) -> Any:
    every = _TRAINED if len(y) > 2 * _TRAINED else first
    found = trees(X, y, 0, every=every, kept=_OF)
    found[first:every] = trees(X[:every], y[:every], 0, every=first, kept=_OF)[first:]
    return found


def columns_of(events: Entities, spans: Sequence[float], numbers: Sequence[str]) -> Floats:
    """The columns of the tables of all entities, each event's from those before it."""
    known = events.X if numbers else events.X[:, :0]
    parts = []
    for place in range(events.keys.shape[1]):
        table = EntityTable(f"e{place}", tuple(numbers), classes=True, spans=spans)
        parts.append(
            table.follow(events.keys[:, place], events.times, known, events.y.astype(float))
        )
    return np.hstack(parts)


def without_entities(events: Entities) -> list[Any]:
    """Predictions of the default model."""
    return classes_of(MultiKernel(seed=SEED, threads=1), events.X, events.y)


def with_entities(events: Entities, spans: Sequence[float], numbers: Sequence[str]) -> list[Any]:
    """Predictions of the default model with entities."""
    names = [f"e{place}" for place in range(events.keys.shape[1])]
    model = EntityMemory(
        MultiKernel(seed=SEED, threads=1), entities=names, time="t", spans=spans, numbers=numbers
    )
    model.add_columns([*names, "t", *(f"c{n}" for n in range(events.X.shape[1]))])
    return classes_of(model, np.column_stack([events.keys, events.times, events.X]), events.y)


def classes_of(model: Any, X: Floats, y: NDArray[np.int64]) -> list[Any]:
    """Predictions of a model of classes, each event predicted before it is learned."""
    found: list[Any] = []
    for first in range(0, len(y), 1_024):
        some = slice(first, first + 1_024)
        found += model.predict_then_learn_many(X[some], y[some].tolist()).predictions.tolist()
    return found


def render_entities(found: Mapping[str, Any]) -> str:
    """Accuracy and time."""
    who = ("without", "streamk", "LightGBM", "LightGBM, same columns")
    texts = []
    for title, figure, form in (
        ("accuracy, %", lambda one: 100 * one["accuracy"], ".2f"),
        ("us an event", lambda one: one["us"], ".1f"),
    ):
        rows = [
            [f"{name} ({one['events']:,})", *(format(figure(one["figures"][w]), form) for w in who)]
            for name, one in found.items()
        ]
        texts.append(common.table([title, *who], rows))
    return "\n\n".join(texts)


# --- table ----------------------------------------------------------------------------------------
#
# A table with statistics of four numbers and a label over three spans: the median of five rounds of
# 50,000 events of random entities, in batches of 1,024, after each entity has come once; bytes are
# those of the table.

SIZES = (1_000, 100_000, 1_000_000)


def measure_table(*, quick: bool) -> dict[str, Any]:
    """Microseconds of an event, and bytes of an entity, by the number of entities."""
    found: dict[str, Any] = {}
    for size in SIZES[:1] if quick else SIZES:
        rng = np.random.default_rng(SEED)
        table = EntityTable("e", tuple("abcd"), spans=(3_600.0, 86_400.0, 2_592_000.0))
        keys = np.array([entity_number(str(n)) for n in range(size)])
        now = 0.0

        def follow(some: Floats, table: EntityTable = table, rng: Any = rng) -> float:
            nonlocal now
            X, y = rng.normal(size=(len(some), 4)), rng.normal(size=len(some))
            times = now + np.arange(len(some), dtype=float)
            now = float(times[-1]) + 1.0
            began = time.perf_counter()
            for first in range(0, len(some), 1_024):
                part = slice(first, first + 1_024)
                table.follow(some[part], times[part], X[part], y[part])
            return 1e6 * (time.perf_counter() - began) / len(some)

        for first in range(0, size, 50_000):
            follow(keys[first : first + 50_000])
        rounds = [follow(rng.choice(keys, 2_000 if quick else 50_000)) for _ in range(5)]
        found[str(size)] = {"us": common.spread(rounds), "bytes": table.nbytes / size}
    return found


def render_table(found: Mapping[str, Any]) -> str:
    """A line for each size."""
    rows = [
        [f"{int(size):,}", f"{one['us']['median']:.2f}", f"{one['us']['low']:.2f}",
         f"{one['us']['high']:.2f}", f"{one['bytes']:,.0f}"]
        for size, one in found.items()
    ]  # fmt: skip
    return common.table(["entities", "us an event", "least", "most", "bytes an entity"], rows)


# --- text -----------------------------------------------------------------------------------------
#
# "mails" are those of spam_sparse, a word for each column; "tickets" are generated: two numbers, a
# city and a comment of Zipf's words, of which three in ten tell of the label. They go through the
# engine, the texts as words, which it finds out, or as one category. River's TFIDF and logistic
# regression have their defaults; of a table numbers are scaled and the city is one-hot. LightGBM
# has the counts of words that two texts had, trained every 500 events on all. Accuracy is of the
# events after the first 500.

_MAILS, _TICKETS, _WORDS = 9_324, 10_000, 3_000
_TEXTS_EVERY = 500
Texts = tuple[list[dict[str, Any]], list[Any], str]


def mails(data: Directory) -> Texts:
    """Mails in their order, the field of texts last."""
    found: Any = load_stream("spam_sparse", data, quick=False, events=0)
    starts, words = found.X.starts.tolist(), found.X.found.tolist()
    texts = [
        {"text": " ".join(f"w{word}" for word in words[start:stop])}
        for start, stop in pairwise(starts[: _MAILS + 1])
    ]
    return texts, found.y[: len(texts)].tolist(), "text"


def tickets(n: int, seed: int = 0) -> Texts:
    """Tickets with a comment."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=_WORDS) * (rng.random(_WORDS) < 0.3)
    share = 1.0 / np.arange(5, _WORDS + 5)
    share /= share.sum()
    cities, of_city = ["New York", "San Francisco", "Los Angeles", "Austin"], rng.normal(0, 0.7, 4)
    events, labels = [], []
    for _ in range(n):
        words = rng.choice(_WORDS, int(rng.integers(4, 16)), p=share)
        a, b = rng.normal(size=2)
        city = int(rng.integers(4))
        score = 1.2 * a - 0.8 * a * b + of_city[city] + 1.1 * weight[words].sum()
        labels.append(bool(rng.random() < 1 / (1 + np.exp(-score))))
        comment = " ".join(f"word{word}" for word in words)
        events.append({"amount": a, "age": b, "city": cities[city], "comment": comment})
    return events, labels, "comment"


def measure_text(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Accuracy and rate by stream and way."""
    streams: dict[str, Callable[[], Texts]] = {
        "tickets": lambda: tickets(1_500 if quick else _TICKETS)
    }
    if not quick:
        streams["mails"] = lambda: mails(data)
    found: dict[str, Any] = {}
    for name, make in streams.items():
        events, labels, field = make()
        ways: dict[str, Callable[[], list[bool]]] = {
            "words": partial(by_engine, events, labels, {}),
            "one category": partial(by_engine, events, labels, {field: "text"}),
            "River TFIDF + logistic regression": partial(by_river, events, labels, field),
            "LightGBM on words": partial(by_trees, events, labels, field),
        }
        figures = {}
        for way, work in ways.items():
            right, seconds = timed(work)
            figures[way] = {
                "accuracy": float(np.mean(right[_TEXTS_EVERY:])),
                "events_per_cpu_s": len(labels) / seconds,
            }
            common.note(f"  {name}: {way}: {figures[way]}")
        found[name] = {"events": len(labels), "figures": figures}
    return found


def by_engine(events: list[Any], labels: list[Any], kinds: Mapping[str, Any]) -> list[bool]:
    """Return which predictions of the default model were right."""
    sink, schema = MemorySink(), Schema(label="y", kinds=dict(kinds)) if kinds else None
    source = MemorySource([event | {"y": y} for event, y in zip(events, labels, strict=True)])
    stream = Events(label="y") if schema is None else Events(schema=schema)
    Engine(source, MultiKernel(seed=SEED), sink=sink, stream=stream).run()
    return [one.value["prediction"] == y for one, y in zip(sink.outputs, labels, strict=True)]


def by_river(events: list[Any], labels: list[Any], field: str) -> list[bool]:
    """Return which predictions of River's pipeline were right."""
    from river import compose, feature_extraction, linear_model, preprocessing

    model: Any = feature_extraction.TFIDF(on=field)
    if len(events[0]) > 1:
        numbers = compose.Select("amount", "age") | preprocessing.StandardScaler()
        model += numbers
        model += compose.Select("city") | preprocessing.OneHotEncoder()
    model |= linear_model.LogisticRegression()
    right = []
    for event, y in zip(events, labels, strict=True):
        right.append(model.predict_one(event) == y)
        model.learn_one(event, y)
    return right


def by_trees(events: list[Any], labels: list[Any], field: str) -> list[bool]:
    """Return which predictions of trees were right, False before they are trained."""
    import lightgbm
    from scipy import sparse
    from sklearn.feature_extraction.text import CountVectorizer

    y, texts = np.array(labels), [event[field] for event in events]
    cities = sorted({event.get("city", "") for event in events})
    others = np.array(
        [[e.get("amount", 0.0), e.get("age", 0.0), cities.index(e.get("city", ""))] for e in events]
    )
    right = [False] * min(_TEXTS_EVERY, len(y))
    for first in range(_TEXTS_EVERY, len(y), _TEXTS_EVERY):
        counts = CountVectorizer(min_df=2).fit(texts[:first])
        some = slice(first, first + _TEXTS_EVERY)
        parts = [
            sparse.hstack([counts.transform(texts[p]).astype(float), others[p]]).tocsr()
            for p in (slice(first), some)
        ]
        model = lightgbm.LGBMClassifier(n_jobs=1, verbose=-1, random_state=SEED)
        right += (np.asarray(model.fit(parts[0], y[:first]).predict(parts[1])) == y[some]).tolist()
    return right


def render_text(found: Mapping[str, Any]) -> str:
    """Accuracy and rate."""
    ways = ("words", "one category", "River TFIDF + logistic regression", "LightGBM on words")
    rows = [
        [f"{name}: {way}", f"{100 * one['figures'][way]['accuracy']:.2f}",
         f"{one['figures'][way]['events_per_cpu_s']:,.0f}"]
        for name, one in found.items() for way in ways
    ]  # fmt: skip
    return common.table(["texts", "accuracy, %", "events/CPU s"], rows)


# --- run ------------------------------------------------------------------------------------------
#
# `streamk run` of a file of metro traffic, in a process of its own: the report's errors of all
# events, events a second of the processor, and the peak of its memory.

JOBS: dict[str, list[str]] = {
    "default": [],
    "--set memory=false": ["--set", "memory=false"],
    "--set effort=0": ["--set", "effort=0"],
    "--set effort=0 --set memory=false": ["--set", "effort=0", "--set", "memory=false"],
}


def measure_run(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors, rate and memory of each job."""
    name = "ChickWeights" if quick else "arena_metro_traffic"
    stream = load_stream(name, data, quick=quick, events=0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "events.csv"
        _write(path, stream)
        found = {
            job: common.fresh(run_job, {"path": str(path), "options": options})
            for job, options in JOBS.items()
        }
    return {"stream": name, "events": len(stream), "jobs": found}


def _write(path: Path, stream: Stream) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"c{n}" for n in range(np.asarray(stream.X).shape[1])), "y"])
        for row, label in zip(np.asarray(stream.X), stream.y, strict=True):
            writer.writerow([*row.tolist(), float(label)])


def run_job(path: str, options: list[str]) -> dict[str, Any]:
    """Run a job over a file in this process; return its errors, its rate and the peak of memory."""
    from streamk.cli import main as streamk

    given = ["run", f"csv:{path}", "--label", "y", "--task", "regression", "--json", *options]
    began, out = sum(os.times()[:4]), io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        status = streamk(given)
    if status:
        raise RuntimeError(f"streamk {' '.join(given)} ended with status {status}")
    told = json.loads(out.getvalue().splitlines()[-1])
    return {
        **told["whole"],
        "events_per_cpu_s": told["events"] / (sum(os.times()[:4]) - began),
        "peak_mib": common.resident("VmHWM") / 2**20,
    }


def render_run(found: Mapping[str, Any]) -> str:
    """A line for each job."""
    rows = [
        [job, f"{one['rmse']:.4g}", f"{one['mae']:.4g}", f"{one['events_per_cpu_s']:,.0f}",
         f"{one['peak_mib']:,.0f}"]
        for job, one in found["jobs"].items()
    ]  # fmt: skip
    title = f"streamk run, {found['stream']} ({found['events']:,})"
    return common.table([title, "RMSE", "MAE", "events/CPU s", "peak MiB"], rows)


# --- horizon --------------------------------------------------------------------------------------
#
# Streams whose order is time: the label of a later event is predicted, so many events ahead, and
# each event has its own label as a column. Where rows are missing, as of traffic, a day of events
# is no day. streamk is the default model through the engine, with intervals of 90%; of numbers,
# `streamk run` of a file of the same events must predict the same, and tells rate and memory.
#
# "no change" is the label of the event itself, which is one season before the target; "long season"
# is the label a longer season before it. LightGBM has its defaults and is trained every 1,000
# events (of fewer than 3,000 every 100) on all whose targets were known. Its columns, which River's
# linear model has too, are those of the event, the last four labels, the mean of the last 24 and
# the label of the long season. River's SNARIMAX and Holt-Winters see labels alone. Where River's
# defaults diverge, a few others were tried: small steps, clipped gradients, p=3. Errors are
# of the events after the first 1,000, of fewer than 3,000 after a third. Times are the processor's,
# on a machine that had other work, too.


SERIES: dict[str, tuple[int, int]] = {
    "beijing_pm25": (24, 168),
    "arena_metro_traffic": (24, 168),
    "WaterFlow": (24, 168),
    "TrumpApproval": (7, 28),
    "elec2": (48, 336),
}
"""How many events ahead, which is a season, and the longer season."""
_SHARE = 0.9
"""Of the labels that intervals are to hold."""


def measure_horizon(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors and times by stream and contestant, and of numbers intervals and jobs."""
    found: dict[str, Any] = {}
    for name in tuple(SERIES)[-2:] if quick else SERIES:
        if name == "WaterFlow":
            stream = _water_flow()
        else:
            stream = load_stream(name, data, quick=quick, events=0)
        n, (ahead, season) = len(stream), SERIES[name]
        first, every = (EVERY, EVERY) if n >= 3 * EVERY else (n // 3, EVERY // 10)
        some, target = slice(first, n - ahead), stream.y[first + ahead :]
        outputs, seconds = timed(partial(by_horizon, stream, ahead))
        told = {"streamk": Timed(_answers(outputs), seconds)}
        for who, work in forecasters(stream, ahead, season, first, every).items():
            told[who] = timed(work)
        one: dict[str, Any] = {"events": n, "ahead": ahead}
        one["figures"] = {
            who: {**_missed(predicted[some], target), "us": 1e6 * seconds / n}
            for who, (predicted, seconds) in told.items()
        }
        if stream.task == "regression":
            one |= _held([output["interval"] for output in outputs[some]], target)
            one["job"] = _horizon_job(stream, ahead, told["streamk"].predictions)
        common.note(f"  {name}: {one}")
        found[name] = one
    return found


def _water_flow() -> Stream:
    """River's hourly flow of water; its columns are the hour and the day of the week."""
    from river import datasets

    events = [(x["Time"], y) for x, y in datasets.WaterFlow()]
    X = np.array([[time.hour, time.weekday()] for time, _ in events], np.float64)
    return Stream("WaterFlow", X, np.array([y for _, y in events]), ("hour", "weekday"))


def by_horizon(stream: Stream, ahead: int) -> list[dict[str, Any]]:
    """Return what the engine writes of each event with the default model."""
    sink, numbers = MemorySink(), stream.task == "regression"
    events = [
        {f"c{n}": value for n, value in enumerate(row)} | {"y": y}
        for row, y in zip(np.asarray(stream.X).tolist(), stream.y.tolist(), strict=True)
    ]
    Engine(
        MemorySource(events),
        MultiKernel(task="regression" if numbers else "classification", seed=SEED, threads=1),
        sink=sink,
        stream=Events(label="y"),
        details=Details(interval=_SHARE if numbers else None),
        labels=Horizon(ahead),
    ).run()
    return [output.value for output in sink.outputs]


def _answers(outputs: Sequence[Mapping[str, Any]]) -> Floats:
    """Numbers, or probabilities of True."""
    return np.array(
        [
            one["probabilities"].get("true", 0.0) if "probabilities" in one else one["prediction"]
            for one in outputs
        ]
    )


def _missed(predicted: Floats, target: NDArray[Any]) -> dict[str, float]:
    """Errors of numbers; of probabilities of True, accuracy, and log loss if none is 0 or 1."""
    if target.dtype.kind == "f":
        missed = predicted - target
        return {"mae": float(np.abs(missed).mean()), "rmse": float(np.sqrt(np.mean(missed**2)))}
    share = np.where(target, predicted, 1.0 - predicted)
    figures = {"accuracy": 100.0 * float(np.mean((predicted > 0.5) == target))}
    return figures | ({"log_loss": float(-np.log(share).mean())} if share.min() > 0.0 else {})


def _held(intervals: Sequence[Any], target: Floats) -> dict[str, float]:
    least, most = np.array(intervals, np.float64).T
    held = (least <= target) & (target <= most)
    return {
        "coverage": 100.0 * float(held.mean()),
        "width": float((most - least).mean() / target.std()),
    }


def _horizon_job(stream: Stream, ahead: int, predictions: Floats) -> dict[str, Any]:
    """`streamk run` of a file; raises if its predictions are not the engine's."""
    with tempfile.TemporaryDirectory() as directory:
        path, written = Path(directory) / "events.csv", Path(directory) / "predictions.jsonl"
        _write(path, stream)
        options = ["--horizon", str(ahead), "--interval", str(_SHARE), "--seed", str(SEED)]
        options += ["--to", f"file:{written}"]
        job: dict[str, Any] = common.fresh(run_job, {"path": str(path), "options": options})
        lines = written.read_text().splitlines()
    if [json.loads(line)["prediction"] for line in lines] != predictions.tolist():
        raise RuntimeError(f"`streamk run` and the engine differ on {stream.name}")
    return job


def forecasters(
    stream: Stream, ahead: int, season: int, first: int, every: int
) -> dict[str, Callable[[], Floats]]:
    """Rivals, which return numbers or probabilities of True."""
    from river import linear_model, optim, preprocessing, time_series

    y, Scaler = np.asarray(stream.y, np.float64), preprocessing.StandardScaler
    X = with_lags(np.asarray(stream.X, np.float64), y, ahead, season)
    found: dict[str, Callable[[], Floats]] = {
        "no change": lambda: y,
        "long season": lambda: X[:, -1],
    }
    train = partial(trees_ahead, X, stream.y, ahead, first, every)
    if stream.task != "regression":
        logistic = Scaler() | linear_model.LogisticRegression()
        return found | {
            "LightGBM": train,
            "River linear": partial(linear_ahead, X, stream.y, ahead, logistic),
        }

    def linear() -> Any:
        model = linear_model.LinearRegression(optim.SGD(0.001), clip_gradient=1.0)
        return preprocessing.TargetStandardScaler(regressor=Scaler() | model)

    snarimax = time_series.SNARIMAX(p=3, d=0, q=0, m=ahead, sp=1, regressor=linear())
    winters = time_series.HoltWinters(0.1, 0.01, 0.1, seasonality=ahead)
    return found | {
        "LightGBM": train,
        "LightGBM, L1": partial(train, objective="regression_l1"),
        "River linear": partial(linear_ahead, X, stream.y, ahead, linear()),
        "SNARIMAX": partial(series_ahead, y, ahead, first, snarimax),
        "Holt-Winters": partial(series_ahead, y, ahead, first, winters),
    }


def with_lags(X: Floats, y: Floats, ahead: int, season: int) -> Floats:
    """Events with the labels known, their own among them; the last column is of the long season."""

    def ago(events: int) -> Floats:
        return np.concatenate([np.full(events, np.nan), y])[: len(y)]

    last = [ago(n) for n in range(24)]
    return np.column_stack([X, *last[:4], np.mean(last, axis=0), ago(season - ahead)])


def trees_ahead(
    X: Floats, y: NDArray[Any], ahead: int, first: int, every: int, **options: Any
) -> Floats:
    """Forecasts of trees that are trained anew on all events whose targets are known."""
    import lightgbm

    options |= {"n_jobs": 1, "verbose": -1, "random_state": SEED}
    found = np.full(len(y), np.nan)
    for start in range(first, len(y), every):
        known, some = start - ahead + 1, slice(start, start + every)
        target = y[ahead : known + ahead]
        if y.dtype.kind == "f":
            model = lightgbm.LGBMRegressor(**options).fit(X[:known], target)
            found[some] = np.asarray(model.predict(X[some]))
        else:
            classifier = lightgbm.LGBMClassifier(**options).fit(X[:known], target)
            found[some] = np.asarray(classifier.predict_proba(X[some]))[:, 1]
    return found


def linear_ahead(X: Floats, y: NDArray[Any], ahead: int, model: Any) -> Floats:
    """Forecasts of a model of River's, without columns that are not known."""
    rows = [{n: v for n, v in enumerate(row) if v == v} for row in X.tolist()]
    found, labels = np.zeros(len(y)), y.tolist()
    for n, row in enumerate(rows):
        if n >= ahead:
            model.learn_one(rows[n - ahead], labels[n])
        if y.dtype.kind == "f":
            found[n] = model.predict_one(row)
        else:
            found[n] = model.predict_proba_one(row)[True]
    return found


def series_ahead(y: Floats, ahead: int, first: int, model: Any) -> Floats:
    """Forecasts of a model of River's for series."""
    found = np.full(len(y), np.nan)
    for n, label in enumerate(y.tolist()):
        model.learn_one(label)
        if n >= first:
            found[n] = model.forecast(ahead)[-1]
    return found


def render_horizon(found: Mapping[str, Any]) -> str:
    """A table of each figure, and of intervals and jobs."""
    texts = []
    for title, figure, form in (
        *(("MAE", "mae", ".4g"), ("RMSE", "rmse", ".4g"), ("accuracy, %", "accuracy", ".2f")),
        *(("log loss", "log_loss", ".4f"), ("us an event", "us", ".3g")),
    ):
        streams = {name: one for name, one in found.items() if figure in one["figures"]["streamk"]}
        if not streams:
            continue
        who = dict.fromkeys(w for one in streams.values() for w in one["figures"])
        rows = [
            [
                f"{name}, {one['ahead']} ahead",
                *(_cell(one["figures"], w, figure, form) for w in who),
            ]
            for name, one in streams.items()
        ]
        texts.append(common.table([title, *who], rows))
    rows = [
        [f"{name} ({one['events']:,})", f"{one['coverage']:.1f}", f"{one['width']:.2f}",
         f"{one['job']['events_per_cpu_s']:,.0f}", f"{one['job']['peak_mib']:,.0f}"]
        for name, one in found.items() if "job" in one
    ]  # fmt: skip
    header = ["streamk run, intervals of 90%", "coverage, %", "width / deviation"]
    return "\n\n".join([*texts, common.table([*header, "events/CPU s", "peak MiB"], rows)])


def _cell(figures: Mapping[str, Any], who: str, figure: str, form: str) -> str:
    value = figures.get(who, {}).get(figure)
    return "" if value is None else format(value, form)


# --- the parts ------------------------------------------------------------------------------------

NAME = "memory_of_streams"
PARTS = {
    "labels": Part(lambda o: measure_labels(o.data, quick=o.quick), render_labels),
    "entities": Part(lambda o: measure_entities(o.data, quick=o.quick), render_entities),
    "table": Part(lambda o: measure_table(quick=o.quick), render_table),
    "text": Part(lambda o: measure_text(o.data, quick=o.quick), render_text),
    "run": Part(lambda o: measure_run(o.data, quick=o.quick), render_run),
    "horizon": Part(lambda o: measure_horizon(o.data, quick=o.quick), render_horizon),
}

render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
