"""What the multi-kernel learner's parts are good for, and its calibration.

ablation     the learner less each of its parts, on 23 of the river battery's streams
calibration  probabilities and intervals, labels at once and 48 events late

How each figure is taken stands above its part.
"""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks import common
from benchmarks.common import Part
from benchmarks.rivals import SEED, Contestant
from benchmarks.river_battery import Outcome, counted, figures_of, losses, paired, run_loop
from benchmarks.streams import FILES, NUMBERS, RIVERS, STREAMS, Event, Stream, load
from streamk.backends.banks import BANKS, CONSTANT, Bank
from streamk.learners import MultiKernel
from streamk.learners.multi_kernel import expert_pool, upkeep

# --- direct ---------------------------------------------------------------------------------------
#
# `MultiKernel` itself in the river battery's loop, and the streams it is asked about.
#
# It has no external experts: what is measured are the parts of the pool.

EVENTS = 20_000
LATE = 48
"""Events after which late labels come."""
CLASSES = tuple(n for n in STREAMS if n not in (*NUMBERS, "kdd99_10pct", "spam_sparse"))
"""kdd99 is one class for thousands of events on end, and each of spam's words a column."""
_QUICK = {"elec2": 150, "Waveform": 150, "ChickWeights": 150}

Make = Callable[..., MultiKernel]


def load_streams(directory: str | None, *, quick: bool) -> list[Stream]:
    """The first events of each stream."""
    events = _QUICK if quick else dict.fromkeys((*CLASSES, *NUMBERS), EVENTS)
    return [load(name, directory, quick=quick, events=n) for name, n in events.items()]


class Direct:
    """A learner that takes events as dicts of all columns; it says nothing before a label came."""

    def __init__(self, stream: Stream, make: Make = MultiKernel) -> None:
        task = "regression" if stream.task == "regression" else "classification"
        self.model = make(
            task=task, seed=SEED, columns=stream.columns, threads=1, external_experts=()
        )

    def learn_one(self, x: Event, y: Any) -> None:
        self.model.learn_one(_row(x), y)

    def predict_proba_one(self, x: Event) -> Mapping[Any, float] | None:
        return self.model.predict_proba_one(_row(x)) if self.model.n_events else None

    def predict_one(self, x: Event) -> float | None:
        return float(self.model.predict_one(_row(x))) if self.model.n_events else None


def run_through(direct: Direct, stream: Stream, delay: int) -> Outcome:
    """Return the answers of a learner to all events, one by one."""
    contestant = Contestant("", lambda _: direct, "streamk", "", none=True)
    outcome = run_loop(contestant, stream, delay, math.inf)
    if outcome.ended:
        raise RuntimeError(f"{stream.name}: {outcome.ended}")
    return outcome


def _row(x: Event) -> NDArray[np.float64]:
    return np.array(list(x.values()), dtype=np.float64)  # None is NaN


# --- variants -------------------------------------------------------------------------------------
#
# The learner less one of its parts.
#
# It has no options for this. Constants are patched for as long as a variant runs, and banks are
# kept silent by a subclass.

_NEVER = 1e-300
"""Rate of fixed shares that never come back to an expert. With 0 itself, weights of 0 are divided
by each other when those who have all of it fall asleep."""

Patch = tuple[Any, str, object]


@dataclass(frozen=True)
class Variant:
    """What is made, with which constants, and how late its labels come."""

    name: str
    about: str
    make: Make = MultiKernel
    patches: tuple[Patch, ...] = ()
    delay: int = 0

    @contextmanager
    def constants(self) -> Iterator[None]:
        """Patch them; models have to be made and run inside, and all is as before afterwards."""
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.enter_context(mock.patch.object(owner, name, value))
            yield


