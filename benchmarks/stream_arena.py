"""StreamArena's protocol to the letter: one pass, whole streams in their order, defaults, seeds.

Every event is predicted, then learned. Streams of classes are ranked by the log loss, with
probabilities of 1e-7 at least, and streams of numbers by the RMSE. DIR has StreamArena's files,
`classification/real/electricity.csv` and so on (or has them in `datasets`). --npz makes there those
that `.npz` files of docs/data.md have, and --generate those that generators make, anew.

Ours reads a file through `streamk run csv:`, in a process for each stream and seed. Before that its
first events are learned through River's loop, arrays and, where it is installed, CapyMOA's loop,
too: all must agree to the last digit. Rivals are CapyMOA's, of 100 trees, each in such a process.

A run is a file in StreamArena's form, and is taken from there the next time: delete it to measure
it anew. Interrupted, the benchmark goes on where it was. Figures of rivals, and of streams that are
not there, stay in the JSON.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.arena_check import agree, engine, said
from benchmarks.arena_streams import Stream, anew, find, make
from benchmarks.river_battery import auc

NAME = "stream_arena"
PUBLISHED = Path(__file__).with_name("stream_arena_published.json")
_FLOOR = 1e-7
"""The least probability in the log loss."""
_BINS = 10
"""Bins of a probability, for its calibration."""


# --- scores ---------------------------------------------------------------------------------------


class Scores:
    """Answers, and what they are worth as StreamArena and MOA count."""

    def __init__(self, n_classes: int) -> None:
        self._n = n_classes
        self._of: list[tuple[Any, ...]] = []
        self._beyond = np.zeros((n_classes, _BINS))
        """By class and bin of its probability: the sum of probabilities less the labels of it."""

    def add(self, y: Any, answer: Any) -> None:
        """Take a label, and the shares of the classes or a number; None is no answer."""
        if not self._n:
            self._of.append((y, 0.0 if answer is None else answer))
            return
        shares = np.zeros(self._n)
        if answer is not None:
            given = np.clip(np.nan_to_num(np.asarray(answer, dtype=float)), 0.0, None)
            shares[: len(given)] = given[: self._n]
        total = shares.sum()
        shares = shares / total if total > 0 else np.full(self._n, 1.0 / self._n)
        self._of.append((y, int(np.argmax(shares)), shares[y], shares[1 % self._n]))
        bins = np.minimum(shares * _BINS, _BINS - 1).astype(np.intp)
        self._beyond[np.arange(self._n), bins] += shares
        self._beyond[y, bins[y]] -= 1.0

    def figures(self) -> dict[str, float | None]:
        """The metrics of a result file."""
        y, *found = map(np.array, zip(*self._of, strict=True))
        values = _of_classes(y, *found, self._n) if self._n else _of_numbers(y, *found)
        return {k: float(v) if np.isfinite(v) else None for k, v in values.items()}

    def calibration(self) -> list[float]:
        """Return the calibration error of each class, in points: the mean over ten equal bins."""
        return (100 * np.abs(self._beyond).sum(axis=1) / max(len(self._of), 1)).tolist()


def _of_numbers(y: NDArray[Any], guess: NDArray[Any]) -> dict[str, float]:
    means = np.cumsum(y) / np.arange(1, len(y) + 1)
    usual, errors = y - np.concatenate([[0.0], means[:-1]]), y - guess
    return {
        "rmse": np.sqrt(np.mean(errors**2)),
        "mae": np.mean(np.abs(errors)),
        "rmae": np.abs(errors).sum() / np.abs(usual).sum(),
        "r2": 1 - np.sum(errors**2) / np.sum(usual**2),
    }


def _of_classes(
    y: NDArray[Any], guess: NDArray[Any], p: NDArray[Any], second: NDArray[Any], n: int
) -> dict[str, float]:
    def beyond(other: float) -> float:
        return 100 * (share - other) / (1 - other) if other < 1 else math.nan

    right = guess == y
    share = float(right.mean())
    said, there, hits = (np.bincount(of, minlength=n) for of in (guess, y, y[right]))
    precision, recall = (np.mean(hits / np.maximum(of, 1)) for of in (said, there))
    both = 0 < there[1] < len(y) if n == 2 else False
    return {
        "log_loss": -np.log(np.maximum(p, _FLOOR)).mean(),
        "accuracy": 100 * share,
        "kappa": beyond(float(said @ there) / len(y) ** 2),
        "kappa_t": beyond(float(np.mean(np.concatenate([[0], y[:-1]]) == y))),
        "kappa_m": beyond(_majority(y.tolist(), n)),
        "f1_score": 200 * precision * recall / max(precision + recall, 1e-12),
        "roc_auc": auc(y == 1, second) if both else math.nan,
        "pr_auc": _average_precision(y == 1, second) if both else math.nan,
    }


def _majority(y: Sequence[int], n: int) -> float:
    """The share of the most usual class, which MOA looks up after it has counted the label."""
    counts, most, hits = [0] * n, 0, 0
    for label in y:
        counts[label] += 1
        if (counts[label], -label) > (counts[most], -most):
            most = label
        hits += most == label
    return hits / len(y)


def _average_precision(y: NDArray[np.bool_], score: NDArray[Any]) -> float:
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.diff(score[order], append=np.inf))
    hits = np.cumsum(y[order])[last]
    return float(np.sum(np.diff(hits, prepend=0) * hits / (last + 1)) / hits[-1])


# --- learners -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learner:
    """`of` is a class of CapyMOA; of ours it is empty, and `more` are options of `streamk run`."""

    shown: str
    of: str = ""
    tasks: tuple[str, ...] = ("classification", "regression")
    more: tuple[str, ...] = ()


LEARNERS = {
    "streamk": Learner("streamk"),
    "streamk-no-metric": Learner("no metric", more=("--expert", "none")),
    "AdaptiveRandomForest": Learner(
        "ARF, 100", "classifier.AdaptiveRandomForestClassifier", ("classification",)
    ),
    "StreamingRandomPatches": Learner(
        "SRP, 100", "classifier.StreamingRandomPatches", ("classification",)
    ),
    "SOKNL": Learner("SOKNL, 100", "regressor.SOKNL", ("regression",)),
    "AdaptiveRandomForestRegressor": Learner(
        "ARF-Reg, 100", "regressor.AdaptiveRandomForestRegressor", ("regression",)
    ),
}
"""By StreamArena's names."""
OURS = tuple(name for name, one in LEARNERS.items() if not one.of)


