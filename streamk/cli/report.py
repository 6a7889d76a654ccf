"""The report of a run, for people and for programs, and figures as text."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from streamk.cli.job import writes_to_stdout
from streamk.engine import Report
from streamk.engine.evaluation.confusion import Confusion

WIDTH = 79
"""Of what is shown."""


def columns(rows: Sequence[Sequence[str]], *, indent: str = "", numbers: bool = False) -> str:
    """Rows of cells as aligned columns; with `numbers` all but the first are set to the right.

    >>> print(columns([("accuracy", "0.9"), ("log loss", "12.25")], numbers=True))
    accuracy    0.9
    log loss  12.25
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if numbers and place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def wrapped(rows: Sequence[tuple[str, str]]) -> str:
    """Rows of a name and a text that may go over several lines, 79 columns wide.

    >>> print(wrapped([("note", "a text " * 12)]))
      note  a text a text a text a text a text a text a text a text a text a text a
            text a text
    """
    import textwrap

    left = max(len(name) for name, _ in rows) + 4
    cells = []
    for name, text in rows:
        lines = textwrap.wrap(text, WIDTH - left, break_on_hyphens=False) or [""]
        cells += [(name, lines[0]), *(("", line) for line in lines[1:])]
    return columns(cells, indent="  ")


def features(kind: str, n: int) -> str:
    """A row for the weights of a model of some type.

    >>> features("online-nystrom", 512), features("doubly-stochastic", 2048)
    ('512 landmarks', '2,048 random features')
    >>> features("kernel-ridge", 64), features("multi-kernel", 2880)
    ('64 centers', '2,880 features')
    """
    names = {
        "multi-kernel": "features",  # random ones, tables, and the centers of other experts
        "online-nystrom": "landmarks",
        "streaming-meka": "features",
        "kernel-ridge": "centers",
        "eigenpro": "centers",
        "feature-machine": "centers",
    }
    return f"{n:,} {names.get(kind, 'random features')}"


def share(names: Sequence[object], most: int = 12) -> str:
    """The first names of many.

    >>> share(range(100), 3)
    '0, 1, 2, … (100)'
    """
    shown = ", ".join(map(str, names[:most]))
    return f"{shown}, … ({len(names)})" if len(names) > most else shown


def size(n: int) -> str:
    """A size in memory or on disk.

    >>> size(999), size(41_300), size(268_435_456)
    ('999 bytes', '41.3 kB', '268.4 MB')
    """
    if n < 1_000_000:
        return f"{n} bytes" if n < 10_000 else f"{n / 1e3:.1f} kB"
    return f"{n / 1e6:,.1f} MB"


_MOST_CLASSES = 10
_LONGEST_NAME = 16
_BLOCKS, _LETTERS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
_SIGNS = 32
"""Signs of a sparkline, at most."""

Figures = Mapping[str, float]


def words(name: str) -> str:
    """A figure's name for people: `log_loss` is two words, but `F1=is_spam` a name of River's."""
    return name.replace("_", " ") if name.islower() and "=" not in name else name


def figure_rows(
    whole: Figures, window: Figures, baselines: Mapping[str, Figures]
) -> list[tuple[str, str, str]]:
    """Name, figure of all events and of the last ones; the baselines below what they compare to.

    >>> one = {"no_change": 0.5}
    >>> figure_rows({"accuracy": 0.8}, {"accuracy": 0.9}, {"whole": one, "window": one})
    [('accuracy', '0.8000', '0.9000'), ('  no change', '0.5000', '0.5000')]
    """
    rows = [(words(name), f"{whole[name]:.4f}", f"{window[name]:.4f}") for name in whole]
    beside = baselines["window"]
    compared = [
        (f"  {words(name)}", f"{value:.4f}", f"{beside[name]:.4f}" if name in beside else "")
        for name, value in baselines["whole"].items()
    ]
    return rows[:1] + compared + rows[1:]


def slice_rows(slices: Mapping[str, Mapping[str, Any]], of: str) -> list[tuple[str, ...]]:
    """Each value of a column with its events, its first figure and the baseline of that.

    These are of all its events, and the figure of the last ones, too.

    >>> one = {"events": 3, "accuracy": 0.75, "log_loss": 0.5, "no_change": 0.5, "window": {}}
    >>> slice_rows({"Rome": one}, "slice")  # doctest: +NORMALIZE_WHITESPACE
    [('slice', 'events', 'no change', 'accuracy', 'last ones'),
     ('Rome', '3', '0.5000', '0.7500', '')]
    """
    rows: list[tuple[str, ...]] = []
    main = base = ""
    for name, figures in slices.items():
        main, _, base = (key for key in figures if key not in ("events", "window"))
        last = figures["window"].get(main)
        shown = "" if last is None else f"{last:.4f}"
        both = (f"{figures[key]:.4f}" for key in (base, main))
        rows.append((_name(name), f"{figures['events']:,}", *both, shown))
    return [(of, "events", words(base), words(main), "last ones"), *rows]


