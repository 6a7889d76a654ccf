"""All contestants on all streams: who is best, with labels at once and 48 events late.

Runs of rivals take hours; each is kept in a directory when it is done, and taken from there the
next time. Ours run anew every time, with their defaults and without a metric; with --ours they are
all that is run. Interrupted, it goes on where it was.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks import common
from benchmarks.battery_tables import Figures, paired, render_all
from benchmarks.data import DataError
from benchmarks.rivals import (
    CONTESTANTS,
    NAME,
    OTHERS,
    OURS,
    PLAIN,
    RIVER,
    SEED,
    Contestant,
)
from benchmarks.streams import STREAMS, Stream, load, with_labels

# --- loop -----------------------------------------------------------------------------------------
#
# Progressive validation: every event is predicted, then learned, at once or some events later.
#
# With a delay of d the label of event t is learned just before event t + d is predicted, which is
# what `river.evaluate.progressive_val_score(delay=d)` does. A contestant that works in batches is
# asked for a whole batch before it learns any of it, and learns what was known when the batch came.


@dataclass(frozen=True)
class Outcome:
    """What a contestant answered to the first `len(guess)` events of a stream.

    Of classes `guess` has the most probable label, -1 where there was no answer, and `p` the
    probability that the true label was given; in regression `guess` has the number, NaN for none,
    and `p` is empty.
    """

    guess: NDArray[Any]
    p: NDArray[np.float64]
    seconds: float
    cpu_seconds: float
    ended: str = ""
    """Why it did not come to the stream's end; empty if it did."""


def run_loop(
    contestant: Contestant, stream: Stream, delay: int, limit: float, clock: Clock | None = None
) -> Outcome:
    """One contestant on one stream, for at most `limit` seconds of the processor."""
    told = with_labels(stream, delay) if contestant.labels else stream
    model = contestant.make(told)
    events = told.events(none=contestant.none)
    answers: list[Any] = []
    ended = ""
    clock = clock or Clock()
    gc.collect()
    clock.start(limit)
    try:
        if contestant.batch:
            n, alone = len(events), min(contestant.alone, len(events))
            starts = (*range(alone), *range(alone, n, contestant.batch), n)
            done = _batches(model, events, delay, answers, clock, starts)
        else:
            done = _one_by_one(model, events, delay, answers, clock, stream.task)
        ended = "" if done else "too slow"
    except Exception as error:  # a rival's failure is its result
        ended = f"failed: {type(error).__name__}: {error}"
    seconds, cpu = clock.seconds(), clock.cpu_seconds()
    return Outcome(*scored(answers, stream), seconds, cpu, ended)


class Clock:
    """Seconds since it was started; asked after each event, or batch, whether the limit is over."""

    def start(self, limit: float = math.inf) -> None:
        self._limit = limit
        self._began, self._began_cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def cpu_seconds(self) -> float:
        return time.process_time() - self._began_cpu

    def over(self) -> bool:
        """Whether the limit has passed; on a busy machine the processor's seconds last longer."""
        return self.seconds() > self._limit and self.cpu_seconds() > self._limit


def _one_by_one(
    model: Any,
    events: Sequence[tuple[Any, Any]],
    delay: int,
    answers: list[Any],
    clock: Clock,
    task: str,
) -> bool:
    """Whether the end was reached."""
    answer: Callable[[Any], Any]
    answer = model.predict_one if task == "regression" else model.predict_proba_one
    learn = model.learn_one
    for t, (x, y) in enumerate(events):
        if t >= delay > 0:
            learn(*events[t - delay])
        answers.append(answer(x))
        if not delay:
            learn(x, y)
        if clock.over():
            return False
    return True


def _batches(
    model: Any,
    events: Sequence[tuple[Any, Any]],
    delay: int,
    answers: list[Any],
    clock: Clock,
    starts: Sequence[int],
) -> bool:
    """Return whether the end was reached; batches begin at `starts`, whose last is the end."""
    learned = 0
    for start, stop in pairwise(starts):
        known = max(start - max(delay - 1, 0), 0)
        if known > learned:
            some = events[learned:known]
            model.learn_many([x for x, _ in some], [y for _, y in some])
            learned = known
        answers += model.predict_many([x for x, _ in events[start:stop]])
        if clock.over():
            return False
    return True


# --- answers as arrays --------------------------------------------------------------------------