def ours(key: str, path: str, name: str, seed: int, n: int | None) -> dict[str, Any]:
    """A run of `streamk run`."""
    stream, more = Stream(key, path), LEARNERS[name].more
    classes = stream.classes if stream.task == "classification" else []
    scores = Scores(len(classes))
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "predictions.ndjson"
        cost = engine(stream, seed, n, more, to)
        for y, found in zip(stream.labels(n), said(to, stream.task), strict=True):
            scores.add(y, found if not (classes and found) else _in_order(found, classes))
    found = {"metrics": scores.figures(), "calibration": scores.calibration(), **cost}
    return found | {"hyperparameters": _options(stream.task, more)}


def _in_order(shares: Mapping[str, float], classes: Sequence[str]) -> list[float]:
    if unknown := shares.keys() - {*classes}:
        raise ValueError(f"the stream has no class {unknown}")
    return [shares.get(label, 0.0) for label in classes]


def _options(task: str, more: Sequence[str]) -> dict[str, Any]:
    """All options of the default model, and of its experts."""
    from streamk import learners
    from streamk.learners.registry import options_of

    def told(type_: str, of: Callable[[str], Any]) -> dict[str, Any]:
        return {name: of(name) for name in options_of(type_) if name != "seed"}

    experts = {"external_experts": []} if more else {}
    model = learners.create("multi-kernel", task=task, **experts)
    found = told("multi-kernel", partial(getattr, model))
    found["external_experts"] = [
        {"model": one["type"], **told(one["type"], one.get)} for one in found["external_experts"]
    ]
    return {"model": "multi-kernel", **found}


def moa(key: str, path: str, name: str, seed: int, n: int | None) -> dict[str, Any]:
    """A run of a learner of CapyMOA, in this process."""
    import capymoa.classifier
    import capymoa.regressor
    from capymoa.stream import stream_from_file

    classes = key.startswith("classification")
    kind = "categorical" if classes else "numeric"
    stream = stream_from_file(path, key.replace("/", "_"), target_type=kind)
    module, _, maker = LEARNERS[name].of.partition(".")
    schema = stream.get_schema()
    learner = getattr(getattr(capymoa, module), maker)(schema=schema, random_seed=seed)
    scores = Scores(schema.get_num_classes() if classes else 0)
    began = time.perf_counter(), time.process_time()
    for instance in islice(stream, n):
        if classes:
            scores.add(instance.y_index, learner.predict_proba(instance))
        else:
            scores.add(instance.y_value, learner.predict(instance))
        learner.train(instance)
    ended = time.perf_counter(), time.process_time()
    options = {
        k: v if isinstance(v, int | float) else str(v) for k, v in learner.get_params().items()
    }
    return {
        "metrics": scores.figures(),
        "calibration": scores.calibration(),
        "wallclock_s": round(ended[0] - began[0], 3),
        "cpu_time_s": round(ended[1] - began[1], 3),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 1),
        "hyperparameters": options
        | {"moa": str(learner.moa_learner.getOptions().getAsCLIString())},
    }


