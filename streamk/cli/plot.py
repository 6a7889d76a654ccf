"""`streamk plot`: figures along the stream, as a picture."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamk.cli.arguments import Parser, UsageError, checkpoint_place, resolved
from streamk.cli.inspect import members
from streamk.cli.report import words
from streamk.engine import Checkpoint, Key
from streamk.engine.checkpoints.files import key_of
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import newest_of_all
from streamk.engine.evaluation.marks import Marks
from streamk.engine.evaluation.metrics import Metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LACKING = "pictures need matplotlib: pip install 'streamk[plot]'"


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def new_figure(height: float) -> Figure:
    """Return an empty figure, 9 inches wide, that is drawn without a display.

    Raises `UsageError` if matplotlib is not installed.
    """
    if not can_draw():
        raise UsageError(LACKING)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


DESCRIPTION = """\
Plot the metrics of a run along its stream, in windows, beside baselines that
need no model. Marks show where the model restarted after drift, where a run
resumed, and bad events.
"""

EPILOG = """\
CHECKPOINT is the directory given to `streamk run --checkpoint`, or that of one
member or one epoch inside it.

examples:
  streamk plot state
  streamk plot state/member-0 --to accuracy.svg
"""

# Okabe and Ito's colours, which people with any colour vision tell apart.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
_BASELINES = (("#666666", (0, (4, 2))), ("#999999", (0, (1, 1.5))))
_DRIFT, _RESTART, _BAD = "#e69f00", "#333333", "#d55e00"
_MOST_BARS = 120


@dataclass(frozen=True)
class StreamHistory:
    """The figures of a checkpoint along the stream."""

    title: str
    metrics: Metrics
    window: int
    events: int
    drifts: Marks
    restarts: Marks
    bad: Marks


def main(arguments: Sequence[str]) -> int:
    """Draw a checkpoint's figures."""
    parser = Parser("streamk plot", DESCRIPTION, EPILOG)
    parser.add_checkpoint()
    add = parser.group("options")
    add("--to FILE", "picture to write, .png or .svg (default: CHECKPOINT.png here)")
    parser.add_key(add)
    parser.add_common()
    options = parser.parse(arguments)
    path = checkpoint_place(options["model"], "checkpoint")
    target = Path(options.get("to", f"{resolved(path).name}.png")).expanduser()
    if target.suffix not in (".png", ".svg"):
        raise UsageError(f"--to {target}: the name must end in .png or .svg")
    if not target.resolve().parent.is_dir():
        raise UsageError(f"--to {target}: there is no directory {target.parent}")
    story = _history(_newest(path, key_of(options.get("state_key"))))
    if not len(story.metrics.history):
        raise UsageError(f"{path} has no figures yet: too few events had a prediction and a label")
    _draw(story, target)
    print(f"figures of {story.events:,} events: {target}")
    return 0


def _newest(path: Location, key: Key | None) -> Checkpoint:
    """The newest good checkpoint. Raises `UsageError` if there are several members."""
    found = members(path)
    if len(found) > 1:
        names = ", ".join(str(paths[0].parent) for paths in found)
        raise UsageError(f"{path} has checkpoints of several members; choose one of {names}")
    return newest_of_all(resolved(path), key)


def _history(found: Checkpoint) -> StreamHistory:
    body, training = found.body, found.body["training"]
    label = body["config"]["label"]
    job = found.path.parent.parent if isinstance(found.path, Path) else found.path.parent
    return StreamHistory(
        title=f"Predictions of {label} in {job.name or found.path.name}",
        metrics=Metrics.from_json(training["metrics"]),
        window=training["metrics"]["window"],
        events=body["feed"]["sequence"]["events"],
        drifts=Marks.from_json(training["drifts"]),
        restarts=Marks.from_json(body["restarts"]),
        bad=Marks.from_json(training["bad"]),
    )


def _panels(story: StreamHistory) -> list[list[str]]:
    """The columns of the history that are drawn together: baselines beside the first figure."""
    first, second, *asked = story.metrics.figure_names
    panels = [[first, *story.metrics.baseline_names]]
    if story.metrics.classification:
        panels += [asked] if asked else []  # all of them are shares or correlations
    else:
        panels += [[name] for name in asked]
    return [*panels, [second]]


