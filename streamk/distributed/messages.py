"""Tasks of workers and what they hand back, as bytes: JSON, then arrays as safetensors."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import errors
from streamk.errors import StreamkError
from streamk.learners.common.prequential import Prequential
from streamk.learners.registry import from_state
from streamk.learners.sharded.replicas import Answer, Batch, Outcome, Task, work
from streamk.packing import pack, unpack
from streamk.state import State

Arrays = dict[str, NDArray[Any]]
_WHERE = Path("a message of a worker")


def answered(message: bytes) -> bytes:
    """Do the task of a message, and return what came of it, or the error, as a message.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners.sharded.replicas import Batch
    >>> from streamk.learners import create
    >>> state = create("kernel-ridge", task="regression").state()
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> task = Task(state, {}, 2, (1, 2), {1: Batch(X, [1.0, 2.0, np.inf])})
    >>> outcome(answered(task_message(task)))
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: shard 1: the label of row 2 is inf; drop the event
    """
    try:
        return _outcome_message(work(_task(message), from_state))
    except StreamkError as error:
        return _joined({"error": [type(error).__name__, str(error)]}, {})
    except Exception:
        return _joined({"fault": traceback.format_exc()}, {})


def task_message(task: Task) -> bytes:
    """Return a task as bytes; its batches are arrays and lists of plain labels."""
    arrays: Arrays = {}
    batches = {}
    for shard, (X, y, columns) in task.batches.items():
        arrays[f"X.{shard}"] = np.asarray(X)
        batches[shard] = {"columns": None if columns is None else list(columns), "y": None}
        if isinstance(y, np.ndarray):
            arrays[f"y.{shard}"] = y
        else:
            batches[shard]["y"] = list(y)
    header = {
        "state": _put(arrays, "state", task.state),
        "placing": dict(task.placing),
        "shards": task.shards,
        "within": task.within,
        "batches": list(batches.items()),
        "begun": [
            (shard, _put(arrays, f"begun-{shard}", state)) for shard, state in task.begun.items()
        ],
        "merges": task.merges,
    }
    return _joined(header, arrays)


def _task(message: bytes) -> Task:
    header, arrays = _parted(message)
    batches = {}
    for shard, found in header["batches"]:
        y = arrays[f"y.{shard}"] if found["y"] is None else found["y"]
        batches[shard] = Batch(arrays[f"X.{shard}"], y, found["columns"])
    first, stop = header["within"]
    return Task(
        _get(arrays, "state", header["state"]),
        header["placing"],
        header["shards"],
        (first, stop),
        batches,
        {shard: _get(arrays, f"begun-{shard}", state) for shard, state in header["begun"]},
        header["merges"],
    )


def _outcome_message(found: Outcome) -> bytes:
    arrays: Arrays = {}
    answers = []
    for shard, ((predictions, probabilities), classes, n_events) in found.answers.items():
        one: dict[str, Any] = {"shard": shard, "classes": list(classes), "n_events": n_events}
        one["predictions"] = None
        if predictions.dtype == object:
            one["predictions"] = predictions.tolist()
        else:
            arrays[f"predictions.{shard}"] = predictions
        if probabilities is not None:
            arrays[f"probabilities.{shard}"] = probabilities
        answers.append(one)
    states = [
        (span, _put(arrays, f"state-{n}", state))
        for n, (span, state) in enumerate(found.states.items())
    ]
    return _joined({"answers": answers, "states": states}, arrays)


def outcome(message: bytes) -> Outcome:
    """Return what a worker hands back.

    Raises
    ------
    StreamkError
        The error that the worker met.
    RuntimeError
        If it met a fault of the program; the message has the worker's traceback.
    """
    header, arrays = _parted(message)
    if "error" in header:
        kind, text = header["error"]
        raise getattr(errors, kind, StreamkError)(text)
    if "fault" in header:
        raise RuntimeError(f"a worker met a fault of the program:\n{header['fault']}")
    found = Outcome()
    for one in header["answers"]:
        shard = one["shard"]
        if one["predictions"] is None:
            predictions = arrays[f"predictions.{shard}"]
        else:
            predictions = np.empty(len(one["predictions"]), object)
            predictions[:] = one["predictions"]
        prequential = Prequential(predictions, arrays.get(f"probabilities.{shard}"))
        found.answers[shard] = Answer(prequential, tuple(one["classes"]), one["n_events"])
    for n, ((first, stop), state) in enumerate(header["states"]):
        found.states[(first, stop)] = _get(arrays, f"state-{n}", state)
    return found


def _put(arrays: Arrays, name: str, state: State) -> Any:
    """Add the arrays of a state under a name; return its header."""
    arrays.update({f"{name}/{own}": array for own, array in state.arrays.items()})
    return state.header


def _get(arrays: Arrays, name: str, header: Any) -> State:
    prefix = f"{name}/"
    own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
    return State(header, own)


def _joined(header: Any, arrays: Arrays) -> bytes:
    text = json.dumps(header).encode()  # NaN among labels is for the learner to refuse
    return b"".join([len(text).to_bytes(8, "little"), text, pack(arrays)])


def _parted(message: bytes) -> tuple[Any, Arrays]:
    end = 8 + int.from_bytes(message[:8], "little")
    return json.loads(message[8:end]), unpack(message[end:], _WHERE)