# --- runs -----------------------------------------------------------------------------------------


def runs(options: argparse.Namespace) -> Path:
    """The directory of result files; those of a part of the streams have one of their own."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = options.runs or Path(home) / "streamk" / NAME
    return Path(base) / (f"first-{options.events}" if options.events else "whole")


def file_of(folder: Path, key: str, name: str, seed: int) -> Path:
    """A result file, where StreamArena has it."""
    task, _, rest = key.partition("/")
    return folder / task / name / f"{rest.replace('/', '__')}__seed{seed}.json"


def record(stream: Stream, name: str, seed: int, n: int | None, found: Any) -> dict[str, Any]:
    """A result file of StreamArena's form."""
    task, _, rest = stream.key.partition("/")
    with Path(stream.path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    events = len(stream.labels(n))
    package = "capymoa" if LEARNERS[name].of else "streamk"
    return {
        "task": task,
        "algorithm": name,
        "dataset": rest,
        "seed": seed,
        "status": "ok",
        "window_size": None,
        "max_instances": n,
        "timestamp": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **found,
        "events": events,
        "events_per_cpu_s": round(events / max(found["cpu_time_s"], 1e-3), 1),
        "submission": {
            "author": "the streamk authors",
            "contact_or_repo": "streamk, CITATION.cff",
            "library_versions": {package: importlib.metadata.version(package)},
            "dataset_revision": f"sha256:{digest}",
            "notes": f"revision {common.revision()}; CPU seconds of ours are of the whole process",
        },
    }


def keep(path: Path, found: Any) -> None:
    """Write a file whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partly = path.with_suffix(".partial")
    partly.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    partly.replace(path)


def measure(stream: Stream, options: argparse.Namespace) -> None:
    """Check the ways of reading, then run what has no file yet."""
    folder, n = runs(options), options.events
    checked = folder / "checks" / f"{stream.key.replace('/', '__')}__{options.check or 'all'}.json"
    if not checked.is_file():
        part = min(options.check or math.inf, n or math.inf)
        order = {"key": stream.key, "path": stream.path, "n": None if part == math.inf else part}
        keep(checked, common.fresh(agree, order))
        common.note(f"{stream.key}: the same bits by {', '.join(json.loads(checked.read_text()))}")
    for name in options.learners:
        one = LEARNERS[name]
        if one.of and importlib.util.find_spec("capymoa") is None:
            common.note(f"{one.shown} is left out: pip install capymoa")
            continue
        for seed in options.seeds if stream.task in one.tasks else ():
            path = file_of(folder, stream.key, name, seed)
            if path.is_file():
                continue
            order = {"key": stream.key, "path": stream.path, "name": name, "seed": seed, "n": n}
            try:
                found = common.fresh(moa, order) if one.of else ours(**order)
            except subprocess.CalledProcessError as error:
                common.note(f"{stream.key}, {name}, seed {seed} failed: {error}")
                continue
            keep(path, record(stream, name, seed, n, found))
            common.note(f"{stream.key}, {name}, seed {seed}: {_primary(stream.key, found):.5g}")


def _primary(key: str, found: Mapping[str, Any]) -> float:
    return float(found["metrics"]["rmse" if key.startswith("regression") else "log_loss"])


def gathered(folder: Path, stream: Stream, anew: Sequence[str]) -> dict[str, Any]:
    """Means over the seeds of the result files of a stream."""

    def mean(of: Sequence[Mapping[str, Any]], name: str) -> float:
        return statistics.fmean(one[name] or 0.0 for one in of)

    found = {}
    for name in LEARNERS:
        first = file_of(folder, stream.key, name, 0)
        files = sorted(first.parent.glob(f"{first.stem[:-1]}*.json"))
        some = [json.loads(path.read_text(encoding="utf-8")) for path in files]
        if some:
            metrics = [one["metrics"] for one in some]
            found[name] = {
                "seeds": [one["seed"] for one in some],
                "primary": [_primary(stream.key, one) for one in some],
                "others": [mean(metrics, k) for k in _OTHERS[stream.task]],
                "calibration": np.mean([one["calibration"] for one in some], axis=0).tolist(),
                **{k: mean(some, k) for k in ("events", "cpu_time_s", "peak_rss_mb")},
            }
    return {"anew": stream.key in anew, "learners": found}


def with_former(former: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """Results, with former ones of rivals, which take hours, and of streams that are not here."""
    found = dict(former)
    for key, one in results.items():
        there = former.get(key, {"learners": {}})["learners"]
        rivals = {name: of for name, of in there.items() if LEARNERS[name].of}
        found[key] = {**one, "learners": rivals | one["learners"]}
    return found


_OTHERS = {"classification": ("accuracy", "kappa"), "regression": ("mae", "r2")}


# --- tables ---------------------------------------------------------------------------------------


def render(document: Mapping[str, Any]) -> str:
    """Return tables of errors beside the best published ones, and of the cost, for each task."""
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    texts = []
    for task, what in (("classification", "log loss"), ("regression", "RMSE")):
        there = document["results"].items()
        some = {key: v for key, v in there if key.startswith(task) and v["learners"]}
        texts += _tables(task, what, some, published["streams"]) if some else []
    if n := document.get("settings", {}).get("events"):
        texts.insert(0, f"only the first {n:,} events; what is published is of whole streams")
    about = f"published: {published['source']}, {published['commit']}, {published['date']};"
    return "\n\n".join([*texts, f"{about}\n~ is of other events of the same generator"])


def front(document: Mapping[str, Any]) -> str:
    """The streams that have published figures: errors and rates of ours beside the best of them."""
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))["streams"]
    texts = []
    for task, what in (("classification", "log loss"), ("regression", "RMSE")):
        rows = []
        for key, found in document["results"].items():
            theirs, of = published.get(key), [found["learners"].get(name) for name in OURS]
            if not key.startswith(task) or found["anew"] or theirs is None or None in of:
                continue
            name = min(theirs, key=lambda name: theirs[name][1])
            events = of[0]["events"]
            rates = [events / one["cpu_time_s"] for one in (*of, {"cpu_time_s": theirs[name][5]})]
            best = f"{_number(theirs[name][1])} {_INITIALS[name]}"
            errors = [_number(statistics.fmean(one["primary"])) for one in of]
            about = [key.rpartition("/")[2][:16], f"{events:,.0f}"]
            rows.append([*about, *errors, best, *(f"{rate:,.0f}" for rate in rates)])
        header = [what, "events", "streamk", "no metric", "published"]
        header += ["streamk/s", "no metric/s", "published/s"]
        texts += [common.table(header, rows)] if rows else []
    return "\n\n".join(
        [*texts, "/s: events a CPU second; the published rates were measured on another machine"]
    )


def _tables(task: str, what: str, some: Mapping[str, Any], published: Any) -> list[str]:
    names = [name for name, one in LEARNERS.items() if task in one.tasks]

    def table(cell: Callable[[Any], str], more: str, last: Callable[[str, Any], str]) -> str:
        rows = [
            [
                key.rpartition("/")[2][:18],
                *(cell(v["learners"][n]) if n in v["learners"] else "-" for n in names),
                last(key, v),
            ]
            for key, v in some.items()
        ]
        return common.table([task, *(LEARNERS[name].shown for name in names), more], rows)

    def best(tell: Callable[[str, Sequence[float]], str]) -> Callable[[str, Any], str]:
        def last(key: str, found: Mapping[str, Any]) -> str:
            theirs = published.get(key)
            if theirs is None:
                return "-"
            name = min(theirs, key=lambda name: theirs[name][1])
            return f"{'~' if found['anew'] else ''}{tell(_INITIALS[name], theirs[name])}"

        return last

    def n_events(_: str, found: Mapping[str, Any]) -> str:
        return f"{next(iter(found['learners'].values()))['events']:,.0f}"

    others = []
    for i, other in enumerate(_OTHERS[task]):
        told = best(lambda _, of, i=i: _number(of[3 + i]))
        others += [other, table(lambda one, i=i: _number(one["others"][i]), "published", told)]
    if task == "classification":
        others += ["calibration error of each class, points", _calibration(some, names)]
    seeds = max(len(one["seeds"]) for v in some.values() for one in v["learners"].values())
    return [
        f"{what}, mean ± spread of {seeds} seeds at most; the best published",
        table(_error, "published", best(lambda name, of: f"{_number(of[1])} {name}")),
        _ranks(some, published),
        *others,
        "events a second of the processor / peak MB; events",
        table(_cost, "events", n_events),
    ]


def _calibration(some: Mapping[str, Any], names: Sequence[str]) -> str:
    """A line for each stream and class; two classes have the same error, and one line."""
    rows = []
    for key, found in some.items():
        errors = {name: one["calibration"] for name, one in found["learners"].items()}
        n = len(next(iter(errors.values())))
        for k in range(n) if n > 2 else (1,):
            cells = [f"{errors[name][k]:.2f}" if name in errors else "-" for name in names]
            rows.append([f"{key.rpartition('/')[2][:18]} {k}", *cells])
    return common.table(["class", *(LEARNERS[name].shown for name in names)], rows)


_INITIALS = {
    "AdaptiveRandomForest": "ARF",
    "AdaptiveRandomForestRegressor": "ARF-Reg",
    "FIMTDD": "FIMT-DD",
    "HoeffdingAdaptiveTree": "HAT",
    "HoeffdingTree": "HT",
    "NaiveBayes": "NB",
    "SOKNL": "SOKNL",
    "StreamingRandomPatches": "SRP",
}


def _number(value: float) -> str:
    if abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:,.0f}" if 1e3 <= value < 1e9 else f"{value:.4g}"


def _error(one: Mapping[str, Any]) -> str:
    values = one["primary"]
    text = _number(statistics.fmean(values))
    if len(values) < 2:
        return text
    spread = statistics.stdev(values)
    form = ",.0f" if spread >= 1 else ".1g" if spread >= 1e-3 else ".0e"
    return f"{text} ±{spread:{form}}"


def _cost(one: Mapping[str, Any]) -> str:
    return f"{one['events'] / max(one['cpu_time_s'], 1e-3):,.0f} / {one['peak_rss_mb']:,.0f}"


def _ranks(some: Mapping[str, Any], published: Any) -> str:
    """Mean ranks of ours, each alone among published learners, or those that ran on events anew."""
    ranks: dict[str, list[int]] = {name: [] for name in OURS}
    for key, found in some.items():
        there = found["learners"]
        means = {name: statistics.fmean(one["primary"]) for name, one in there.items()}
        theirs = [mean for name, mean in means.items() if LEARNERS[name].of]
        if not found["anew"] and key in published:
            theirs = [of[1] for of in published[key].values()]
        for name in OURS if theirs else ():
            if name in means:
                ranks[name].append(1 + sum(other < means[name] for other in theirs))
    told = (f"{LEARNERS[k].shown} {statistics.fmean(v):.2f}" for k, v in ranks.items() if v)
    n = max(map(len, ranks.values()))
    return f"mean rank of each of ours among the others' on {n} streams: " + "; ".join(told)


# --- the command ----------------------------------------------------------------------------------


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return [*range(int(first), int(last or first) + 1)]


def _check(text: str) -> int:
    return 0 if text == "all" else int(text)


def run(argv: Sequence[str] | None = None) -> None:
    where = "directory of StreamArena's files (default: datasets)"
    parser = common.arguments(f"benchmarks.{NAME}", __doc__, data=where)
    parser.add_argument("--npz", metavar="DIR", help="make the streams that files there have")
    parser.add_argument("--generate", action="store_true", help="make the generated streams anew")
    parser.add_argument("--streams", nargs="+", metavar="NAME", help="default: all that are there")
    parser.add_argument("--seeds", type=_seeds, default="1-10", metavar="1-10")
    parser.add_argument(
        "--learners", nargs="+", choices=[*LEARNERS], metavar="NAME", default=[*LEARNERS]
    )
    parser.add_argument("--events", type=int, metavar="N", help="the first N events alone")
    parser.add_argument(
        "--check",
        type=_check,
        default=2_000,
        metavar="N",
        help="events that are read in all ways, or all (default: 2,000)",
    )
    parser.add_argument("--runs", type=Path, metavar="DIR", help="where runs are kept")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        if options.quick and not options.data:
            options.data, options.runs = folder, options.runs or Path(folder) / "runs"
        root = Path(options.data or "datasets").resolve()
        make(root, options)
        streams = find(root, options.streams)
        for stream in streams.values():
            measure(stream, options)
        made = anew(root)
        results = {key: gathered(runs(options), one, made) for key, one in streams.items()}
        if options.events and not options.out:  # a part is no result
            options.out = runs(options) / "results.json"
        results = with_former(common.earlier(common.written(NAME, options)), results)
        settings = {"events": options.events, "check": options.check}
        common.finish(NAME, options, settings, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