def _draw(story: StreamHistory, path: Path) -> None:
    panels, has_bad = _panels(story), bool(story.bad.places())
    heights = [3.0, *([1.6] * (len(panels) - 1)), *([0.7] * has_bad)]
    figure = new_figure(1.3 + sum(heights))
    from matplotlib.ticker import StrMethodFormatter

    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for panel, names in zip(axes, panels, strict=False):
        _draw_panel(panel, story, names)
    if has_bad:
        _draw_bad(axes[-1], story.bad, story.events)
    for number, panel in enumerate(axes):
        _draw_marks(panel, story, named=number == 0)
        panel.set_axisbelow(True)
        panel.grid(axis="y", color="#dddddd", linewidth=0.8)
        panel.spines[["top", "right"]].set_visible(False)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)
    axes[0].set_title(story.title, loc="left", fontsize=12)
    axes[-1].set_xlabel("events of the stream")
    axes[-1].set_xlim(0, story.events)
    axes[-1].xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.align_ylabels(axes)
    figure.savefig(path, dpi=100, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_panel(panel: Any, story: StreamHistory, names: Sequence[str]) -> None:
    """Draw some columns of the history; the baselines among them thinner and dashed."""
    columns, whole = story.metrics.history.columns, story.metrics.whole()
    whole |= story.metrics.baselines()["whole"]
    baselines = [name for name in names if name in story.metrics.baseline_names]
    figures = [name for name in names if name not in baselines]
    styles: dict[str, tuple[str, Any]] = dict(zip(baselines, _BASELINES, strict=False))
    for number, name in enumerate(figures):
        styles[name] = (_COLORS[number % len(_COLORS)], "solid")
    full: list[float] = []
    for name in [*figures, *baselines]:
        color, dashes = styles[name]
        column = columns.get(name, [None] * len(columns["events"]))
        points = [
            point for point in zip(columns["events"], column, strict=True) if point[1] is not None
        ]
        # The first windows are of few events: they are drawn, but not what the axis is made for.
        full += [
            value for events, value in points if events >= min(story.window, story.events // 2)
        ]
        label = words(name) + (f" ({whole[name]:.3f} of all)" if name in whole else "")
        panel.plot(
            *zip(*points, strict=True) if points else ((), ()),
            color=color,
            linestyle=dashes,
            linewidth=1.8 if name in figures else 1.2,
            zorder=3 if name in figures else 2,
            label=label,
        )
    if full:
        least, most = min(full), max(full)
        room = 0.08 * (most - least) or 0.05
        panel.set_ylim(least - room, most + room)
    title = words(figures[0]) if len(figures) == 1 else "metrics"
    panel.set_ylabel(f"{title}\nlast {story.window:,}")


def _draw_marks(panel: Any, story: StreamHistory, *, named: bool) -> None:
    """Draw lines where the model began anew and where a run went on."""
    for marks, color, dashes, what in (
        (story.drifts, _DRIFT, (0, (5, 1.5)), "drift: the model begins anew"),
        (story.restarts, _RESTART, (0, (1, 2)), "resumed from a checkpoint"),
    ):
        places = marks.places()
        for number, (at, _) in enumerate(places):
            label = f"{what} ({sum(n for _, n in places):,})" if named and not number else None
            panel.axvline(at, color=color, linestyle=dashes, linewidth=1, zorder=1, label=label)


def _draw_bad(panel: Any, bad: Marks, events: int) -> None:
    """Draw how many events could not be used, by stretches of the stream."""
    width = max(bad.width, -(-events // _MOST_BARS))
    bars: dict[int, int] = {}
    for at, n in bad.places():
        bars[at // width] = bars.get(at // width, 0) + n
    panel.bar(
        [(place + 0.5) * width for place in bars],
        list(bars.values()),
        width=width,
        color=_BAD,
        label=f"not usable ({sum(bars.values()):,})",
    )
    panel.set_ylabel("not\nusable")
