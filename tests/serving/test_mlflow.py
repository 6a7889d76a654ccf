"""Models of jobs in MLflow: saved, logged, registered, and the same answers from there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from engine_kit import events, learned

import streamk
from streamk import mlflow as flavour
from streamk.contest import Contest
from streamk.engine.checkpoints import row_files
from streamk.errors import InvalidInput, StateError
from streamk.learners import MultiKernel, create

# MLflow warns of the type hints of its own classes when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")

STREAM = events(160, seed=3)
ASKED = [{name: event[name] for name in "abc"} for event in STREAM[120:]]


def job(directory: Path, model: Any = None, **options: Any) -> Path:
    learned(directory, STREAM[:120], model, seed=1, **options)
    return directory


def test_without_mlflow_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(InvalidInput, match=r"pip install 'streamk\[mlflow\]'"):
        flavour.save_model(tmp_path, tmp_path / "model")


@pytest.fixture
def mlflow() -> Any:
    return pytest.importorskip("mlflow", reason="pip install 'streamk[mlflow]'")


def test_a_saved_model_answers_as_the_checkpoint(mlflow: Any, tmp_path: Path) -> None:
    state, path = job(tmp_path / "state"), tmp_path / "model"
    flavour.save_model(state, path, metadata={"team": "clicks"})
    expected = streamk.load(state)
    found = flavour.load_model(str(path))
    assert found.predict_many(ASKED) == expected.predict_many(ASKED)
    assert found.predict_proba_one(ASKED[0]) == expected.predict_proba_one(ASKED[0])
    generic = mlflow.pyfunc.load_model(str(path))
    assert generic.predict(ASKED) == expected.predict_many(ASKED)
    assert generic.metadata.metadata == {"team": "clicks"}
    assert not list(path.rglob("*.pkl"))
    assert f"streamk=={streamk.__version__}" in (path / "requirements.txt").read_text()


@pytest.mark.usefixtures("mlflow")
def test_rows_of_large_tables_are_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "LEAST", 1)
    state, path = job(tmp_path / "state", entity=("c",)), tmp_path / "model"
    flavour.save_model(state, path)
    assert list(path.glob("data/*/held/*"))
    expected = streamk.load(state)
    assert flavour.load_model(str(path)).predict_many(ASKED) == expected.predict_many(ASKED)


def test_a_frame_has_missing_values(mlflow: Any, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    state, path = job(tmp_path / "state"), tmp_path / "model"
    flavour.save_model(state, path)
    rows = [*ASKED, {"a": math.nan, "b": 1.0, "c": "x"}]
    found = mlflow.pyfunc.load_model(str(path)).predict(pandas.DataFrame(rows))
    assert found == streamk.load(state).predict_many(rows)


def test_a_champion_is_logged_and_registered(mlflow: Any, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="runs are kept in a database: pip install mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.create_experiment("streamk", (tmp_path / "runs").as_uri())
    mlflow.set_experiment("streamk")
    models = {"first": MultiKernel(), "near": create("online-nystrom", task="classification")}
    state = job(tmp_path / "state", Contest(models))
    with mlflow.start_run():
        info = flavour.log_model(state, "clicks", registered_model_name="clicks")
    for address in (info.model_uri, "models:/clicks/1"):
        found = flavour.load_model(address)
        assert (found.champion, found.challengers) == ("first", ("near",))
        assert found.predict_many(ASKED) == streamk.load(state).predict_many(ASKED)


def test_numbers_and_an_object_store(mlflow: Any, tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="pip install 'streamk[object-store]'")
    stream = [{"a": e["a"], "y": 2.0 * e["a"]} for e in STREAM]
    place = "memory://models/numbers"
    model = MultiKernel(task="regression", seed=1)
    learned(place, stream, model)
    flavour.save_model(place, tmp_path / "model")
    found = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict([{"a": 0.5}])
    assert found == streamk.load(place).predict_many([{"a": 0.5}])


@pytest.mark.usefixtures("mlflow")
def test_what_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(bytes(range(32)))
    file.chmod(0o600)
    state, path = job(tmp_path / "state", state_key=file), tmp_path / "model"
    with pytest.raises(InvalidInput, match="holds no checkpoint"):
        flavour.save_model(tmp_path, path)
    flavour.save_model(state, path, key=file)
    assert flavour.load_model(str(path), key=file).n_events == 120
    other = tmp_path / "other"
    other.write_bytes(bytes(range(1, 33)))
    other.chmod(0o600)
    with pytest.raises(StateError, match="another key"):
        flavour.load_model(str(path), key=other)
    arrays = next(path.rglob("model.safetensors"))
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(StateError, match="is damaged"):
        flavour.load_model(str(path))
