"""Errors of the default model against events a second of the processor: accuracy and its cost.

The default model at each of its `effort`s (0: no learned metric, None: no bound), LightGBM trained
anew every 1,000 events, two of River's ensembles, and Vowpal Wabbit fed by a file, on the streams
of the river battery and of StreamArena. Each run is a process of its own. Events are predicted,
then learned, ours in batches of 512, River's one by one, VW's by the loop of its command. Seconds
are those of the processor, all threads together, with what is done in the background; the first 300
events are told apart, in which compiled code is loaded, but for VW, which compiles none.

Results are written after each run; runs that are there are not run again: delete them to do so.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import common, retrained, rivals
from benchmarks.data import DataError
from benchmarks.rivals import Contestant
from benchmarks.river_battery import Clock, Outcome, figures_of, run_loop, scored
from benchmarks.streams import ARENA, STREAMS, Stream, load

NAME = "cost"
SEED = rivals.SEED
BATCH = 512
START = 300
"""Events that are told apart."""
FIRST = 20_000
"""Events that have scores of their own: those of the battery."""
WARM = 5_300
"""Events that a process learns before, for what is compiled then to be on the disk."""
LIMIT = 1_200.0
"""Seconds of the processor for a rival on a stream."""
ALL = (*STREAMS, *ARENA)
BASE = "effort 0"
UNBOUND = "no bound"
VOWPAL = "VW"
RIVALS = {
    "LightGBM": retrained.CONTESTANTS["LightGBM, all before"],
    "ARF, 10": rivals.CONTESTANTS["River ARF, 10"],
    "SRP, 10": rivals.CONTESTANTS["River SRP, 10"],
    VOWPAL: rivals.VW,
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class StartClock(Clock):
    """One that keeps the seconds of the first events, which come one by one."""

    def __init__(self, start: int) -> None:
        self.left, self.first = start, math.nan

    def over(self) -> bool:
        self.left -= 1
        if not self.left:
            self.first = self.cpu_seconds()
        return super().over()


def measure(
    contestant: str, effort: float | None, name: str, data: str | None, quick: bool, events: int
) -> dict[str, Any]:
    """Scores, seconds and memory of a contestant on a stream; `effort` is of ours alone."""
    stream = load(name, data, quick=quick, events=events)
    start = min(START, len(stream) // 2)
    clock = StartClock(start)
    if contestant == VOWPAL:
        outcome = from_file(RIVALS[contestant], stream, clock, start)
    elif contestant in RIVALS:
        outcome = run_loop(RIVALS[contestant], stream, 0, LIMIT, clock)
    else:
        outcome = ours(stream, effort, clock, start)
    first = replace(outcome, guess=outcome.guess[:FIRST], p=outcome.p[:FIRST])
    early = {f"first_{key}": value for key, value in scores(first, stream).items()}
    n, seconds = len(outcome.guess), outcome.cpu_seconds
    found = {"events": n, **scores(outcome, stream), **early} | {
        "start_s": round(clock.first, 4),
        "cpu_s": round(seconds, 3),
        "rate": round((n - start) / (seconds - clock.first), 1),
        "peak_mib": round(common.resident("VmHWM") / 2**20),
    }
    return found | ({"ended": outcome.ended} if outcome.ended else {})


def scores(outcome: Outcome, stream: Stream) -> dict[str, float]:
    """The share of misses and the log loss; of numbers MAE and RMSE."""
    found = figures_of(outcome, stream, 0)
    misses = round(1.0 - found.get("accuracy", 0.0), 7)
    return {"error": found.get("mae", misses), "loss": found.get("rmse", found.get("log_loss"))}


def from_file(contestant: Contestant, stream: Stream, clock: StartClock, start: int) -> Outcome:
    """VW's answers to all events, which are in a file before the clock starts."""
    model = contestant.make(stream)
    with TemporaryDirectory() as directory:
        given, said = Path(directory, "events"), Path(directory, "predictions")
        model.write(stream.events(), given)
        gc.collect()
        clock.start()
        model.learn_file(given, said)
        seconds = clock.seconds(), clock.cpu_seconds()
        answers = model.read(said)
    clock.first = seconds[1] * start / len(stream)
    return Outcome(*scored(answers, stream), *seconds)


