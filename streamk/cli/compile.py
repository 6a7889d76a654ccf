"""`streamk compile`: a learned model as one that predicts in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.registry import open_source
from streamk.cli.arguments import Parser, UsageError, checkpoint_place, duration, whole
from streamk.cli.job import opened
from streamk.errors import InvalidInput
from streamk.extensions import find, provided
from streamk.memory.entities import span_name

DESCRIPTION = """\
Compile the newest model of a checkpoint into one that predicts in microseconds.
It is a tree with small kernel models at its leaves, fitted to the predictions
of the model on the events of a stream. They need no labels.
"""

EPILOG = """\
examples:
  streamk compile state file:events.ndjson --to model.safetensors
  streamk compile state csv:events.csv --to model.safetensors --budget 20 \\
      --c model.h --onnx model.onnx

Python opens it by streamk.prediction.load("model.safetensors").
"""

MOST_EVENTS = 100_000
_AT_ONCE, _PATIENCE = 4096, 1.0
"""Events of one poll, and seconds that it waits."""


def main(arguments: Sequence[str]) -> int:
    """Compile a model, write it, and report how near it comes."""
    options = _parser().parse(arguments)
    if "source" not in options or "to" not in options:
        raise UsageError(
            "CHECKPOINT, SOURCE and --to FILE are needed: "
            "streamk compile state file:events.ndjson --to model.safetensors"
        )
    from streamk.prediction import compile as compiled
    from streamk.trained import load

    directory = checkpoint_place(options["model"])
    _check_files(options)
    model = load(directory, key=options.get("state_key"))
    learner = _learner(model.learner, options.get("horizon"))
    X, bad = _sample(options["source"], model, options.get("max_events", MOST_EVENTS))
    left_out = f", {bad:,} that cannot be used left out" if bad else ""
    # At once: compiling so many may take minutes.
    print(f"  events     {len(X):,} of {X.shape[1]:,} columns{left_out}", flush=True)
    given = {name: options[name] for name in ("budget", "seed") if name in options}
    fast = compiled(learner, X, **given)
    fast.save(options["to"])
    for name in provided("exports"):
        if name in options:
            find("exports", name)(fast, Path(options[name]), schema=model.schema)
    _report(fast, learner, X, options["to"])
    return 0


def _parser() -> Parser:
    parser = Parser("streamk compile", DESCRIPTION, EPILOG)
    parser.usage = "streamk compile CHECKPOINT SOURCE --to FILE ..."
    add = parser.group("what is read and written")
    parser.add_checkpoint(add)
    add("SOURCE", "address of the events")
    add("--to FILE", "file of the compiled model (safetensors)")
    for name in provided("exports"):
        add(f"--{name} FILE", provided("about").get(name, ""))
    parser.add_key(add)
    add = parser.group("compiling")
    about = "horizon to compile, of a job with several (default: the first)"
    add("--horizon SPAN", about, _horizon)
    add(
        "--budget TIMES",
        "multiply-adds of a prediction, as a multiple of a linear model's (10)",
        float,
    )
    add("--max-events N", f"read the first N events ({MOST_EVENTS})", whole(2))
    add("--seed N", "seed of the random choices (0)", whole(0))
    parser.add_common()
    return parser


def _horizon(text: str) -> str:
    """Return the name that jobs have for a horizon: 1d for 24h."""
    return span_name(duration(text)) if text[-1:].isalpha() else text


def _learner(learner: Any, horizon: str | None) -> Any:
    """Return the learner of a horizon, and say which it is where there are several."""
    several = learner.horizons
    if horizon is not None and horizon not in several:
        there = ", ".join(several) or "one or none"
        raise UsageError(f"--horizon {horizon}: no such horizon; this job has {there}")
    if not several:
        return learner
    name = horizon or next(iter(several))
    others = ", ".join(one for one in several if one != name)
    print(f"  horizon    {name} alone (--horizon takes another one: {others})")
    return several[name]


def _check_files(options: dict[str, Any]) -> None:
    """Raise `UsageError` for files that cannot be written, before anything is compiled."""
    used: dict[Path, str] = {}
    for name in ("to", *provided("exports")):
        if name not in options:
            continue
        path = Path(options[name])
        if path.is_dir() or not path.parent.is_dir():
            why = "it is a directory" if path.is_dir() else f"there is no directory {path.parent}"
            raise UsageError(f"--{name} {path} cannot be written: {why}")
        if (other := used.setdefault(path.resolve(), name)) != name:
            raise UsageError(f"--{other} and --{name} are both {path}")
    if "onnx" in options and find_spec("onnx") is None:
        raise UsageError("--onnx needs the package onnx: pip install 'streamk[onnx]'")


def _sample(address: str, model: Any, most: int) -> tuple[NDArray[np.float64], int]:
    """Return events of a source, at most so many, as the model's learner takes them.

    Those that a live source has now are read. The number of events that cannot be used is the
    second value.
    """
    from streamk.encoding import decoder
    from streamk.engine.training.bad_events import tombstones_apart

    source = opened(open_source, address)
    try:
        reading = decoder(
            source.encoding,
            model.schema,
            fields=source.fields,
            delimiter=source.delimiter,
            record_format=source.record_format,
        )
        found: list[NDArray[np.float64]] = []
        count = bad = 0
        while count < most and not source.finished():
            chunks = source.poll(min(_AT_ONCE, most - count), _PATIENCE)
            for chunk in chunks:
                decoded = reading.decode(chunk.values)
                found.append(decoded.X)
                count += len(decoded.X)
                bad += len(tombstones_apart(decoded.bad, chunk.values)[0])
            if not chunks and source.partitions() and source.lag() == 0:
                break
    finally:
        source.close()
    if not count:
        raise InvalidInput(f"{address} has no usable event")
    X = np.concatenate(found)
    if len(X) > 1 and np.array_equal(X, np.broadcast_to(X[0], X.shape), equal_nan=True):
        raise InvalidInput(
            f"{address}: all {len(X):,} events look the same to the model: they differ in none of "
            "its columns; is this the right stream, in the right format?"
        )
    return (X if model.learner.takes_missing else np.nan_to_num(X)), bad


def _report(fast: Any, learner: Any, X: NDArray[np.float64], path: str) -> None:
    """Print size, cost and agreement with the model on the events that were read."""
    theirs, ours = np.asarray(learner.predict_many(X)), fast.predict_many(X)
    if fast.is_classifier:
        agreement = f"{np.mean(theirs == ours):.4f} of the events get the model's class"
    else:
        error = float(np.sqrt(np.mean((theirs - ours) ** 2)))
        agreement = f"{error:.4g} root of the mean squared difference from the model"
    kernels = fast.kernels
    print(f"  trees      {len(kernels.roots)}, with {len(kernels.leaves):,} leaves")
    print(f"  cost       {fast.cost:.1f} times the multiply-adds of a linear model")
    print(f"  agreement  {agreement}")
    print(f"  written    {path}, {fast.nbytes / 1e3:,.0f} kB")