class Without(MultiKernel):
    """A learner, of one event at a time, in which experts of one kind say nothing.

    A bank sleeps for good. The constant kernel's experts never sleep, so they forget every label:
    they give all classes the same probability, and as a number the centre of the labels' scale.
    """

    def __init__(self, bank: Bank, **options: Any) -> None:
        self._silent = bank
        super().__init__(**options)

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn; what that has woken or told a label is silent again."""
        super().learn_one(x, y)
        self._silence()

    def _silence(self) -> None:
        arrays = self._mixture.pool.arrays
        if self._silent == CONSTANT:
            classes = arrays["CONSTANT_LEVELS"].shape[1]
            arrays["CONSTANT_LEVELS"][:] = 1.0 / classes if classes > 1 else 0.0
            arrays["CONSTANT_CHAIN"][:] = 0.0
        else:
            arrays["ACTIVE"][BANKS.index(self._silent)] = False


ALL = Variant("all", "as it is")
ALL_LATE = Variant("all, late", f"as it is, labels {LATE} events late", delay=LATE)
LESS = (
    Variant(
        "no restarts",
        "no alarm after drift: upkeep.ALARM is infinite",
        patches=((upkeep, "ALARM", math.inf),),
    ),
    Variant(
        "no sleeping",
        "no bank is ever old enough to sleep: upkeep.TRIAL is infinite",
        patches=((upkeep, "TRIAL", math.inf),),
    ),
    Variant(
        "no forgetting",
        f"rates of all fixed shares over experts and mixers: expert_pool.ALPHAS is {_NEVER}",
        patches=((expert_pool, "ALPHAS", (_NEVER,) * len(expert_pool.ALPHAS)),),
    ),
    *(
        Variant(f"no {bank.name}", "experts of this kind say nothing", partial(Without, bank))
        for bank in BANKS
    ),
)
LESS_LATE = (
    Variant(
        "judged at the label",
        f"labels {LATE} events late, opinions are those of then: pending_bytes=0",
        partial(MultiKernel, pending_bytes=0),
        delay=LATE,
    ),
)
AGAINST = ((ALL, LESS), (ALL_LATE, LESS_LATE))
"""Variants by what they are compared with."""


# --- ablation -------------------------------------------------------------------------------------
#
# Progressive accuracy, or mean absolute error, of the learner less each of its parts.
#
# A difference is the variant's less that of the whole learner, on the same events: points of
# accuracy, or percent of the whole learner's error with its sign turned, so that below 0 the part
# is of use. The intervals are those of the battery's paired bootstrap.

_CYCLE = "rialto"
"""Its labels run 0 to 9 in a cycle, which the constant kernel's experts find."""
_WARM = 100
_CONSTANT = LESS[-1].name


def measure_ablation(streams: Sequence[Stream]) -> dict[str, Any]:
    """Scores of all variants by stream, and differences from the whole learner."""
    run_through(Direct(streams[0]), streams[0].first(_WARM), 0)  # numba compiles on the way
    found = {stream.name: _measured_ablation(stream) for stream in streams}
    about = {stream.name: stream.describe() for stream in streams}
    variants = {v.name: v.about for whole, less in AGAINST for v in (whole, *less)}
    return {"streams": about, "variants": variants, "scores": found}


def _measured_ablation(stream: Stream) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for whole, less in AGAINST:
        best = _run(whole, stream, found)
        for variant in less:
            outcome = _run(variant, stream, found)
            found[variant.name] |= _against(outcome, best, stream, variant.delay)
    return found


def _run(variant: Variant, stream: Stream, found: dict[str, Any]) -> Outcome:
    with variant.constants():
        model = Direct(stream, variant.make)
        outcome = run_through(model, stream, variant.delay)
    figures = figures_of(outcome, stream, variant.delay)
    kept = ("accuracy", "balanced_accuracy", "log_loss", "mae", "rmse", "cpu_seconds")
    found[variant.name] = {k: figures[k] for k in kept if k in figures}
    score = found[variant.name].get("accuracy", found[variant.name].get("mae"))
    common.note(f"  {stream.name}, {variant.name}: {score:.5g} in {outcome.seconds:.1f} s")
    return outcome


def _against(outcome: Outcome, whole: Outcome, stream: Stream, delay: int) -> dict[str, float]:
    some = counted(whole, delay)
    ours, less = (losses(one, stream)[some] for one in (whole, outcome))
    scale = float(ours.mean()) if stream.task == "regression" else 1.0
    return {k: float(f"{v / scale:.5g}") for k, v in paired(ours, less).items()}