def scored(answers: Sequence[Any], stream: Stream) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Answers to the first events of a stream, as an `Outcome` has them."""
    labels = stream.y[: len(answers)].tolist()
    if stream.task == "regression":
        guess = [math.nan if answer is None else float(answer) for answer in answers]
        return np.array(guess), np.empty(0)
    likely = [_likely(answer) for answer in answers]
    p = [_finite(a.get(y, 0.0)) if a else 0.0 for a, y in zip(answers, labels, strict=True)]
    return np.array(likely, dtype=np.int16), np.array(p, dtype=np.float64)


def _likely(answer: Mapping[Any, float] | None) -> int:
    """The most probable label, -1 for none."""
    if not answer:
        return -1
    return int(max(answer, key=lambda label: _finite(answer[label])))


def _finite(p: float) -> float:
    return p if p == p else 0.0


# --- scores ---------------------------------------------------------------------------------------
#
# What the answers of a run are worth.
#
# Events count from the first one that was answered, and before which a label was known; later ones
# count as misses if there is no answer. The log loss takes probabilities as at least 1e-15.

Numbers = NDArray[np.float64]
_LEAST = 1e-15


def counted(outcome: Outcome, delay: int) -> slice:
    """The events that count."""
    guess = outcome.guess
    answered = ~np.isnan(guess) if guess.dtype.kind == "f" else guess >= 0
    first = int(np.argmax(answered)) if answered.any() else len(guess)
    return slice(max(first, delay, 1), len(guess))


def losses(outcome: Outcome, stream: Stream, *, log: bool = False) -> Numbers:
    """Of every event that was reached: 1 for a miss, or the distance from the number.

    With `log` of classes their log loss.
    """
    if log:
        return -np.log(np.clip(outcome.p, _LEAST, 1, dtype=np.float64))
    y = stream.y[: len(outcome.guess)]
    if stream.task != "regression":
        return (outcome.guess != y).astype(np.float64)
    distance: Numbers = np.abs(outcome.guess - y)
    return np.where(np.isnan(distance), np.inf, distance)


def both(
    theirs: Outcome, ours: Outcome, stream: Stream, delay: int, *, log: bool = False
) -> tuple[Numbers, Numbers]:
    """Losses of the events that count for both; but for misses in units of the mean of theirs."""
    parts = [counted(outcome, delay) for outcome in (ours, theirs)]
    some = slice(max(part.start for part in parts), min(part.stop for part in parts))
    a, b = (losses(outcome, stream, log=log)[some] for outcome in (theirs, ours))
    scale = float(a.mean()) or 1.0 if log or stream.task == "regression" else 1.0
    return a / scale, b / scale


def figures_of(outcome: Outcome, stream: Stream, delay: int) -> Mapping[str, Any]:
    """The scores of a run that are numbers; its length, its speed, why it ended before the end."""
    found: dict[str, Any] = {
        "events": len(outcome.guess),
        "seconds": round(outcome.seconds, 3),
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        "events_per_s": round(len(outcome.guess) / outcome.seconds, 1),
        "events_per_cpu_s": round(len(outcome.guess) / max(outcome.cpu_seconds, 1e-9), 1),
    }
    if outcome.ended:
        found["ended"] = outcome.ended
    some = counted(outcome, delay)
    if some.start >= some.stop:
        return found
    score = _numbers if stream.task == "regression" else _classes
    values = score(outcome, stream, some).items()
    return {k: float(f"{v:.7g}") for k, v in values if np.isfinite(v)} | found


def _numbers(outcome: Outcome, stream: Stream, some: slice) -> dict[str, float]:
    distance = losses(outcome, stream)[some]
    with np.errstate(over="ignore"):
        return {"mae": distance.mean(), "rmse": np.sqrt(np.square(distance).mean())}


def _classes(outcome: Outcome, stream: Stream, some: slice) -> dict[str, float]:
    right = 1 - losses(outcome, stream)[some]
    y, p = stream.y[some], outcome.p[some].astype(np.float64)
    recalls = [right[y == label].mean() for label in np.unique(y)]
    found = {
        "accuracy": right.mean(),
        "balanced_accuracy": float(np.mean(recalls)),
        "log_loss": losses(outcome, stream, log=True)[some].mean(),
    }
    if stream.task == "binary" and 0 < y.sum() < len(y):
        found["auc"] = auc(y, np.where(y, p, 1 - p))
    return found


def auc(y: NDArray[np.bool_], score: Numbers) -> float:
    """The share of pairs, one of each class, that the score puts in order; equal ones are half."""
    positive = int(y.sum())
    ranks = rankdata(score)[y].sum() - positive * (positive + 1) / 2
    return float(ranks / (positive * (len(y) - positive)))


# --- units ----------------------------------------------------------------------------------------
#
# Runs of rivals are kept: one file for a contestant, a stream and a delay.
#
# It has the answer to every event, so that scores and paired comparisons are made without running
# anything again. The name ends in a hash of all that the run depends on.

_FORMAT = 1
"""Raised when the loop answers differently."""


def directory() -> Path:
    """Where runs are kept unless an option says where."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "streamk" / "battery"


