"""Progressive accuracy, or mean absolute error, of the learner less each of its parts.

A difference is the variant's less that of the whole learner, on the same events: points of
accuracy, or percent of the whole learner's error with its sign turned, so that below 0 the part is
of use. The intervals are those of the battery's paired bootstrap.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks import common
from benchmarks.multi_kernel import direct
from benchmarks.multi_kernel.direct import Direct
from benchmarks.multi_kernel.variants import AGAINST, ALL, ALL_LATE, LESS, LESS_LATE, Variant
from benchmarks.river_battery import compare, scores
from benchmarks.river_battery.loop import Outcome
from benchmarks.river_battery.streams import FILES, NUMBERS, RIVERS, STREAMS, Stream

_CYCLE = "rialto"
"""Its labels run 0 to 9 in a cycle, which the constant kernel's experts find."""
_WARM = 100
_CONSTANT = LESS[-1].name


def measure(streams: Sequence[Stream]) -> dict[str, Any]:
    """Scores of all variants by stream, and differences from the whole learner."""
    direct.run(Direct(streams[0]), streams[0].first(_WARM), 0)  # numba compiles on the way
    found = {stream.name: _measured(stream) for stream in streams}
    about = {stream.name: stream.describe() for stream in streams}
    variants = {v.name: v.about for whole, less in AGAINST for v in (whole, *less)}
    return {"streams": about, "variants": variants, "scores": found}


def _measured(stream: Stream) -> dict[str, Any]:
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
        outcome = direct.run(model, stream, variant.delay)
    figures = scores.figures(outcome, stream, variant.delay)
    kept = ("accuracy", "balanced_accuracy", "log_loss", "mae", "rmse", "cpu_seconds")
    found[variant.name] = {k: figures[k] for k in kept if k in figures}
    score = found[variant.name].get("accuracy", found[variant.name].get("mae"))
    common.note(f"  {stream.name}, {variant.name}: {score:.5g} in {outcome.seconds:.1f} s")
    return outcome


def _against(outcome: Outcome, whole: Outcome, stream: Stream, delay: int) -> dict[str, float]:
    some = scores.counted(whole, delay)
    ours, less = (scores.losses(one, stream)[some] for one in (whole, outcome))
    scale = float(ours.mean()) if stream.task == "regression" else 1.0
    return {k: float(f"{v / scale:.5g}") for k, v in compare.paired(ours, less).items()}


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
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
        f"{name} {about['events']:,}"
        for name, about in streams.items()
        if about["events"] < direct.EVENTS
    )
    text = f"The first {direct.EVENTS:,} events; of these streams all: {', '.join(fewer)}."
    return "\n".join(textwrap.wrap(text, 100, break_on_hyphens=False))
