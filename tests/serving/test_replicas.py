"""Models of an object store: followed by what has changed alone, and kept while it is away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fsspec", reason="pip install 'streamk[object-store]'")

from engine_kit import events, learned
from fsspec.implementations.memory import MemoryFileSystem

import streamk
from streamk.contest import Contest
from streamk.contest.command import change_champion
from streamk.engine.checkpoints.places import location
from streamk.learners import MultiKernel
from streamk.object_store.store import ObjectPath, StoreUnavailable

JOB = "memory://models/clicks"
STREAM = events(300, seed=3)


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def learn(most: int) -> None:
    learned(JOB, STREAM, max_events=most)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all that is read or listed."""
    found: list[str] = []
    for name in ("read", "sizes"):
        real = getattr(ObjectPath, name)

        def told(self: ObjectPath, *rest: Any, real: Any = real) -> Any:
            found.append(self.name)
            return real(self, *rest)

        monkeypatch.setattr(ObjectPath, name, told)
    return found


def test_a_replica_follows_a_promotion() -> None:
    def several() -> Contest:
        return Contest({"first": MultiKernel(), "other": MultiKernel(seed=1)})

    learned(JOB, STREAM[:100], several())
    model = streamk.load(JOB)
    assert (model.champion, model.challengers) == ("first", ("other",))
    change_champion(location(JOB), lambda found: found.promote("other"))
    assert model.refresh()
    assert (model.champion, model.challengers) == ("other", ("first",))
    report = learned(JOB, STREAM, several())
    assert isinstance(report.model, Contest)
    assert report.model.champion == "other"


def test_one_small_object_is_read_until_there_is_a_newer_one(asked: list[str]) -> None:
    learn(100)
    model = streamk.load(JOB)
    asked.clear()
    for _ in range(3):
        assert not model.refresh()
    assert asked == ["current.json"] * 3
    learn(200)
    asked.clear()
    assert model.refresh()
    assert model.n_events == 200
    assert asked.count("model.safetensors") == 1
    assert asked.count("manifest.json") == 1


def test_the_start_of_a_job_is_no_newer_model() -> None:
    learn(100)
    model = streamk.load(JOB)
    learn(100)  # which writes its start, and the same once more
    assert model.n_events == 100
    assert 0 <= model.age < 1e6


def test_a_checkpoint_of_it_never_changes() -> None:
    learn(100)
    path = streamk.load(JOB).path
    model = streamk.load(str(path))
    learn(200)
    assert not model.refresh()
    assert model.n_events == 100


def test_held_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    learn(100)
    model, watching = streamk.load(JOB), streamk.load(JOB, follow=0.0)
    learn(200)

    def away(self: ObjectPath, *_: Any) -> Any:
        raise StoreUnavailable(self, "no answer")

    with monkeypatch.context() as patched:
        patched.setattr(ObjectPath, "read", away)
        with pytest.raises(StoreUnavailable, match="no answer"):
            model.refresh()
        for _ in range(3):
            assert watching.predict_one(STREAM[0]) in ("up", "down")
        assert caplog.text.count("cannot read a newer model, keeping the current one") == 1
        assert model.n_events == watching.n_events == 100
    assert model.refresh()
    watching.predict_one(STREAM[0])
    assert "newer models can be read again" in caplog.text
    assert model.n_events == watching.n_events == 200


def test_an_older_one_where_the_newest_is_damaged(caplog: pytest.LogCaptureFixture) -> None:
    learn(100)
    model = streamk.load(JOB)
    learn(200)
    learn(300)
    newest = max(one.name for one in ObjectPath(JOB).iterdir() if one.name.isdigit())
    (ObjectPath(JOB) / newest / "model.safetensors").write(b"damaged")
    assert model.refresh()
    assert model.n_events == 200
    assert "skipping a damaged checkpoint" in caplog.text
