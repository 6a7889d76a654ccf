"""Figures and how they are shown."""

from __future__ import annotations

import io
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import BATCH, attached, events, learner
from river import dummy
from river import metrics as river_metrics

from connectors.memory import MemorySource
from connectors.registry import open_source
from streamk.engine import Snapshot, shown_on
from streamk.engine.evaluation.confusion import Confusion
from streamk.engine.evaluation.marks import Marks
from streamk.engine.evaluation.metrics import MOST, Metrics
from streamk.engine.evaluation.river_metrics import BINARY, CLASSES, NUMBERS
from streamk.engine.progress import JsonFormatter, TerminalLine
from streamk.errors import InvalidInput, StateError
from streamk.learners.common.prequential import score_classes, score_numbers


def test_scores() -> None:
    P = np.array([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0], [1.0, np.nan]])
    scores = score_classes(P, ["a", "b", "b", "a"], ("a", "b"), ["a", "b", "a", "b"])
    assert scores[:, 0].tolist() == [1, 1, 0, 0]
    np.testing.assert_allclose(scores[:, 1], -np.log([0.75, 0.5, 1e-15, 1e-15]))
    assert score_numbers(np.array([1.0, 4.0]), [2.0, 2.0]).tolist() == [[1.0, 1.0], [2.0, 4.0]]


Batch = tuple[Any, ...]


def classes_stream(n: int, labels: Sequence[Any], seed: int = 0) -> Batch:
    """Probabilities, predictions, classes and labels of a stream that changes in the middle."""
    rng = np.random.default_rng(seed)
    usual = rng.integers(0, len(labels), 20)
    truth = np.where(
        rng.random(n) < 0.6, usual[np.arange(n) * 20 // n], rng.integers(0, len(labels), n)
    )
    P = rng.dirichlet(np.ones(len(labels)), n)
    P[np.arange(n), truth] += 0.3
    P /= P.sum(axis=1, keepdims=True)
    P[: n // 10, -1] = np.nan
    answers = [labels[k] for k in np.nanargmax(P, axis=1)]
    answers[0] = None
    return P, answers, tuple(labels), [labels[k] for k in truth]


def fed(metrics: Metrics, stream: Batch, cuts: Iterable[int]) -> Metrics:
    """Give a stream in pieces; now and then go on from what a checkpoint would hold."""
    P, answers, classes, labels = stream
    at = 2 * np.arange(len(labels)) + 2  # every other event has no label
    for k, part in enumerate(map(slice, *zip(*pairwise([0, *cuts]), strict=True))):
        metrics.add_classes(P[part], answers[part], classes, labels[part], at[part])
        if k % 7 == 3:
            metrics = Metrics.from_json(json.loads(json.dumps(metrics.to_json(), allow_nan=False)))
    return metrics


def some_cuts(n: int, seed: int, most: int = 40) -> list[int]:
    rng = np.random.default_rng(seed)
    return [*np.unique(np.cumsum(rng.integers(1, most, n)).clip(max=n)).tolist()]


NAMES = ["F1=c", "ROCAUC=c", "MCC=a", "Recall=nobody", "CohenKappa", "MacroF1", "GeometricMean"]


@pytest.mark.parametrize("window", [1, 100])
def test_metrics_do_not_depend_on_calls_and_go_on_where_they_stopped(window: int) -> None:
    n = 10_000
    stream = classes_stream(n, "abcde")
    one = fed(Metrics(classification=True, window=window, names=NAMES), stream, [n])
    other = fed(Metrics(classification=True, window=window, names=NAMES), stream, some_cuts(n, 1))
    assert one.to_json() == other.to_json()
    assert MOST / 4 < len(one.history) <= MOST
    assert {name: len(column) for name, column in one.history.columns.items()} == dict.fromkeys(
        ["events", "accuracy", "log_loss", "no_change", "majority", *NAMES], len(one.history)
    )
    places = one.history.columns["events"]
    assert places == sorted(places)
    assert places[-1] > 0.95 * 2 * one.scored
    assert one.history.columns["CohenKappa"][-1] is not None or window == 1


@pytest.mark.parametrize("quantile", [None, 0.9])
def test_numbers_do_not_depend_on_calls(quantile: float | None) -> None:
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=3000))
    answers = y + rng.normal(size=3000)
    names = ["R2", "MAE", "SMAPE"]
    one, other = (
        Metrics(classification=False, window=100, names=names, quantile=quantile) for _ in range(2)
    )
    one.add_numbers(answers, y.tolist())
    for start, stop in pairwise([0, *some_cuts(3000, 2)]):
        other.add_numbers(answers[start:stop], y[start:stop].tolist())
        other = Metrics.from_json(json.loads(json.dumps(other.to_json(), allow_nan=False)))
    assert one.to_json() == other.to_json()