def path(cache: Path, key: Mapping[str, Any]) -> Path:
    """The file of a run."""
    text = json.dumps({"format": _FORMAT, **key}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    words = (key["stream"], key["delay"], key["contestant"], digest)
    return cache / ("-".join(re.sub(r"\W+", "_", str(word)) for word in words) + ".npz")


def kept(cache: Path, key: Mapping[str, Any], limit: float) -> Outcome | None:
    """The run, unless there is none, or one that had less time than `limit` and needed more."""
    file = path(cache, key)
    if not file.is_file():
        return None
    with np.load(file) as arrays:
        about = json.loads(str(arrays["about"]))
        outcome = Outcome(arrays["guess"], arrays["p"], **about["outcome"])
    return None if outcome.ended == "too slow" and about["limit"] < limit else outcome


def keep(cache: Path, key: Mapping[str, Any], limit: float, outcome: Outcome) -> None:
    """Write the run at once, or not at all."""
    cache.mkdir(parents=True, exist_ok=True)
    file = path(cache, key)
    figures = {k: v for k, v in asdict(outcome).items() if k not in ("guess", "p")}
    about = {"key": dict(key), "limit": limit, "machine": common.machine(), "outcome": figures}
    partial = file.with_suffix(f".{os.getpid()}.partial")
    with partial.open("wb") as stream:
        np.savez_compressed(
            stream,
            guess=outcome.guess,
            p=outcome.p.astype(np.float32),
            about=np.array(json.dumps(about)),
        )
    partial.replace(file)


# --- measure --------------------------------------------------------------------------------------
#
# Run what is not kept, score everything, compare ours with the best rival of each stream.


@dataclass
class Battery:
    """Runs of contestants on streams with one delay; those of rivals are kept in `cache`."""

    streams: Sequence[Stream]
    delay: int
    cache: Path
    limit: float
    fresh: bool = False
    """Run rivals whose run is kept, too."""
    idle: bool = False
    """Run nothing whose runs are kept."""
    keep_ours: bool = False
    """Keep runs of ours, too, for the code as it is."""
    contestants: Mapping[str, Contestant] = field(default_factory=lambda: CONTESTANTS)
    _ours: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def figures(self, names: Sequence[str]) -> Figures:
        """Run the contestants, one after the other, on all streams; without those not to be had."""
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            for stream, outcome in self._runs(self.contestants[name]):
                figures = figures_of(outcome, stream, self.delay)
                found.setdefault(name, {})[stream.name] = figures
        return found

    def _runs(self, contestant: Contestant) -> Iterator[tuple[Stream, Outcome]]:
        for stream in self.streams:
            if contestant.takes(stream):
                outcome = self.run(contestant, stream)
                if outcome is not None:
                    yield stream, outcome

    def run(self, contestant: Contestant, stream: Stream) -> Outcome | None:
        """One contestant on one stream; None if it is not kept and cannot be run, or must not."""
        ours = contestant.package == OURS.package
        keeps = self.keep_ours or not ours
        outcome = self._kept(contestant, stream) if keeps and not self.fresh else None
        if outcome is None:
            if keeps and (self.idle or contestant.version is None):
                return None
            outcome = run_loop(contestant, stream, self.delay, self.limit)
            if ours and outcome.ended.startswith("failed"):
                raise RuntimeError(f"{stream.name}: {outcome.ended}")
            if keeps:
                keep(self.cache, contestant.key(stream, self.delay), self.limit, outcome)
            rate = len(outcome.guess) / outcome.seconds
            about = outcome.ended or f"{outcome.seconds:.0f} s"
            common.note(f"  {self.delay} {contestant.name}: {stream.name} {rate:,.0f}/s, {about}")
        if ours:
            self._ours[contestant.name, stream.name] = outcome
        return outcome

    def _kept(self, contestant: Contestant, stream: Stream) -> Outcome | None:
        limit = 0.0 if self.idle else self.limit
        return kept(self.cache, contestant.key(stream, self.delay), limit)

    # --- ours against the best ------------------------------------------------------------------

    def against_best(
        self, figures: Figures, rivals: Sequence[str], ours: str = NAME, *, log: bool = False
    ) -> dict[str, Any]:
        """For each stream the best of these rivals that came to its end, and ours against it.

        A difference above 0 is for ours: more right answers, or less error, in a part of theirs.
        With `log` it is the log loss that counts, of streams of classes.
        """
        found: dict[str, Any] = {}
        for stream in self.streams:
            if log and stream.task == "regression":
                continue
            key = "log_loss" if log else "mae" if stream.task == "regression" else "accuracy"
            sign = -1 if key == "accuracy" else 1
            there = {
                name: sign * figures[name][stream.name][key]
                for name in rivals
                if _whole(figures.get(name, {}).get(stream.name), key)
            }
            if there and (ours, stream.name) in self._ours:
                best = min(there, key=there.__getitem__)
                losses = self.losses(best, stream, self._ours[ours, stream.name], log=log)
                if losses is not None:
                    found[stream.name] = {"rival": best, **paired(*losses)}
        return found

    def losses(
        self, rival: str, stream: Stream, ours: Outcome, *, log: bool = False
    ) -> tuple[Numbers, Numbers] | None:
        """Losses of a rival and of ours on the same events; None where its run is not to be had.

        Its figures may come from the results of an earlier day, so it is run if that is not kept.
        """
        contestant = self.contestants[rival]
        theirs = kept(self.cache, contestant.key(stream, self.delay), 0.0)
        if theirs is None:
            theirs = self.run(contestant, stream)
        if theirs is None:
            common.note(f"  {self.delay} {stream.name} is not compared: no run of {rival}")
            return None
        return both(theirs, ours, stream, self.delay, log=log)


def _whole(figures: Mapping[str, Any] | None, key: str) -> bool:
    return figures is not None and key in figures and "ended" not in figures


def measure(
    streams: Sequence[Stream],
    names: Sequence[str],
    batteries: Sequence[Battery],
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What the streams are, and by delay all figures and what they say about ours.

    Contestants that are not among the names have their figures of the results `before`, if any.
    """
    delays = {}
    for battery in batteries:
        figures = battery.figures(names)
        if before is not None:
            figures = {**before["delays"][str(battery.delay)]["contestants"], **figures}
        delays[str(battery.delay)] = {
            "contestants": figures,
            "against_river": battery.against_best(figures, RIVER),
            "against_others": battery.against_best(figures, OTHERS),
        }
    return {"streams": {stream.name: stream.describe() for stream in streams}, "delays": delays}


# --- the parts ------------------------------------------------------------------------------------

EVENTS = 20_000
DELAYS = (0, 48)
LIMIT = 600.0
render = render_all


def run(argv: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(argv)
    streams = [
        load(name, options.data, quick=options.quick, events=options.events)
        for name in options.streams
    ]
    batteries = [
        Battery(
            streams, delay, options.cache, options.limit, fresh=options.fresh, idle=options.cached
        )
        for delay in options.delays
    ]
    before = _before(options) if options.ours else None
    names = [OURS.name, PLAIN.name] if options.ours else options.contestants
    results = measure(streams, names, batteries, before and before["results"])
    packages = {c.package: c.version or "not installed" for c in CONTESTANTS.values()}
    if before is not None:
        packages = before["settings"]["packages"]
        names = [*names, *(name for name in before["settings"]["contestants"] if name not in names)]
    settings: dict[str, Any] = {
        "events": options.events,
        "seed": SEED,
        "limit_s": options.limit,
        "packages": packages,
        "contestants": {name: CONTESTANTS[name].settings for name in names},
    }
    common.finish("river_battery", options, settings, results, render)


def _before(options: Any) -> Any:
    """The results of an earlier run, of as many streams and delays."""
    path = options.out or common.RESULTS / "river_battery.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    there = document["results"]
    known = set(options.streams) == set(there["streams"]) and {*map(str, options.delays)} == set(
        there["delays"]
    )
    if not known or document["settings"]["events"] != options.events:
        raise DataError(f"{path} has other streams, delays or events; --ours needs the same")
    return document


def _parser() -> Any:
    parser = common.arguments("benchmarks.river_battery", __doc__)
    parser.add_argument(
        "--events",
        type=int,
        default=EVENTS,
        metavar="N",
        help="first events of each stream, 0 for all (default: %(default)s)",
    )
    parser.add_argument(
        "--streams", nargs="+", choices=STREAMS, default=list(STREAMS), metavar="STREAM"
    )
    parser.add_argument(
        "--contestants",
        nargs="+",
        choices=CONTESTANTS,
        default=list(CONTESTANTS),
        metavar="CONTESTANT",
    )
    parser.add_argument(
        "--delays",
        nargs="+",
        type=int,
        default=list(DELAYS),
        metavar="N",
        help="events after which a label comes (default: 0 48)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        metavar="S",
        help="seconds of the processor for a contestant on a stream (default: %(default)s)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=directory(),
        metavar="DIR",
        help="where runs of rivals are kept (default: in the user's cache directory)",
    )
    taking = parser.add_mutually_exclusive_group()
    taking.add_argument("--fresh", action="store_true", help="run what is kept, too")
    taking.add_argument(
        "--ours",
        action="store_true",
        help="run ours alone; of rivals, whose figures stay as they were in the results, the best"
        " of each stream if its run is not kept",
    )
    taking.add_argument("--cached", action="store_true", help="run no rival, show what is kept")
    return parser


if __name__ == "__main__":
    sys.exit(common.main(run))