# --- tables -------------------------------------------------------------------------------------


def render_ablation(found: Mapping[str, Any]) -> str:
    """A summary, the streams' own figures, and what became of the cycle."""
    by_stream = found["scores"]
    groups = [[s for s in names if s in by_stream] for names in (FILES, RIVERS, NUMBERS)]
    tables = [_summary([*groups[0], *groups[1]], groups[2], by_stream)]
    tables += [_table(names, by_stream) for names in groups if names]
    if _CYCLE in by_stream:
        with_it, without = (100 * by_stream[_CYCLE][n]["accuracy"] for n in (ALL.name, _CONSTANT))
        tables.append(
            f"{_CYCLE}: {with_it:.1f}% with the constant kernel, {without:.1f}% without it."
        )
    return "\n\n".join([*tables, _events(found["streams"])])


def _summary(classes: Sequence[str], numbers: Sequence[str], by_stream: Mapping[str, Any]) -> str:
    rows = []
    for variant in (*LESS, *LESS_LATE):
        row = [variant.name]
        for names in (classes, numbers):
            ones = [by_stream[name][variant.name] for name in names]
            row += [
                f"{100 * sum(one['difference'] for one in ones) / len(ones):+.2f}" if ones else "-",
                f"{sum(one['high'] < 0 for one in ones)}",
                f"{sum(one['low'] > 0 for one in ones)}",
            ]
        rows.append([*row, _times(variant, by_stream)])
    kinds = ("points", "worse", "better", "% of MAE", "worse", "better")
    return common.table(["against all", *kinds, "CPU time"], rows)


def _times(variant: Variant, by_stream: Mapping[str, Any]) -> str:
    whole = ALL_LATE if variant.delay else ALL
    own, all_of_it = (
        sum(one[name]["cpu_seconds"] for one in by_stream.values())
        for name in (variant.name, whole.name)
    )
    return f"{own / all_of_it:.2f}x"


def _table(names: Sequence[str], by_stream: Mapping[str, Any]) -> str:
    numbers = names[0] in NUMBERS
    rows: list[list[str]] = []
    for whole, less in ((ALL, LESS), (ALL_LATE, LESS_LATE)):
        ones = [by_stream[name][whole.name] for name in names]
        rows.append(
            [whole.name, *(_short(one["mae"]) for one in ones)]
            if numbers
            else [whole.name, *(f"{100 * one['accuracy']:.2f}" for one in ones)]
        )
        rows += [
            [v.name, *(f"{100 * by_stream[n][v.name]['difference']:+.2f}" for n in names)]
            for v in less
        ]
    title = "MAE; % of it" if numbers else "accuracy, %; points"
    return common.table([title, *(STREAMS[name][0] for name in names)], rows)


def _short(value: float) -> str:
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def _events(streams: Mapping[str, Any]) -> str:
    fewer: Iterable[str] = (
        f"{name} {about['events']:,}" for name, about in streams.items() if about["events"] < EVENTS
    )
    text = f"The first {EVENTS:,} events; of these streams all: {', '.join(fewer)}."
    return "\n".join(textwrap.wrap(text, 100, break_on_hyphens=False))


# --- calibration ----------------------------------------------------------------------------------
#
# Whether probabilities are frequencies, and intervals hold the part of the numbers they should.
#
# Expected calibration error: the events are sorted into 15 bins of equal width by the probability
# of the class that was predicted; in each, this is how far the part of right answers lies from
# their mean probability, and the error is the mean over the events (Guo et al. 2017). Widths are in
# standard deviations of the stream's labels.

BINS = 15
LEVELS = (0.5, 0.9, 0.95)
DELAYS = (0, LATE)
_QUANTILES = [q for level in LEVELS for q in ((1 - level) / 2, (1 + level) / 2)]


