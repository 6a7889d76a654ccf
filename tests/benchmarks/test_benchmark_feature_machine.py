"""The benchmark of recursive feature machines on generated data: parts run, tables are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the estimators are scikit-learn's: pip install scikit-learn")
pytest.importorskip("lightgbm", reason="a rival: pip install lightgbm")

from benchmarks.feature_machine import __main__ as feature_machine
from benchmarks.feature_machine import ablation, families, latency, rivals
from benchmarks.feature_machine.retrained import Retrained


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)
    monkeypatch.delenv(rivals.XRFM, raising=False)
    few = {name: rivals.SETS[name] for name in ("cpusmall", "letter")}
    monkeypatch.setattr(rivals, "SETS", few)
    monkeypatch.setattr(families, "SETS", tuple(few))


def quick(part: str, path: Path) -> dict[str, Any]:
    out = path / "found.json"
    feature_machine.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    text = feature_machine.render(document)
    assert max(map(len, text.splitlines())) <= 100
    found: dict[str, Any] = document["results"][part]
    return found


def test_every_method_is_measured_on_every_set(tmp_path: Path) -> None:
    found = quick("rivals", tmp_path)
    assert set(found) == {"cpusmall", "letter"}
    for one in found.values():
        assert set(one["methods"]) == set(rivals.METHODS) - {"xrfm"}
        for figures in one["methods"].values():
            assert figures["seconds"]["mean"] > 0.0
            assert len(figures["error"]["values"]) == 1


def test_every_family_has_its_rounds(tmp_path: Path) -> None:
    for one in quick("families", tmp_path).values():
        for family in families.FAMILIES:
            assert one[family]["errors"]
            assert sum(one[family]["shares"]) == pytest.approx(1.0, abs=0.01)


def test_a_fifth_is_held_back() -> None:
    assert rivals.held_back(100, 0).sum() == 20


@pytest.mark.parametrize("name", list(ablation.STREAMS))
def test_labels_depend_on_the_relevant_columns_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablation, "EVENTS", 4_000)
    monkeypatch.setattr(ablation, "HALF", 2_000)
    known = ablation.STREAMS[name]()
    for half, relevant in ((slice(2_000), known.before), (slice(2_000, None), known.after)):
        X, y = known.X[half], known.y[half].astype(float)
        # Labels of events that are near in the relevant columns are near, or mostly the same.
        Z = X[:, list(relevant)] / X[:, list(relevant)].std(axis=0)
        distances = np.square(Z[:400, None] - Z[None]).sum(axis=2)
        np.fill_diagonal(distances, np.inf)
        nearest = np.abs(y[:400] - y[distances.argmin(axis=1)]).mean()
        assert nearest < 0.7 * np.abs(y[:400] - y[400:800]).mean()


def test_every_part_left_out_has_its_errors_and_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: ablation.STREAMS[name] for name in ("Friedman, changes", "SEA")}
    monkeypatch.setattr(ablation, "STREAMS", few)
    for one in quick("ablation", tmp_path).values():
        assert set(one["models"]) == set(ablation.MODELS)
        for name, figures in one["models"].items():
            assert figures["error"] > 0.0
            assert ("after" in figures) == (name not in ("pool alone", "default model"))
            assert 0.0 <= figures.get("after", 0.0) <= 1.0


def test_times_of_events_while_a_function_is_made_and_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "SETS", ("elec2",))
    monkeypatch.setattr(latency, "EVENTS", 150)
    monkeypatch.setattr(latency, "_WARM", 80)
    found = quick("latency", tmp_path)["elec2"]
    assert set(found["rates"]) == {"0", "2000"}
    for models in found["rates"].values():
        plain, default = models["no metric"], models["default"]
        assert plain["preparing"] == {"events": 0}
        assert plain["otherwise"]["events"] == 150
        assert default["preparing"]["events"] > 0, "a metric is begun after 64 events"
        assert sum(one["events"] for one in default.values()) == 150
        for one in (*plain.values(), *default.values()):
            if one["events"]:
                assert one["quantiles"] == sorted(one["quantiles"])
                assert one["most"] >= one["quantiles"][-1]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_trees_are_fitted_anew_to_all_events_so_far(task: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_500, 3))
    y: Any = X[:, 0] if task == "regression" else (X[:, 0] > 0).tolist()
    model, errors = Retrained(task), []
    for start in range(0, 2_500, 500):
        some = slice(start, start + 500)
        said = model.predict_then_learn_many(X[some], y[some]).predictions
        errors.append(np.abs(np.asarray(said, float) - np.asarray(y[some], float)).mean())
    assert min(errors[:2]) > 0.4, "nothing is fitted yet"
    assert max(errors[2:]) < 0.1
