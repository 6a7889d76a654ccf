"""Classes that keep coming: room for them, and a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_kit import attached
from multi_kernel_kit import pool_alone
from numpy.typing import NDArray
from state_kit import assert_same

from connectors.memory import MemorySink, MemorySource
from streamk.errors import EngineError
from streamk.kernels import Gaussian
from streamk.learners import (
    DoublyStochastic,
    MultiKernel,
)
from streamk.learners.multi_kernel.expert_pool import ExpertPool


def coming(classes: int, n: int | None = None) -> tuple[NDArray[np.float64], list[int]]:
    """Events of which every second one has a new class, until there are so many."""
    rng = np.random.default_rng(classes)
    n = 2 * classes if n is None else n
    y = [
        i // 2
        if i % 2 == 0 and i // 2 < classes
        else int(rng.integers(0, 1 + min(i, classes) // 2))
        for i in range(n)
    ]
    return rng.normal(size=(n, 3)), y


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The classes of each pool of experts that is made."""
    found: list[int] = []
    init = ExpertPool.__init__

    def counted(self: ExpertPool, *args: Any, **options: Any) -> None:
        found.append(options["classes"])
        init(self, *args, **options)

    monkeypatch.setattr(ExpertPool, "__init__", counted)
    return found


def test_few_of_the_classes_that_come_have_a_pool_made_anew(made: list[int]) -> None:
    model = pool_alone(seed=1)
    model.predict_then_learn_many(*coming(150))
    assert len(model.classes) == 150
    beyond_the_first = [classes for classes in made if classes > 16]
    assert len(beyond_the_first) <= 8
    assert model._mixture.pool.class_room < 2 * 150


def test_a_pool_with_room_restarts_merges_and_meets_columns_as_one_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def learned() -> MultiKernel:
        model, other = pool_alone(seed=1), pool_alone(seed=1)
        X, y = coming(20, 60)
        model.learn_many(X, y)
        model._mixture.pool.restart()
        other.learn_many(X[::-1].copy(), y[::-1])
        model.merge(other)
        model.learn_many(X, [k + 5 for k in y])
        model.add_columns(["new"])
        model.learn_many(np.column_stack([X, X[:, 0]]), [k + 10 for k in y])
        return model

    roomy = learned()
    monkeypatch.setattr(
        "streamk.learners.multi_kernel.pool_growth.room_for", lambda classes, _: classes
    )
    assert_same(roomy, learned())


def stream(n: int = 90) -> list[dict[str, Any]]:
    """Events whose labels are of three classes, then of more; some bring a new column."""
    rng = np.random.default_rng(0)
    events: list[dict[str, Any]] = []
    for i in range(n):
        label = str(rng.integers(0, 3 if i < 40 else 6))
        events.append({"a": rng.normal(), f"b{i // 30}": rng.normal(), "y": label})
    return events


def run(
    source: MemorySource, sinks: tuple[MemorySink, MemorySink] | None = None, **options: Any
) -> tuple[Any, list[Any], list[Any]]:
    sink, letters = sinks or (MemorySink(), MemorySink())
    model = pool_alone(seed=1, max_classes=3)
    if options.get("on_error") != "raise":
        options["dead_letters"] = letters
    report = attached(source, model, label="y", sink=sink, **options).run()
    return report, sink.outputs, letters.outputs


def test_a_run_counts_labels_too_many_as_bad_events() -> None:
    events = stream()
    report, outputs, letters = run(MemorySource(events))
    surplus = [n for n, event in enumerate(events) if event["y"] not in "012"]
    assert surplus
    assert report.counts.bad == {"label out of domain": len(surplus)}
    assert report.counts.learned == len(events) - len(surplus) == len(outputs)
    assert report.counts.unlabelled == 0
    assert [letter.offset for letter in letters] == surplus
    assert "max_classes=3" in letters[0].value["reason"]
    assert sorted(report.model.classes) == [0, 1, 2]


def test_a_run_that_was_told_nothing_has_a_thousand_classes() -> None:
    model = DoublyStochastic(Gaussian(bandwidth=1.0), max_features=256, block_size=256)
    events = [{"a": float(i % 7), "y": f"new {i}" if i % 2 == 0 else "old"} for i in range(2200)]
    report = attached(MemorySource(events), model, label="y").run()
    assert len(report.model.classes) == 1000
    assert report.counts.bad == {"label out of domain": 101}
    assert report.counts.learned == 2200 - 101


def test_a_run_that_goes_on_refuses_the_same(tmp_path: Any) -> None:
    expected, outputs, letters = run(MemorySource(stream()))
    options = {"checkpoint": tmp_path, "checkpoint_every": 10}
    sinks = MemorySink(), MemorySink()
    run(MemorySource(stream()), sinks, max_events=55, **options)
    report, again, refused = run(MemorySource(stream()), sinks, **options)
    assert again == outputs
    assert refused == letters
    assert report.counts == expected.counts
    assert_same(report.model, expected.model)


def test_a_run_that_raises_names_the_event() -> None:
    with pytest.raises(EngineError, match=r"offset \d+ cannot be used: .* max_classes=3"):
        run(MemorySource(stream()), on_error="raise")
