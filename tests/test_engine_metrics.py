"""Figures and how they are shown."""

from __future__ import annotations

import io
import json
import logging

import numpy as np
import pytest
from engine_kit import BATCH, events, learner

from connectors.memory import MemorySource
from streamk.engine import Engine, Snapshot, shown_on
from streamk.engine.metrics import HISTORY, Metrics, score_classes, score_numbers
from streamk.engine.progress import JsonFormatter, TerminalLine
from streamk.errors import StateError


def test_scores() -> None:
    P = np.array([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0], [1.0, np.nan]])
    scores = score_classes(P, ["a", "b", "b", "a"], ("a", "b"), ["a", "b", "a", "b"])
    assert scores[:, 0].tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(scores[:, 1], -np.log([0.75, 0.5, 1e-15, 1e-15]))
    assert score_numbers(np.array([1.0, 4.0]), [2.0, 2.0]).tolist() == [[1.0, 1.0], [2.0, 4.0]]


def test_windows_hold_the_last_events() -> None:
    metrics = Metrics(classification=True, window=5)
    assert metrics.whole() == metrics.window() == {}
    hits = [1, 1, 1, 0, 0, 0, 1, 1, 1, 1]
    metrics.update(np.column_stack([hits, np.arange(10.0)]))
    assert metrics.whole() == {"accuracy": 0.7, "log_loss": 4.5}
    assert metrics.window() == {"accuracy": 0.8, "log_loss": 7.0}


def test_metrics_do_not_depend_on_calls_and_go_on_where_they_stopped() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((30_000, 2))
    one = Metrics(classification=False, window=100)
    one.update(scores)
    other = Metrics(classification=False, window=100)
    start = 0
    while start < len(scores):
        stop = start + int(rng.integers(1, 20))
        other.update(scores[start:stop])
        start = stop
        if rng.random() < 0.01:
            other = Metrics.from_json(json.loads(json.dumps(other.to_json())))
    assert one.to_json() == other.to_json()
    assert HISTORY / 4 < len(one.history) <= HISTORY
    counts = [n for n, _, _ in one.history]
    assert counts == sorted(counts)
    assert counts[-1] > 0.95 * one.scored


@pytest.mark.parametrize("broken", [{}, {"classification": True, "window": 3, "scored": 1}])
def test_broken_metrics_are_explained(broken: dict[str, object]) -> None:
    with pytest.raises(StateError, match="metrics in the checkpoint"):
        Metrics.from_json(broken)


SNAPSHOT = Snapshot(
    events=10**9,
    learned=1,
    predicted=1,
    bad=12345,
    events_per_s=123456.7,
    lag=10**8,
    features=131072,
    model_bytes=1,
    process_bytes=10**10,
    whole={},
    window={"mae": 123456.789, "rmse": 0.00012},
    epoch=None,
)


def test_the_line_fits_a_terminal() -> None:
    assert len(SNAPSHOT.line()) <= 79
    assert SNAPSHOT.line().startswith("1G events  123k/s  mae 123k  rmse 0.000  lag 100M")


def test_the_line_is_rewritten_in_one_write() -> None:
    writes: list[str] = []

    class Screen(io.StringIO):
        def write(self, text: str) -> int:
            writes.append(text)
            return super().write(text)

    line = TerminalLine(Screen())
    line(SNAPSHOT)
    line(Snapshot(**{**vars(SNAPSHOT), "lag": None, "bad": 0}))
    assert len(writes) == 2
    assert len(writes[1]) == len(writes[0])  # blanks cover what was there
    assert writes[1][0] == "\r"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_line_and_warnings_above_it() -> None:
    screen = Terminal()
    with shown_on(screen) as show:
        show(SNAPSHOT)
        logging.getLogger("streamk.engine").info("not shown")
        logging.getLogger("streamk.engine").warning("look here")
    text = screen.getvalue()
    assert "1G events" in text
    assert "\rwarning: look here\n" in text
    assert "not shown" not in text


def test_elsewhere_there_are_json_lines() -> None:
    stream = io.StringIO()
    log = logging.getLogger("streamk.engine")
    before = (log.level, log.propagate, list(log.handlers))
    with shown_on(stream) as show:
        source = MemorySource(events(4 * BATCH))
        Engine(
            source,
            learner(),
            label="y",
            on_progress=show,
            progress_interval=0,
        ).run()
    assert (log.level, log.propagate, list(log.handlers)) == before
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    lines = [line for line in lines if not line["message"].startswith("compil")]
    assert all(line["message"] == "progress" and line["level"] == "info" for line in lines)
    last = lines[-1]
    assert last["events"] == last["learned"] == 4 * BATCH
    assert last["predicted"] == 4 * BATCH - 1
    assert last["lag"] == 0
    assert last["features"] == 128
    assert last["process_bytes"] > last["model_bytes"] > 0
    assert set(last["window"]) == {"accuracy", "log_loss"}


def test_exceptions_are_logged_in_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.LogRecord("x", 40, "", 1, "oh", (), (ValueError, error, None))
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "ValueError: two" in json.loads(line)["exception"]