# --- River's own metrics, fed one event at a time ------------------------------------------------


def river_figure(name: str, stream: Batch, *, of: slice = slice(None)) -> float:
    """What River's metric says of the scored events of a stream."""
    kind, _, positive = name.partition("=")
    metric = getattr(river_metrics, kind)()
    P, answers, classes, labels = stream
    scored = [k for k, answer in enumerate(answers) if answer is not None][of]
    for k in scored:
        truth, answer = labels[k], answers[k]
        if kind in BINARY:
            positive_label = positive or True
            truth, answer = truth == positive_label, answer == positive_label
            if kind == "ROCAUC":
                answer = float(np.nan_to_num(P[k, list(classes).index(positive_label)]))
        metric.update(truth, answer)
    return float(metric.get())


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ("abcde", [*CLASSES, *(f"{name}=c" for name in BINARY)]),
        ((False, True), [*CLASSES, *BINARY]),
        ((0, 1), [*CLASSES, *BINARY]),
        ("xy", [f"{name}=y" for name in BINARY]),
    ],
)
@pytest.mark.parametrize("n", [2, 3, 40, 700])
def test_figures_of_classes_are_rivers(labels: Sequence[Any], names: list[str], n: int) -> None:
    stream = classes_stream(n, labels, seed=n)
    metrics = fed(Metrics(classification=True, window=100, names=names), stream, some_cuts(n, n))
    for name in names:
        whole, window = metrics.whole()[name], metrics.window()[name]
        assert whole == pytest.approx(river_figure(name, stream), rel=1e-12, abs=1e-12)
        expected = river_figure(name, stream, of=slice(-100, None))
        assert window == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 500])
def test_figures_of_numbers_are_rivers(n: int) -> None:
    rng = np.random.default_rng(n)
    y = np.round(rng.gamma(2.0, 3.0, n), 1)
    answers = y + rng.uniform(0.0, 2.0, n)
    metrics = Metrics(classification=False, window=100, names=NUMBERS)
    for stop in range(n):
        metrics.add_numbers(answers[stop : stop + 1], [y[stop]])
    for name in NUMBERS:
        for found, some in ((metrics.whole(), slice(None)), (metrics.window(), slice(-100, None))):
            metric = getattr(river_metrics, name)()
            for a, b in zip(y[some].tolist(), answers[some].tolist(), strict=True):
                metric.update(a, b)
            assert found[name] == metric.get()


@pytest.mark.parametrize("labels", ["ab", "abcde"])
def test_baselines_of_classes_are_rivers(labels: str) -> None:
    _, answers, _, truth = stream = classes_stream(2000, labels)
    metrics = fed(Metrics(classification=True, window=100), stream, some_cuts(2000, 5))
    for name, model in (
        ("no_change", dummy.NoChangeClassifier()),
        ("majority", dummy.PriorClassifier()),
    ):
        right = []
        for label, answer in zip(truth, answers, strict=True):
            if answer is not None:
                right.append(model.predict_one({}) == label)
            model.learn_one({}, label)
        assert metrics.baselines()["whole"][name] == np.mean(right)
        assert metrics.baselines()["window"][name] == np.mean(right[-100:])


def test_baselines_of_numbers_are_the_last_value_and_the_mean() -> None:
    y = np.random.default_rng(0).normal(5.0, 2.0, 500)
    metrics = Metrics(classification=False, window=100)
    for start in range(0, 500, 37):
        metrics.add_numbers(y[start : start + 37], y[start : start + 37].tolist())
    before = np.concatenate([[0.0], y[:-1]])
    means = [y[:k].mean() if k else 0.0 for k in range(500)]
    found = metrics.baselines()
    assert found["whole"]["last_value"] == pytest.approx(np.abs(y - before).mean())
    assert found["whole"]["mean"] == pytest.approx(np.abs(y - means).mean())
    assert found["window"]["mean"] == pytest.approx(np.abs(y - means)[-100:].mean())


def test_a_model_without_classes_is_not_scored() -> None:
    metrics = Metrics(classification=True, window=10, names=["ROCAUC=b"])
    metrics.add_classes(np.zeros((2, 0)), [None, None], (), ["a", "b"])
    assert (metrics.scored, metrics.whole()) == (0, {})
    metrics.add_classes(np.ones((1, 1)), ["b"], ("b",), ["b"])
    assert metrics.baselines()["whole"] == {"no_change": 1.0, "majority": 0.0}