def ours(stream: Stream, effort: float | None, clock: StartClock, start: int) -> Outcome:
    """The default model's answers to all events; the first ones are a batch of their own."""
    # Here, since it counts in the memory of a process.
    from benchmarks.feature_machine import finish_background
    from streamk.learners import MultiKernel

    regression, n = stream.task == "regression", len(stream)
    task = "regression" if regression else "classification"
    model = MultiKernel(task=task, effort=effort, seed=SEED)
    parts = [stream.part(*ends) for ends in pairwise((0, *range(start, n, BATCH), n))]
    said = []
    gc.collect()
    clock.start()
    for part in parts:
        labels = part.y if regression else part.y.tolist()
        said.append(model.predict_then_learn_many(part.table().astype(np.float64), labels))
        if len(said) == 1:
            clock.first = clock.cpu_seconds()
    finish_background()
    seconds = clock.seconds(), clock.cpu_seconds()
    if regression:
        return Outcome(np.concatenate([one.predictions for one in said]), np.empty(0), *seconds)
    guess = [-1 if label is None else int(label) for one in said for label in one.predictions]
    column = {label: j for j, label in enumerate(model.classes)}  # new ones come last
    p = []
    for part, one in zip(parts, said, strict=True):
        assert one.probabilities is not None
        columns = [column[label] for label in part.y.tolist()]
        p.append(np.nan_to_num(one.probabilities[np.arange(len(part)), columns]))
    return Outcome(np.array(guess, np.int16), np.concatenate(p), *seconds)


# --- all runs -------------------------------------------------------------------------------------