def since_lines(since: Mapping[str, int]) -> list[str]:
    """Return lines about the figures that did not count from the first event on.

    >>> since_lines({"no_change": 11_999, "majority": 11_999, "F1": 15_000})
    ['no change, majority: from scored event 12,000 on', 'F1: from scored event 15,001 on']
    """
    names: dict[int, list[str]] = {}
    for name, scored in since.items():
        names.setdefault(scored, []).append(words(name))
    return [f"{', '.join(some)}: from scored event {n + 1:,} on" for n, some in names.items()]


def contest_rows(contest: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Name and first two figures of each model of a contest: of all its events, and of the last.

    >>> figures = {"accuracy": 0.75, "log_loss": 0.5}
    >>> model = {"began": 0, "events": 10, "whole": figures, "window": figures}
    >>> later = {"began": 10, "events": 0, "whole": {}, "window": {}}
    >>> for row in contest_rows({"champion": "a", "models": {"a": model, "b": later}}):
    ...     print(row)
    ('', 'accuracy, log loss', 'last ones')
    ('a (champion)', '0.7500, 0.5000', '0.7500, 0.5000')
    ('b from event 11', '', '')
    """
    if contest is None:
        return []
    models, champion = contest["models"], contest["champion"]
    names = next(
        (", ".join(map(words, one["whole"])) for one in models.values() if one["whole"]), ""
    )
    rows = [("", names, "last ones")]
    for name, one in models.items():
        since = f" from event {one['began'] + 1:,}" if one["began"] else ""
        figures = (", ".join(f"{n:.4f}" for n in one[of].values()) for of in ("whole", "window"))
        rows.append((name + (" (champion)" if name == champion else "") + since, *figures))
    return rows


def promotion_lines(contest: Mapping[str, Any] | None) -> list[str]:
    """Each promotion of a contest in a line.

    >>> one = {"events": 12000, "champion": "b", "former": "a", "by": "rule"}
    >>> two = {"events": 15000, "champion": "a", "former": "b", "by": "rollback"}
    >>> promotion_lines({"promotions": [one | {"wins": 60, "losses": 9}, two]})
    ['b for a after 12,000 labels, by 60 wins to 9', 'a for b after 15,000 labels, by rollback']
    """
    lines = []
    for one in [] if contest is None else contest["promotions"]:
        by = one["by"]
        if by == "rule":
            by = f"{one['wins']:,} wins to {one['losses']:,}"
        change = f"{one['champion']} for {one['former']}"
        lines.append(f"{change} after {one['events']:,} labels, by {by}")
    return lines


def sparkline(values: Sequence[float | None], encoding: str | None) -> str:
    """A line of blocks, the lowest for the least value, with both ends' values.

    Where the encoding lacks blocks they are other signs. Of more than 32 values neighbouring ones
    are averaged.

    >>> print(sparkline([0.0, 0.5, 1.0, 0.75], "utf-8"))
    ▁▅█▆ from 0.000 to 1.000
    >>> print(sparkline([0.0, 0.5, 1.0, 0.75], "ascii"))
    _=#+ from 0.000 to 1.000
    """
    there = [value for value in values if value is not None]
    n = min(_SIGNS, len(there))
    ends = [k * len(there) // n for k in range(n + 1)] if n else []
    means = [sum(there[a:b]) / (b - a) for a, b in pairwise(ends)]
    if not means:
        return ""
    least, most = min(means), max(means)
    try:
        _BLOCKS.encode(encoding or "ascii")
        signs = _BLOCKS
    except (UnicodeEncodeError, LookupError):
        signs = _LETTERS
    step = (most - least) / 7 or 1.0
    line = "".join(signs[round((value - least) / step)] for value in means)
    return f"{line} from {min(there):.3f} to {max(there):.3f}"


def confusion_table(confusion: Confusion) -> str:
    """Return events, recall and predictions of the ten most frequent classes, and of the rest.

    Where counts need too much room, the table has percent of the row, and columns have the rows'
    numbers. It is empty before the first event, else at most 79 columns wide.
    """
    found = confusion.recall()
    shown, rest = found[:_MOST_CLASSES], found[_MOST_CLASSES:]
    if not confusion.counts.events.sum():
        return ""
    matrix = _matrix(confusion, [row["label"] for row in shown], bool(rest))
    names = [_name(row["label"]) for row in shown] + [f"{len(rest):,} others"] * bool(rest)
    heads = [*names[: len(shown)], *["rest"] * bool(rest)]
    recall = ["" if row["recall"] is None else f"{row['recall']:.3f}" for row in shown]
    left = [("class", *names), ("events", *(f"{sum(line):,}" for line in matrix))]
    left.append(("recall", *recall, *[""] * bool(rest)))
    cells = [[f"{n:,}" for n in line] for line in matrix]
    table = _joined(left, heads, cells)
    if max(map(len, table.splitlines())) > WIDTH:
        heads = [str(n) for n in range(1, len(shown) + 1)] + ["rest"] * bool(rest)
        cells = [[f"{100 * n / (sum(line) or 1):.0f}" for n in line] for line in matrix]
        numbered = [f"{n} {name}" for n, name in zip(heads, names, strict=False)]
        numbered[len(shown) :] = names[len(shown) :]
        room = WIDTH - len(
            _joined([("",) * (len(names) + 1), *left[1:]], heads, cells).split("\n")[0]
        )
        left[0] = ("class", *(_cut(name, room) for name in numbered))
        table = _joined(left, heads, cells)
        return f"  confusion matrix (rows true, columns predicted), percent of the row\n{table}"
    return f"  confusion matrix (rows true, columns predicted)\n{table}"


def _joined(left: Sequence[Sequence[str]], heads: Sequence[str], cells: list[list[str]]) -> str:
    rows = zip(*left, strict=True)
    lines = zip(rows, [heads, *cells], strict=True)
    return columns([(*row, *line) for row, line in lines], indent="  ", numbers=True)


def _matrix(confusion: Confusion, labels: Sequence[Any], others: bool) -> list[list[int]]:
    """Events by label and prediction; with `others` all further classes are the last one."""
    place = {label: n for n, label in enumerate(labels)}
    size = len(labels)
    matrix = [[0] * size for _ in labels]
    for label, answer, n in confusion.cells():
        if label in place and answer in place:
            matrix[place[label]][place[answer]] = n
    if not others:
        return matrix
    # What the margins have more than is shown: mistakes that are not told apart are among it.
    margins = {row["label"]: row for row in confusion.recall()}
    for label, line in zip(labels, matrix, strict=True):
        line.append(margins[label]["events"] - sum(line))
    last = [
        margins[label]["predicted"] - sum(column)
        for label, column in zip(labels, zip(*matrix, strict=True), strict=False)
    ]
    total = sum(row["events"] for row in margins.values())
    matrix.append([*last, total - sum(map(sum, matrix)) - sum(last)])
    return matrix


def _name(label: Any) -> str:
    text = " ".join(label.split()) if isinstance(label, str) else json.dumps(label)
    return _cut(text, _LONGEST_NAME)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width - 1)]}…"


def fate_lines(fates: Any) -> list[str]:
    """Return what became of events and labels that came apart, for people."""
    if fates is None:
        return []
    early = f" ({fates.early:,} before it)" if fates.early else ""
    of = {
        "events": {
            "with the default label": fates.defaulted,
            "without a label in time": fates.missing,
            "without room": fates.overflow,
            "forgotten before their label came": fates.forgotten,
            "with a key for the second time": fates.duplicate_events,
            "wait": fates.held,
        },
        "labels": {
            "duplicates": fates.duplicates,
            "that contradict the first": fates.conflicts,
            "revised and learned": fates.revised,
            "too late": fates.too_late,
            "without an event": fates.unmatched,
            "wait": fates.waiting,
        },
    }
    lines = [f"{fates.joined:,} labels met their event{early}"]
    for kind, counts in of.items():
        shown = [f"{n:,} {fate}" for fate, n in counts.items() if n]
        if shown:
            lines.append(f"{kind}: {', '.join(shown)}")
    return lines


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
    print(json.dumps(as_json(report)) if options.get("json") else as_text(report), file=stream)


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
            of = "horizon" if report.model.horizons else "slice"
            lines += [columns(slice_rows(report.slices, of), indent="  ", numbers=True), ""]
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
    facts += gap_rows(report.lost, report.skewed)
    facts += [("late", line) for line in fate_lines(report.fates)]
    if report.alarms:
        alarms = ", ".join(f"{n:,} {kind.replace('_', ' ')}" for kind, n in report.alarms.items())
        facts.append(("alarms", alarms))
    facts += [("note", sentence) for sentence in report.notes]
    facts += [("unfinished", sentence) for sentence in report.unfinished]
    if report.epoch is not None:
        facts.append(("checkpoint", f"number {report.epoch}"))
    return "\n".join([*lines, wrapped(facts)])


def gap_rows(lost: Sequence[Mapping[str, Any]], skewed: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return rows about the events that are gone, and about those whose time is too far ahead."""
    rows = [
        ("lost", f"{one['partition']} from {one['start']} to {one['stop']}: {one['reason']}")
        for one in lost
    ]
    about = "timestamps too far ahead of those before (--max-skew)"
    return rows + [("ahead", f"{n:,} of {name}: {about}") for name, n in skewed.items()]