def test_confusion_and_recall() -> None:
    _, answers, _, truth = stream = classes_stream(3000, "abcde")
    metrics = fed(Metrics(classification=True, window=100), stream, some_cuts(3000, 6))
    pairs = Counter(zip(truth[1:], answers[1:], strict=True))
    assert {(a, b): n for a, b, n in metrics.confusion.cells()} == pairs
    for row in metrics.confusion.recall():
        label = row["label"]
        assert row["events"] == truth[1:].count(label)
        assert row["predicted"] == answers[1:].count(label)
        assert row["recall"] == pairs[label, label] / row["events"]


def test_many_classes_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamk.engine.evaluation.confusion.MOST_PAIRS", 50)
    rng = np.random.default_rng(0)
    truth, answers = rng.integers(0, 40, (2, 2000))
    found = [Confusion(), Confusion()]
    for confusion, cuts in zip(found, ([2000], some_cuts(2000, 3)), strict=True):
        for start, stop in pairwise([0, *cuts]):
            pairs = truth[start:stop].tolist(), answers[start:stop].tolist()
            confusion.add(*confusion.codes(*pairs))
    assert found[0].to_json() == found[1].to_json()
    wrong = [cell for cell in found[0].cells() if cell[0] != cell[1]]
    assert len(wrong) == 50
    assert sum(row["predicted"] for row in found[0].recall()) == 2000


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "classification", "says"),
    [
        (["f1"], True, "no metric 'f1' for classification; did you mean .*F1"),
        (["ROCAUCC"], True, "did you mean ROCAUC.*[?] There are"),
        (["none of them"], True, "for classification; there are Accuracy"),
        (["R2"], True, "does not fit classification, where there are Accuracy, "),
        (["F1"], False, "does not fit regression, where there are MAE, MAPE"),
        (["LogLoss"], True, "always shown, as log_loss"),
        (["CohenKappa=a"], True, "write it without =a"),
        (["F1="], True, "F1= needs the positive class after it"),
        (["F1=a", "F1=a"], True, "twice"),
        ("F1", True, "must be a tuple of names"),
    ],
)
def test_names_that_cannot_be_had(names: Any, classification: bool, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Metrics(classification=classification, window=10, names=names)


def test_the_positive_class_must_be_clear() -> None:
    metrics = Metrics(classification=True, window=10, names=["F1"])
    says = r"label 'up'; name the positive class, as F1=up, or ask for MacroF1, MicroF1"
    with pytest.raises(InvalidInput, match=says):
        metrics.add_classes(np.ones((1, 1)), ["up"], ("up",), ["up"])


def test_a_figure_that_cannot_be_made_is_explained() -> None:
    metrics = Metrics(classification=False, window=10, names=["RMSLE"])
    with pytest.raises(InvalidInput, match="RMSLE is not defined for the label -3"):
        metrics.add_numbers([1.0], [-3.0])


# --- checkpoints ---------------------------------------------------------------------------------


def test_another_window_and_other_names() -> None:
    n = 1000
    stream = P, answers, classes, labels = classes_stream(n, "abc")
    old = fed(Metrics(classification=True, window=50, names=["F1=a", "ROCAUC=a"]), stream, [n])
    names = ["F1=b", "ROCAUC=a", "ROCAUC=b"]
    new = Metrics.from_json(json.loads(json.dumps(old.to_json())), window=20, names=names)
    assert new.whole()["F1=b"] == pytest.approx(river_figure("F1=b", stream))
    assert new.whole()["ROCAUC=a"] == old.whole()["ROCAUC=a"]
    assert new.since() == {"ROCAUC=b": n - 1}
    assert new.window()["accuracy"] == np.mean(
        [a == b for a, b in zip(answers[-20:], labels[-20:], strict=True)]
    )
    new.add_classes(P, answers, classes, labels)
    twice = (np.vstack([P, P]), [*answers, *answers], classes, [*labels, *labels])
    assert new.whole()["ROCAUC=a"] == pytest.approx(river_figure("ROCAUC=a", twice))
    assert new.whole()["ROCAUC=b"] == pytest.approx(river_figure("ROCAUC=b", stream))
    assert new.window()["ROCAUC=b"] == pytest.approx(
        river_figure("ROCAUC=b", stream, of=slice(-20, None))
    )
    wider = Metrics.from_json(old.to_json(), window=500)
    assert wider.window() == old.window()


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"classification": True, "window": 3, "scored": 1},
        {**Metrics(classification=True, window=3).to_json(), "history": {"events": [1], "x": []}},
        {**Metrics(classification=True, window=3).to_json(), "confusion": {"labels": []}},
        {**Metrics(classification=False, window=3).to_json(), "baselines": [1]},
        {
            **Metrics(classification=False, window=3, names=["R2"]).to_json(),
            "named": [["R2", [0, {"_y_var": 3}]]],
        },
    ],
)
def test_broken_metrics_are_explained(broken: dict[str, object]) -> None:
    with pytest.raises(StateError, match="metrics in the checkpoint"):
        Metrics.from_json(broken)


