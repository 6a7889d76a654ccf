"""`streamk inspect`: what a checkpoint holds, every byte of it checked."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamk.cli.arguments import Parser, UsageError, checkpoint_place, nearest, resolved
from streamk.cli.model_options import learner_header, saved_experts
from streamk.cli.report import (
    columns,
    contest_rows,
    features,
    figure_rows,
    gap_rows,
    promotion_lines,
    share,
    since_lines,
    size,
    sparkline,
    wrapped,
)
from streamk.encoding.values import entity_of, plain
from streamk.engine import Checkpoint, Key, read_checkpoint
from streamk.engine.checkpoints.files import key_of, sizes
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import (
    NotACheckpoint,
    check_segments,
    epochs,
    members_of,
    segment_bytes,
)
from streamk.engine.evaluation.marks import Marks
from streamk.engine.evaluation.metrics import Metrics
from streamk.errors import StateError
from streamk.learners import from_state
from streamk.learners.registry import options_of
from streamk.learners.remembering import EntityMemory
from streamk.memory import EntityTable
from streamk.memory.entities import span_name

EPILOG = """\
CHECKPOINT is the directory or address given to `streamk run --checkpoint`, or
that of one member or one epoch inside it. The exit status is 1 if anything is
damaged.

examples:
  streamk inspect state
  streamk inspect state/member-0/00000007 --json
  streamk inspect state --schema > schema.json
  streamk inspect state --entity user=42
"""

_EPOCH = re.compile(r"\d{8}")


def main(arguments: Sequence[str]) -> int:
    """Show and check checkpoints."""
    parser = Parser("streamk inspect", "Show what a checkpoint holds, and check it.", EPILOG)
    parser.add_checkpoint()
    add = parser.group("options")
    add("--json", "print JSON")
    add("--schema", "print the columns in the form that `streamk run --schema` reads")
    add(
        "--entity FIELD=ENTITY",
        "print what is known of an entity, as user=42",
        field_entity,
    )
    parser.add_key(add)
    parser.add_common()
    options = parser.parse(arguments)
    key = key_of(options.get("state_key"))
    newest_ones: list[Checkpoint] = []
    damaged: list[str] = []
    for paths in members(checkpoint_place(options["model"], "checkpoint")):
        newest: Checkpoint | None = None
        for path in paths:
            try:
                found = read_checkpoint(path, key)
                check_segments(found)
            except NotACheckpoint:
                continue
            except StateError as error:
                # A job that is running may have removed it as too old.
                if path.exists():
                    damaged.append(str(error))
            else:
                newest = newest or found
        if newest is not None:
            newest_ones.append(newest)
    if not newest_ones and not damaged:
        raise UsageError(f"{options['model']} holds no checkpoint yet")
    if "entity" in options:
        models = {str(found.path): from_state(found.model) for found in newest_ones}
        print(_told(models, *options["entity"], as_json="json" in options))
    else:
        _show([_summary(found, key) for found in newest_ones], damaged, options)
    for reason in damaged:
        print(f"damaged: {reason}", file=sys.stderr)
    return 1 if damaged else 0


def _show(good: list[dict[str, Any]], damaged: list[str], options: Mapping[str, Any]) -> None:
    if options.get("schema"):
        _print_schema(good)
    elif options.get("json"):
        print(json.dumps({"checkpoints": good, "damaged": damaged}, indent=1))
    else:
        print("\n\n".join(map(_text, good)))


def members(path: Location) -> list[list[Location]]:
    """The checkpoints of each member, newest first. Raises `UsageError` if there are none.

    In an object store some may be something else than a checkpoint.
    """
    if not path.is_dir() and isinstance(path, Path):
        raise UsageError(f"{path} is a file; a checkpoint is a directory")
    if (path / "manifest.json").exists() or _EPOCH.fullmatch(resolved(path).name):
        return [[path]]
    slots = [*members_of(path)] or [path]
    found = [[slot / f"{epoch:08d}" for epoch in reversed(epochs(slot))] for slot in slots]
    found = [some for some in found if some]
    if not found:
        raise UsageError(
            f"{path} holds no checkpoint; give the directory of `streamk run --checkpoint`"
        )
    return found


def _summary(found: Checkpoint, key: Key | None) -> dict[str, Any]:
    """Return a checkpoint as JSON data. Raises `StateError` if the model cannot be made."""
    body, model = found.body, from_state(found.model)
    learner = learner_header(found.model.header)
    places = body["feed"]["sequence"]["partitions"]
    skewed = {name: place["skewed"] for name, place in places.items() if place["skewed"]}
    return {
        "path": str(found.path),
        "epoch": found.epoch,
        "sha256": "ok",
        "signature": ("ok" if key else "not checked") if found.signed else "none",
        "disk_bytes": sum(size or 0 for size in sizes(found.path).values()) + segment_bytes(found),
        "model": {
            "type": learner["type"],
            "options": _options(learner),
            "experts": _experts(learner),
            "classes": list(model.classes),
            "columns": list(model.columns or ()),
            "features": model.n_features,
            "events": model.n_events,
            "leading_step": model.innermost.leading_step,
            "array_bytes": found.model.nbytes,
            "rounds": model.sharding,
            "contest": model.standings,
        },
        "label": body["config"]["label"],
        "horizon": body["config"]["horizon"],
        "events": body["feed"]["sequence"]["events"],
        "counts": body["training"]["counts"],
        "metrics": _metrics(body["training"]),
        "restarts": Marks.from_json(body["restarts"]).places(),
        "offsets": {name: place["offset"] for name, place in places.items()},
        "taken": body["feed"]["learned"],
        "lost": body["feed"]["lost"],
        # Events with timestamps too far ahead, where there are several partitions.
        "skewed": skewed if len(places) > 1 else {},
        "finished": body["finished"],
        "schema": body["training"]["schema"],
    }


def _options(learner: Mapping[str, Any]) -> dict[str, Any]:
    """The options among what a learner's header holds, nested ones as they are named there."""
    known = {"task", *options_of(learner["type"])}
    return {name: value for name, value in sorted(learner.items()) if name in known}


