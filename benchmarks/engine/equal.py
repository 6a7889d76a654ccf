"""The figures of `streamk run` beside those of River's `progressive_val_score`, event for event.

`streamk run SOURCE --label label --json --quiet` is run without any option of the model, but for
`--task regression` where labels are numbers: once from a file of one JSON object a line and once,
with `--until-end`, from a topic of three partitions. Event i is in partition i mod 3 and its
timestamp is i milliseconds after the first one's, so the order of the log is that of the file.
River's loop has `KernelClassifier(seed=0)` or `KernelRegressor(seed=0)` and the same events as
dicts. Texts are texts, and what is missing is null, or None.

"equal": as many events were scored, as many of them predicted right, and the other figures differ
by no more than 1e-9 of their value, which is what the order of summing up may make.
"no change" is the figure of a model that predicts the label before.
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.data import SETS, Directory
from benchmarks.engine import clients
from benchmarks.engine.broker import Broker
from benchmarks.engine.events import LABEL, Event, encoded, load, write

NAMES = ("elec2", "covtype_subset93k", "rialto", "airlines_h2o_44k", "cadata_california_housing")
EVENTS = 20_000
SEED = 0
"""The command's own default."""
PARTITIONS = 3
TOLERANCE = 1e-9
_FIRST_MS = 1_700_000_000_000
"""Timestamp of the first event."""
FIGURES = {"classification": ("accuracy", "log_loss"), "regression": ("mae", "rmse")}


def measure(
    broker: Broker | None,
    directory: Directory,
    n: int,
    names: Sequence[str] = NAMES,
    *,
    quick: bool,
) -> dict[str, Any]:
    """The figures of each set; none through Kafka without a broker."""
    return {
        "sets": {
            name: _measured(name, load(name, directory, n, quick=quick), broker) for name in names
        }
    }


def _measured(name: str, events: Sequence[Event], broker: Broker | None) -> dict[str, Any]:
    task = "classification" if SETS[name].labels is not None else "regression"
    common.note(f"  {name}: {len(events):,} events")
    ours = {"file": _from_file(events, task)}
    if broker is not None:
        ours["kafka"] = _from_kafka(broker, events, task)
    theirs = _river(events, task)
    first, second = FIGURES[task]
    common.note(f"    {theirs[first]:.6f} {theirs[second]:.6f}; " + str(ours))
    return {
        "task": task,
        "events": len(events),
        "ours": ours,
        "river": theirs,
        "equal": {way: _is_equal(found, theirs) for way, found in ours.items()},
        "no_change": _no_change([label for _, label in events], task),
    }


# --- the command --------------------------------------------------------------------------------


def _from_file(events: Sequence[Event], task: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "events.ndjson"
        write(path, encoded(events))
        return _command(f"file:{path}", task)


def _from_kafka(broker: Broker, events: Sequence[Event], task: str) -> dict[str, Any]:
    topic = broker.new_topic(PARTITIONS)
    writer = clients.writer(clients.installed()[0], broker.address, topic)
    for i, value in enumerate(encoded(events)):
        writer.send(value, [], i % PARTITIONS, _FIRST_MS + i)
    writer.close()
    return _command(f"kafka://{broker.address}/{topic}", task, "--until-end")


def _command(source: str, task: str, *more: str) -> dict[str, Any]:
    """Figures of a run of the command, and the events it scored."""
    arguments = [source, "--label", LABEL, "--json", "--quiet", *more]
    if task == "regression":
        arguments += ["--task", task]
    done = subprocess.run(
        [sys.executable, "-m", "streamk", "run", *arguments],
        cwd=common.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    found = {"scored": report["predicted"], **report["whole"]}
    if task == "classification":
        # The accuracy is this quotient, so the product is a whole number but for its last bits.
        found["hits"] = round(found["accuracy"] * found["scored"])
    return found


# --- River's loop -------------------------------------------------------------------------------


def _river(events: Sequence[Event], task: str) -> dict[str, Any]:
    from river import evaluate

    from streamk.adapters.river import KernelClassifier, KernelRegressor

    model: Any = (KernelClassifier if task == "classification" else KernelRegressor)(seed=SEED)
    metric: Any = _score(task)
    evaluate.progressive_val_score(events, model, metric)
    found: dict[str, Any] = metric.figures()
    return found


def _score(task: str) -> Any:
    """A metric of River that keeps both figures of a task, as the engine defines them."""
    from river import metrics

    class Classes(metrics.base.ClassificationMetric):
        @property
        def requires_labels(self) -> bool:
            return False

        def __init__(self) -> None:
            self.scored, self.hits, self.loss = 0, 0, 0.0

        def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
            self.scored += 1
            self.hits += max(y_pred, key=y_pred.__getitem__) == y_true
            self.loss -= math.log(self._clamp_proba(y_pred.get(y_true, 0.0)))

        def get(self) -> float:
            return self.hits / self.scored

        def figures(self) -> dict[str, Any]:
            loss = self.loss / self.scored
            return {"scored": self.scored, "accuracy": self.get(), "log_loss": loss} | {
                "hits": self.hits
            }

    class Numbers(metrics.base.RegressionMetric):
        def __init__(self) -> None:
            self.scored, self.absolute, self.squared = 0, 0.0, 0.0

        def update(self, y_true: float, y_pred: float) -> None:
            self.scored += 1
            self.absolute += abs(y_pred - y_true)
            self.squared += (y_pred - y_true) ** 2

        def revert(self, y_true: float, y_pred: float) -> None:
            raise NotImplementedError

        def get(self) -> float:
            return self.absolute / self.scored

        def figures(self) -> dict[str, Any]:
            rmse = math.sqrt(self.squared / self.scored)
            return {"scored": self.scored, "mae": self.get(), "rmse": rmse}

    return Classes() if task == "classification" else Numbers()


def _is_equal(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return ours.keys() == theirs.keys() and all(
        ours[key] == value
        if key in ("scored", "hits")
        else math.isclose(ours[key], value, rel_tol=TOLERANCE)
        for key, value in theirs.items()
    )


def _no_change(labels: Sequence[Any], task: str) -> float:
    """Accuracy, or mean absolute error, of the label before."""
    pairs = list(itertools.pairwise(labels))
    if task == "classification":
        return sum(a == b for a, b in pairs) / len(pairs)
    return sum(abs(a - b) for a, b in pairs) / len(pairs)


# --- the tables ---------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    tables = []
    for task, (first, second) in FIGURES.items():
        sets = {name: one for name, one in found["sets"].items() if one["task"] == task}
        if sets:
            names = [figure.replace("_", " ") for figure in (first, second)]
            header = ["streamk run", "events", names[0], "River's", names[1], "River's"]
            rows = [_row(name, one, first, second) for name, one in sets.items()]
            tables.append(common.table([*header, "equal", "Kafka's", "no change"], rows))
    return "\n\n".join(tables)


def _row(name: str, one: Mapping[str, Any], first: str, second: str) -> list[str]:
    form = ".5f" if one["task"] == "classification" else ",.2f"
    ours, theirs = one["ours"]["file"], one["river"]
    figures = [ours[first], theirs[first], ours[second], theirs[second]]
    equal = {way: "yes" if is_equal else "no" for way, is_equal in one["equal"].items()}
    return [
        name.partition("_")[0],
        f"{one['events']:,}",
        *(format(figure, form) for figure in figures),
        equal["file"],
        equal.get("kafka", "–"),
        format(one["no_change"], form),
    ]