def test_marks_are_exact_while_few_and_independent_of_calls() -> None:
    places = np.random.default_rng(0).integers(0, 10**6, 3000).tolist()
    one, other = Marks(), Marks()
    one.add(places)
    for place in places:
        other.add([place])
        if place % 97 == 0:
            other = Marks.from_json(json.loads(json.dumps(other.to_json())))
    assert one.to_json() == other.to_json()
    assert len(one.places()) <= 256
    assert sum(n for _, n in one.places()) == 3000
    few = Marks()
    few.add(sorted(places[:200]))
    assert [at for at, _ in few.places()] == sorted(places[:200])
    with pytest.raises(StateError, match="marks"):
        Marks.from_json({"width": 0, "places": [[1, 1]]})


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
    baselines={},
    epoch=None,
)


def show(stream: list[Any], on_progress: Any, **options: Any) -> None:
    """Run a job that shows where it is, always if it is not told otherwise."""
    options = {"on_progress": on_progress, "progress_interval": 0, **options}
    attached(MemorySource(stream), learner(), label="y", **options).run()


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


def test_the_last_line_has_the_speed_of_the_last_events(tmp_path: Path) -> None:
    shown: list[Snapshot] = []
    show(events(300), shown.append, checkpoint=tmp_path)
    before, last = shown[-2:]
    assert before.events == last.events == 300
    assert before.epoch != last.epoch
    assert last.events_per_s == before.events_per_s > 0


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


def test_a_terminal_sees_bad_events_at_once() -> None:
    screen = Terminal()
    stream = [json.dumps(event).encode() for event in events(4 * BATCH)]
    stream[20], stream[40], stream[50] = b"[1]", b"[2]", b"?"
    with shown_on(screen) as told:
        show(stream, told)
    text = screen.getvalue()
    first = "\rwarning: the event at 0 offset 20 cannot be used: not an object: JSON [1]"
    second = "\nwarning: the event at 0 offset 50 cannot be used: undecodable"
    assert 0 < text.index(first) < text.index(second)
    assert text.count("cannot be used") == 2, "the first of each kind"
    assert text.rindex("3 bad") > text.index(second)


@pytest.mark.parametrize("interval", [0.0, 1e6])
def test_where_a_run_ends_is_shown_once(interval: float) -> None:
    shown: list[Snapshot] = []
    show(events(4 * BATCH), shown.append, progress_interval=interval)
    assert len(shown) == 1 or interval == 0.0
    whole = [one for one in shown if one.events == 4 * BATCH]
    assert len(whole) == 1


def test_elsewhere_there_are_lines_for_people() -> None:
    stream = io.StringIO()
    with shown_on(stream) as told:
        show(events(4 * BATCH), told)
        told(Snapshot(**{**vars(SNAPSHOT), "events": 4 * BATCH}))  # nothing new
        logging.getLogger("streamk.engine").warning("look here")
    *_, last, warning = stream.getvalue().splitlines()
    when = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "
    assert re.match(rf"{when}{4 * BATCH} events  ", last)
    assert re.match(rf"{when}warning: look here$", warning)


def test_a_file_has_a_share_done_and_a_time_left(tmp_path: Path) -> None:
    shown: list[Snapshot] = []
    lines = [json.dumps({**event, "note": "x" * 500}) for event in events(4_000)]
    (tmp_path / "events.ndjson").write_text("\n".join(lines) + "\n")
    source = open_source(f"file:{tmp_path}/events.ndjson")
    kept = {"ignore": ("note",), "on_progress": shown.append, "progress_interval": 0}
    attached(source, learner(), label="y", **kept).run()
    shares = [one.share for one in shown if one.share is not None]
    assert len(shares) == len(shown)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[1] < shares[-1] == 1.0
    assert shown[-1].seconds_left == 0.0
    assert any("%, 0:" in one.line() for one in shown)


def test_elsewhere_there_are_json_lines_if_asked_for() -> None:
    stream = io.StringIO()
    log = logging.getLogger("streamk.engine")
    before = (log.level, log.propagate, list(log.handlers))
    with shown_on(stream, structured=True) as told:
        show(events(4 * BATCH), told)
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