def _experts(learner: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The external experts of a learner, each with its type, options and whether it rests."""
    return [
        {"type": one["type"], "options": _options(one), "rests": _rests(now)}
        for one, now in saved_experts(learner)
    ]


def _rests(learner: Mapping[str, Any]) -> str | None:
    """Return until when an external expert rests, None if it does not."""
    if not learner.get("rests"):
        return None
    width, most = len(learner["columns"] or ()) + len(learner["classes"]), learner.get("max_width")
    if most is not None and width > most:
        return f"permanently: {width} columns and classes exceed max_width={most}"
    return "until it is tried again"


def _metrics(training: Mapping[str, Any]) -> dict[str, Any]:
    metrics = Metrics.from_json(training["metrics"])
    return {
        "scored": metrics.scored,
        "window_events": training["metrics"]["window"],
        "whole": metrics.whole(),
        "window": metrics.window(),
        "baselines": metrics.baselines(),
        "since": metrics.since(),
        "per_class": metrics.confusion.recall(),
        "confusion": metrics.confusion.cells(),
        "history": metrics.history.columns,
        "drifts": Marks.from_json(training["drifts"]).places(),
        "bad": Marks.from_json(training["bad"]).places(),
    }


def _print_schema(good: Sequence[dict[str, Any]]) -> None:
    schemas = [one["schema"] for one in good if one["schema"] is not None]
    if not schemas:
        raise UsageError("no readable checkpoint has seen an event yet, so there is no schema")
    print(json.dumps(schemas[0], indent=1, ensure_ascii=False))


def _text(summary: dict[str, Any]) -> str:
    """One checkpoint for people."""
    model, metrics, counts = summary["model"], summary["metrics"], summary["counts"]
    options = _listed(model["options"])
    signature = "" if summary["signature"] == "none" else f", signature {summary['signature']}"
    experts = [
        f"{one['type']}: {_listed(one['options'])}"
        + (f", rests {one['rests']}" if one["rests"] else "")
        for one in model["experts"]
    ]
    rows = [
        ("files", f"{size(summary['disk_bytes'])}, SHA-256 {summary['sha256']}{signature}"),
        ("model", f"{model['type']}, {features(model['type'], model['features'])}"),
        ("options", options),
        *(("expert", line) for line in experts),
        *((("step", f"{step:g} predicts"),) if (step := model["leading_step"]) else ()),
        ("learned", f"{model['events']:,} events"),
        *(
            (("rounds", f"{rounds['count']:,} of {rounds['shards']} shards"),)
            if (rounds := model["rounds"])
            else ()
        ),
    ]
    rows += _contest(model["contest"])
    if model["classes"]:
        rows.append(("classes", share(model["classes"])))
    rows.append((f"{len(model['columns'])} columns", share(model["columns"])))
    ahead = " and ".join((summary["horizon"] or "").split(","))
    rows.append(("label", f"{summary['label']}, {ahead} ahead" if ahead else str(summary["label"])))
    rows += _figures(metrics)
    if counts["unlabelled"]:
        rows.append(("unlabelled", f"{counts['unlabelled']:,} events"))
    rows += [("not usable", f"{n:,} events: {kind}") for kind, n in counts["bad"].items()]
    if counts["tombstones"]:
        rows.append(("tombstones", f"{counts['tombstones']:,} records"))
    rows += [("next offset", f"{n:,} of {name}") for name, n in summary["offsets"].items()]
    rows += gap_rows(summary["lost"], summary["skewed"])
    ended = ", the stream has ended" if summary["finished"] else ""
    title = f"{summary['path']}: epoch {summary['epoch']}, {summary['events']:,} events{ended}"
    return f"{title}\n{wrapped(rows)}"


def _contest(contest: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The models of a contest with their figures, and the promotions."""
    rows = []
    for name, whole, last in contest_rows(contest)[1:]:
        figures = f": {whole}, lately {last}" if whole else ""
        rows.append(("contest", name + figures))
    return rows + [("promoted", line) for line in promotion_lines(contest)]


def _figures(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Figures, the baselines beside the first of them, and how that went along the stream."""
    rows = []
    for name, value, last in figure_rows(metrics["whole"], metrics["window"], metrics["baselines"]):
        rows.append((name, value + (f", lately {last}" if last else "")))
        if len(rows) == 1 and metrics["history"]["events"]:
            first = next(iter(metrics["whole"]))
            line = sparkline(metrics["history"][first], sys.stdout.encoding)
            rows.append(("  along the stream", line))
    return rows + [("", line) for line in since_lines(metrics["since"])]


def _listed(options: Mapping[str, Any]) -> str:
    """Options that are set, with their values."""
    return ", ".join(
        f"{name} {_short(value)}" for name, value in options.items() if value is not None
    )


def _short(value: Any) -> str:
    """An option's value: of a kernel, loss or step its name and numbers."""
    if not isinstance(value, dict):
        return str(value)
    words = sorted(value.values(), key=lambda one: not isinstance(one, str))
    return " ".join(map(str, words))


# Entities: what is known of one


def tables_of(model: Any, field: str) -> list[EntityTable]:
    """Return the tables of a field, of a contest one for each model.

    Raises `UsageError` if the model has none.
    """
    models = model.models.values() or [model]
    tables = [one for each in models if isinstance(each, EntityMemory) for one in each.tables]
    found = [table for table in tables if table.name == field]
    if not found:
        names = [table.name for table in tables]
        there = f"there are {', '.join(dict.fromkeys(names))}" if names else "it has none"
        raise UsageError(f"the model has no entities of {field!r}{nearest(field, names)}; {there}")
    return found


def field_entity(text: str) -> tuple[str, str]:
    """Read FIELD=ENTITY.

    >>> field_entity("user=42")
    ('user', '42')
    """
    field, _, entity = text.partition("=")
    if plain(entity) is None or not field:
        raise argparse.ArgumentTypeError("write FIELD=ENTITY, for example user=42")
    return field, entity


def number_of(text: str) -> float:
    """Return the number of an entity as it is written on the command line."""
    number = entity_of(text)
    assert number is not None
    return number


def _told(models: Mapping[str, Any], field: str, text: str, *, as_json: bool) -> str:
    """Return what models know of an entity, by where they lie.

    Raises `UsageError` if none knows it, or has no such table.
    """
    found, size = {}, 0
    for path, model in models.items():
        (table, *_) = tables_of(model, field)
        row, size = table.row(number_of(text)), size + len(table)
        if row is not None:
            found[path] = table, row
    if not found:
        raise UsageError(
            f"no {field} {text!r} among the {size:,} known ones; an entity seen long ago may have "
            "been dropped to make room"
        )
    if as_json:
        rows = [
            {"path": path} | {name: None if math.isnan(x) else x for name, x in row.items()}
            for path, (_, row) in found.items()
        ]
        return json.dumps({"field": field, "entity": text, "rows": rows}, indent=1)
    return "\n".join(
        f"{path}: {field} {text!r}, {_row(table, row)}" for path, (table, row) in found.items()
    )


def _shown(x: float) -> str:
    """Return a number for people: what is next to nothing is 0."""
    return f"{x:.6g}" if abs(x) >= 1e-6 else "0"


def _row(table: EntityTable, row: Mapping[str, float]) -> str:
    """Return a row for people."""
    said = f"{row['count']:,.0f} events"
    if not math.isnan(row["time"]):
        last = datetime.fromtimestamp(row["time"], UTC).isoformat(" ", "seconds")
        said += f", the last at {last.removesuffix('+00:00')}"
    names = [name.removesuffix(".last") for name in row if name.endswith(".last")]
    lines: list[tuple[str, ...]] = [("", "weight", "mean", "spread", "last")]
    for name in names:
        for time in ("", *(f"_{span_name(span)}" for span in table.spans)):
            weight, mean, variance = (
                row[f"{name}.{one}{time}"] for one in ("weight", "mean", "variance")
            )
            last = "" if time or math.isnan(x := row[f"{name}.last"]) else _shown(x)
            cells = (weight, mean, math.sqrt(variance))
            lines.append((f"{name}{time}", *(_shown(x) for x in cells), last))
    return f"{said}\n{columns(lines, indent='  ', numbers=True)}"
