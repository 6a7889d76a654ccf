"""The run of `streamk demo`: a small real data set, the whole engine, a table and a picture."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connectors.memory import MemorySource
from connectors.registry import open_sink, open_source
from streamk.backends.first_use import FIRST_USE
from streamk.backends.memory import give_back, share_free
from streamk.cli.plot import LACKING, can_draw, new_figure
from streamk.cli.report import columns
from streamk.engine import Checkpoints, Engine, Report, Stream, Watch, shown_on
from streamk.engine.evaluation.metrics import Metrics
from streamk.learners import Learner, create
from streamk.learners.warming import preparing

SOURCE = "river:ImageSegments"
LABEL = "label"
WINDOW = 250
STOP = 1000
"""Here the run is stopped on purpose, to be resumed."""
WARM_UP = 192
"""Events until the first function of a feature machine is in use."""
COLUMNS, CLASSES = 18, 7

Point = tuple[int, float]
Event = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One model's row in the table and line in the picture."""

    name: str
    whole: dict[str, float]
    history: list[Point]
    rate: float


def show(out: Path) -> None:
    """Run it, with its files in a directory that is made anew."""
    share_free()
    _warm_up()  # before River is there, which takes as much
    source = open_source(SOURCE)
    events = [dict(event) for chunk in source.poll(1 << 20, 0.0) for event in chunk.values]
    kernel_line = _kernel_line(out)
    _forget()
    from river import dummy, linear_model, preprocessing

    rival = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    lines = [
        kernel_line,
        _one_by_one("River logistic regression", rival, events),
        _one_by_one("majority class", dummy.PriorClassifier(), events),
    ]
    rows = [("", "accuracy", "log loss", "events/s")]
    rows += [
        (
            line.name,
            f"{line.whole['accuracy']:.1%}",
            f"{line.whole['log_loss']:.3f}",
            f"{line.rate:,.0f}",
        )
        for line in lines
    ]
    drawn = LACKING
    if can_draw():
        drawn = str(out / "accuracy.png")
        _draw(lines, out / "accuracy.png")
    print(f"\n{columns(rows, numbers=True)}\n")
    print("Each event is predicted before it is learned. Every model has its defaults.")
    print(f"Accuracy along the stream: {drawn}")
    print(f"Every prediction:          {out / 'predictions.ndjson'}")
    print(f"The model as it is now:    streamk inspect {out / 'state'}")


def _model() -> Learner:
    return create("multi-kernel", task="classification", seed=1)


def _warm_up() -> None:
    """Learn events of the same form, by which all that the first events need is loaded."""
    drawn = np.random.default_rng(0).normal(size=(WARM_UP, COLUMNS)).tolist()
    first = [
        {LABEL: str(k % CLASSES), **{str(j): value for j, value in enumerate(row)}}
        for k, row in enumerate(drawn)
    ]
    with FIRST_USE.shown_on(sys.stderr):
        with preparing(_model()):
            pass
        Engine(MemorySource(first), _model(), stream=Stream(label=LABEL)).run()
    _forget()


def _kernel_line(out: Path) -> Line:
    """Run the engine on the data set, stopped once and resumed."""
    seconds = _run(out, STOP).seconds
    _forget()
    print(f"stopped after {STOP:,} events; resuming from {out / 'state'}", file=sys.stderr)
    report = _run(out, None)
    rate = report.events / (seconds + report.seconds)
    return Line("streamk kernel model", report.whole, _accuracy(report.history), rate)


def _forget() -> None:
    """Free models that are done with, which the next ones would stand beside."""
    gc.collect()
    give_back()


def _accuracy(history: Mapping[str, Sequence[Any]]) -> list[Point]:
    return list(zip(history["events"], history["accuracy"], strict=True))


def _run(out: Path, max_events: int | None) -> Report:
    with shown_on(sys.stderr) as show:
        return Engine(
            open_source(SOURCE),
            _model(),
            sink=open_sink(f"file:{out / 'predictions.ndjson'}"),
            stream=Stream(label=LABEL, max_events=max_events),
            checkpoints=Checkpoints(out / "state"),
            watch=Watch(window=WINDOW, on_progress=show),
        ).run()


def _one_by_one(name: str, model: Any, events: Sequence[Event]) -> Line:
    """Predict, then learn, as the engine does, by a classifier of River's."""
    metrics = Metrics(classification=True, window=WINDOW)
    began = time.perf_counter()
    for event in events:
        x = dict(event)
        y = x.pop(LABEL)
        shares = model.predict_proba_one(x)
        if shares:  # before the first label there is nothing to say
            best = max(shares, key=shares.__getitem__)
            metrics.add_classes(np.array([[*shares.values()]]), [best], [*shares], [y])
        model.learn_one(x, y)
    rate = len(events) / (time.perf_counter() - began)
    return Line(name, metrics.whole(), _accuracy(metrics.history.columns), rate)


def _draw(lines: Sequence[Line], path: Path) -> None:
    """Draw accuracy over the last events along the stream."""
    figure = new_figure(4.8)
    from matplotlib.ticker import PercentFormatter, StrMethodFormatter

    axes = figure.add_subplot()
    styles = [("#0072b2", 2.4), ("#d55e00", 1.6), ("#6e6e6e", 1.6)]
    for line, (color, width) in zip(lines, styles, strict=True):
        points = [point for point in line.history if point[0] >= WINDOW // 5]
        label = f"{line.name} ({line.whole['accuracy']:.1%} of all)"
        axes.plot(*zip(*points, strict=True), color=color, linewidth=width, label=label)
    axes.axvline(STOP, color="#999999", linewidth=1, linestyle=(0, (2, 3)))
    axes.annotate(
        "stopped, resumed from its checkpoint",
        (STOP, 0.03),
        xytext=(5, 0),
        textcoords="offset points",
        color="#555555",
        fontsize=9,
    )
    axes.set_title(
        "Seven kinds of surface in photographs, each predicted before it is learned",
        loc="left",
        fontsize=12,
    )
    axes.set_xlabel("events")
    axes.set_ylabel(f"accuracy on the last {WINDOW} events")
    axes.set_ylim(0, 1)
    axes.set_xlim(0, max(line.history[-1][0] for line in lines))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center right", frameon=False)
    figure.savefig(path, dpi=150)
