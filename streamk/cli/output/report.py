"""The report at the end of a run, for people and for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from streamk.cli.job.running import writes_to_stdout
from streamk.cli.output.figures import (
    confusion_table,
    contest_rows,
    fate_lines,
    figure_rows,
    promotion_lines,
    since_lines,
    slice_rows,
)
from streamk.cli.output.tables import columns, features, size, wrapped
from streamk.engine import Report

__all__ = ["as_json", "as_text", "show"]

_STOPPED = {
    "end": "the stream has ended",
    "max_events": "the limit of events is reached",
    "request": "stopped as asked",
}


def show(report: Any, options: dict[str, Any]) -> None:
    """Print how a job ended, where it is not in the way."""
    stream = sys.stderr if writes_to_stdout(options) else sys.stdout
    if options.get("quiet") and not options.get("json"):
        return
    structured = options.get("json") or (stream is sys.stderr and not stream.isatty())
    print(json.dumps(as_json(report)) if structured else as_text(report), file=stream)


def as_json(report: Report) -> dict[str, Any]:
    """A report as JSON data."""
    model, counts = report.model, report.counts
    return {
        "stopped": report.stopped,
        "events": report.events,
        "events_now": report.events_now,
        "seconds": round(report.seconds, 3),
        "learned": counts.learned,
        "predicted": counts.predicted,
        "unlabelled": counts.unlabelled,
        "bad": counts.bad,
        "tombstones": counts.tombstones,
        "whole": report.whole,
        "window": report.window,
        "baselines": report.baselines,
        "since": report.since,
        "per_class": report.confusion.recall(),
        "confusion": report.confusion.cells(),
        "lost": report.lost,
        "skewed": report.skewed,
        "fates": None if report.fates is None else asdict(report.fates),
        "alarms": report.alarms,
        "slices": report.slices,
        "features": model.n_features,
        "classes": list(model.classes),
        "columns": len(model.columns or ()),
        "model_bytes": model.nbytes,
        "epoch": report.epoch,
        "notes": list(report.notes),
        "unfinished": list(report.unfinished),
        "contest": model.standings,
    }


def as_text(report: Report) -> str:
    """A report as a few lines."""
    model, counts = report.model, report.counts
    contest = model.standings
    kind = model.innermost.TYPE
    rate = report.events_now / report.seconds if report.seconds else 0.0
    lines = [
        f"{_STOPPED[report.stopped]}: {report.events_now:,} events in {report.seconds:.1f} s"
        f" ({rate:,.0f}/s)" + (f", {report.events:,} in all" * (report.events != report.events_now))
    ]
    if report.whole:
        rows = [("", "all events", "last ones")]
        rows += figure_rows(report.whole, report.window, report.baselines)
        lines += ["", columns(rows, indent="  ", numbers=True), ""]
        if report.slices:
            lines += [columns(slice_rows(report.slices), indent="  ", numbers=True), ""]
        table = confusion_table(report.confusion)
        if table:
            lines += [table, ""]
        models = contest_rows(contest)
        lines += [columns(models, indent="  ", numbers=True), ""] if models else []
        late = [f"  {line}" for line in since_lines(report.since)]
        lines += [*late, ""] if late else []
    events = f"{counts.learned:,} learned" if report.learns else f"{counts.predicted:,} predicted"
    if counts.unlabelled and report.learns:
        events += f", {counts.unlabelled:,} without a label"
    if counts.bad:
        kinds = ", ".join(f"{name} {n:,}" for name, n in counts.bad.items())
        events += f", {sum(counts.bad.values()):,} not usable ({kinds})"
    if counts.tombstones:
        events += f", {counts.tombstones:,} tombstones"
    facts = [
        ("events", events),
        (
            "model",
            f"{len(model.columns or ()):,} columns, {features(kind, model.n_features)}, "
            + (f"{len(model.classes)} classes, " if model.is_classifier else "")
            + size(model.nbytes),
        ),
    ]
    facts += [("champion", line) for line in promotion_lines(contest)]
    facts += [
        ("lost", f"{one['partition']} from {one['start']} to {one['stop']}: {one['reason']}")
        for one in report.lost
    ]
    facts += [
        ("ahead", f"{n:,} of {name}: timestamps too far ahead of those before (--max-skew)")
        for name, n in report.skewed.items()
    ]
    facts += [("late", line) for line in fate_lines(report.fates)]
    if report.alarms:
        alarms = ", ".join(f"{n:,} {kind.replace('_', ' ')}" for kind, n in report.alarms.items())
        facts.append(("alarms", alarms))
    facts += [("note", sentence) for sentence in report.notes]
    facts += [("unfinished", sentence) for sentence in report.unfinished]
    if report.epoch is not None:
        facts.append(("checkpoint", f"number {report.epoch}"))
    return "\n".join([*lines, wrapped(facts)])