def run(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    numbers = [None if one == "none" else float(one) for one in options.efforts.split(",")]
    efforts = {UNBOUND if one is None else f"effort {one:g}": one for one in numbers}
    packages = {one.package: one.version or "not installed" for one in RIVALS.values()}
    there = [name for name, one in RIVALS.items() if one.version] if options.rivals else []
    out = common.written(NAME, options)
    results: dict[str, Any] = {"streams": {}, "runs": {}} | common.earlier(out)
    settings = {"seed": SEED, "batch": BATCH, "limit_s": LIMIT, "packages": packages}
    for name in options.streams:
        about = load(name, options.data, quick=options.quick, events=options.events).describe()
        if results["streams"].setdefault(name, about) != about:
            raise DataError(f"{out} has other events of {name}: give another file with --out")
        done = results["runs"].setdefault(name, {})
        order = {"name": name, "data": options.data, "quick": options.quick}
        if efforts.keys() - done.keys():
            warm = {"contestant": UNBOUND, "effort": None, "events": WARM}
            common.fresh(measure, order | warm, ONE_THREAD)
        for one in (one for one in (*efforts, *there) if one not in done):
            more = {"contestant": one, "effort": efforts.get(one), "events": options.events}
            done[one] = common.fresh(measure, order | more, ONE_THREAD)
            done[one]["revision"] = common.revision()
            common.note(f"  {name}: {one}: {done[one]}")
            common.write(NAME, options, settings, results)
    common.finish(NAME, options, settings, results, render)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = common.arguments(f"benchmarks.{NAME}", __doc__)
    add = parser.add_argument
    add("--streams", metavar="A,B", help="default: all")
    add("--efforts", default="0,0.5,1,2,none", metavar="A,B", help="default: %(default)s")
    add("--events", type=int, default=0, metavar="N", help="first ones of a stream (0: all)")
    add("--rivals", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args(argv)
    default = ("elec2", "cpusmall") if options.quick else ALL
    options.streams = options.streams.split(",") if options.streams else default
    if unknown := set(options.streams).difference(ALL):
        parser.error(f"no stream {', '.join(unknown)}; there are {', '.join(ALL)}")
    return options


# --- tables ---------------------------------------------------------------------------------------

Runs = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By stream and contestant."""


def contestants_of(runs: Runs) -> list[str]:
    """Ours by effort, then rivals."""
    there = {name for of_stream in runs.values() for name in of_stream}
    return sorted(there, key=lambda name: (name in RIVALS, name))


def summary(runs: Runs) -> dict[str, dict[str, float]]:
    """Return geometric means of each contestant, over streams that it has ended.

    They are streams on which all of ours were run. Errors and losses are relative to those of
    effort 0; memory and start-up are medians.
    """
    found, names = {}, contestants_of(runs)
    ours = {BASE, *names}.difference(RIVALS)
    for name in names:
        wanted = {name, BASE} if name in RIVALS else ours
        there = [one for one in runs.values() if wanted <= one.keys()]
        pairs = [(one[name], one[BASE]) for one in there if "ended" not in one[name]]
        if pairs:
            found[name] = {
                "streams": len(pairs),
                **{key: _ratio(key, pairs) for key in ("error", "first_error", "loss")},
                "rate": statistics.geometric_mean(a["rate"] for a, _ in pairs),
                **{k: statistics.median(a[k] for a, _ in pairs) for k in ("start_s", "peak_mib")},
            }
    return found


def _ratio(key: str, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float:
    """The geometric mean of ratios, of pairs without a 0."""
    ratios = [a[key] / b[key] for a, b in pairs if a[key] and b[key]]
    return statistics.geometric_mean(ratios) if ratios else math.nan


def render(document: Mapping[str, Any]) -> str:
    """Means over the streams, then each figure by stream and contestant."""
    results = document["results"]
    header = ["relative to effort 0", "streams", "error", "first 20,000", "log loss, RMSE"]
    rows = []
    for name, one in summary(results["runs"]).items():
        cells = [f"{one[key]:.3f}" for key in ("error", "first_error", "loss")]
        cells += [f"{one['rate']:,.0f}", f"{one['start_s']:.2f}", f"{one['peak_mib']:,.0f}"]
        rows.append([name, str(one["streams"]), *cells])
    shown = [common.table([*header, "events/CPU s", "start, s", "MiB"], rows)]
    shown += [_by_stream(text, key, results) for text, key in _FIGURES.items()]
    runs = (one for of_stream in results["runs"].values() for one in of_stream.values())
    commits = ", ".join(sorted({f"{one['revision']}" for one in runs}))
    packages = ", ".join(map(" ".join, document["settings"]["packages"].items()))
    said = textwrap.fill(f"Runs of commits {commits}; {packages}.", 100)
    return "\n\n".join([*shown, f"{said}\n{common.origin(document)}"])


_FIGURES = {
    "error, %, or MAE": "error",
    "of the first 20,000": "first_error",
    "log loss or RMSE": "loss",
    "events/CPU s": "rate",
    f"CPU s of the first {START}": "start_s",
    "peak memory, MiB": "peak_mib",
}


def _by_stream(text: str, key: str, results: Mapping[str, Any]) -> str:
    names, rows = contestants_of(results["runs"]), []
    for stream in (name for name in ALL if name in results["runs"]):
        classes = results["streams"][stream]["task"] != "regression"
        scale = 100.0 if key.endswith("error") and classes else 1.0
        found = [results["runs"][stream].get(name, {}) for name in names]
        short = stream.removesuffix("_california_housing")
        rows.append([short, *(_cell(one, key, scale) for one in found)])
    return common.table([text, *(name.removeprefix("effort ") for name in names)], rows)


def _cell(found: Mapping[str, Any], key: str, scale: float) -> str:
    """A dash where there is no run to the end."""
    value = math.nan if "ended" in found else scale * found.get(key, math.nan)
    form = ",.0f" if value >= 1_000.0 else ".4g" if value >= 1.0 else ".4f"
    return "-" if value != value else f"{value:{form}}"


if __name__ == "__main__":
    sys.exit(common.main(run))