class _Recorded(Direct):
    """Keeps how sure it was, or its intervals; NaN where nothing was said."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.said: list[Any] = []

    def predict_proba_one(self, x: Event) -> Mapping[Any, float] | None:
        answer = super().predict_proba_one(x)
        self.said.append(max(answer.values()) if answer else np.nan)
        return answer

    def predict_one(self, x: Event) -> float | None:
        row = np.array([list(x.values())], dtype=np.float64)
        self.said.append(self.model.predict_quantile_many(row, _QUANTILES)[0])
        return super().predict_one(x)


def measure_calibration(streams: Sequence[Stream]) -> dict[str, Any]:
    """Figures of each stream by delay."""
    return {
        kind: {
            stream.name: {str(delay): _measured_calibration(stream, delay) for delay in DELAYS}
            for stream in streams
            if (stream.task == "regression") == (kind == "numbers")
        }
        for kind in ("classes", "numbers")
    }


def _measured_calibration(stream: Stream, delay: int) -> dict[str, Any]:
    model = _Recorded(stream)
    outcome = run_through(model, stream, delay)
    some = counted(outcome, delay)
    said, y = np.array(model.said)[some], stream.y[some]
    common.note(f"  {stream.name}, {delay} late: {outcome.seconds:.1f} s")
    if stream.task == "regression":
        return {"events": len(y), "intervals": _intervals(said, y, float(stream.y.std()))}
    right = outcome.guess[some] == y
    return {
        "events": len(y),
        "accuracy": _round(right.mean()),
        "confidence": _round(said.mean()),
        "error": _round(calibration_error(said, right)),
    }


def calibration_error(p: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Return the mean distance of right answers from their probabilities p, over bins."""
    bins = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    apart = np.bincount(bins, p - right, BINS)
    return float(np.abs(apart).sum() / len(p))


def _intervals(
    ends: NDArray[np.float64], y: NDArray[np.float64], deviation: float
) -> dict[str, dict[str, float]]:
    found = {}
    for level, low, high in zip(LEVELS, ends.T[::2], ends.T[1::2], strict=True):
        found[f"{level:g}"] = {
            "coverage": _round(((low <= y) & (y <= high)).mean()),
            "width": _round((high - low).mean() / deviation),
        }
    return found


def _round(value: Any) -> float:
    return float(f"{value:.5g}")


# --- tables ---------------------------------------------------------------------------------------


def render_calibration(found: Mapping[str, Any]) -> str:
    """Classes, then numbers, at once and late side by side."""
    header = ["calibration error, %", "accuracy", "mean p", "error"]
    header += [f"{LATE} late: accuracy", "mean p", "error"]
    rows = []
    for name, one in found["classes"].items():
        cells = [one[str(d)][k] for d in DELAYS for k in ("accuracy", "confidence", "error")]
        rows.append([name, *(f"{100 * cell:.2f}" for cell in cells)])
    rows.append(["mean", "", "", _mean(found, "0"), "", "", _mean(found, str(LATE))])
    tables = [common.table(header, rows)]
    for delay in DELAYS:
        late = f"{delay} late" if delay else "at once"
        header = [f"intervals, {late}"]
        header += [word for level in LEVELS for word in (f"{100 * level:g}%: holds", "width")]
        rows = [
            [name, *_cells(one[str(delay)]["intervals"])] for name, one in found["numbers"].items()
        ]
        tables.append(common.table(header, rows))
    return "\n\n".join(tables)


def _mean(found: Mapping[str, Any], delay: str) -> str:
    errors = [one[delay]["error"] for one in found["classes"].values()]
    return f"{100 * sum(errors) / len(errors):.2f}"


def _cells(intervals: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        cell
        for one in intervals.values()
        for cell in (f"{100 * one['coverage']:.1f}%", f"{one['width']:.3g}")
    ]


# --- the parts ------------------------------------------------------------------------------------

NAME = "multi_kernel"
PARTS = {
    "ablation": Part(
        lambda o: measure_ablation(load_streams(o.data, quick=o.quick)), render_ablation
    ),
    "calibration": Part(
        lambda o: measure_calibration(load_streams(o.data, quick=o.quick)), render_calibration
    ),
}


def _settings(_: argparse.Namespace) -> dict[str, Any]:
    return {
        "seed": SEED,
        "events": EVENTS,
        "delay": LATE,
        "bins": BINS,
    }


render, run = common.topic(NAME, __doc__, PARTS, settings=_settings)


if __name__ == "__main__":
    sys.exit(common.main(run))
