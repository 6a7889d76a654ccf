"""The benchmarks run, on a few generated events; what they measure is not looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    # The benchmarks are run from the repository's root, they are not installed.
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delenv("STREAMK_DATA", raising=False)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "STREAMK_DATA"}
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def quick(name: str, out: Path, *arguments: object) -> Any:
    """Results of a quick run, after a look at what it printed."""
    done = run(name, "--quick", "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["quick"]
    assert document["versions"]["river"]
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 100
    return document["results"]


@pytest.mark.nightly
def test_first_light(tmp_path: Path) -> None:
    from benchmarks.first_light import ENGINES, ONE_BY_ONE

    sets = ("airlines_h2o_44k", "rialto")
    results = quick("benchmarks.first_light", tmp_path / "out.json", "--sets", *sets)
    assert tuple(results) == sets
    for found in results.values():
        assert list(found["models"]) == [*ENGINES, *ONE_BY_ONE]
        for name, figures in found["models"].items():
            assert figures["events"] == found["data"]["events"], name
            assert 0 <= figures["accuracy"] <= 1, name
            assert figures["log_loss"] > 0, name
    assert results["rialto"]["data"]["classes"] == 10


def test_one_event_at_a_time_is_rivers_progressive_validation() -> None:
    from river import evaluate, metrics

    from benchmarks import first_light
    from benchmarks.data import load

    data = load("elec2", None, quick=True)
    name = "River logistic regression"
    make = first_light.ONE_BY_ONE[name]
    mine = first_light.one_by_one(data, {name: make})[name]
    accuracy, loss = metrics.Accuracy(), metrics.LogLoss()
    evaluate.progressive_val_score(data.events(0, len(data)), make(True), accuracy)
    evaluate.progressive_val_score(data.events(0, len(data)), make(True), loss)
    assert mine["accuracy"] == pytest.approx(accuracy.get(), abs=1e-5)
    assert mine["log_loss"] == pytest.approx(loss.get(), abs=1e-5)


@pytest.mark.nightly
def test_adult(tmp_path: Path) -> None:
    arguments = ("--gamma", 0.2, 0.8, "--step", 1, "--seeds", 1, 2, 3)
    found = quick("benchmarks.adult", tmp_path / "out.json", *arguments)
    assert found["chosen"] in ({"gamma": 0.2, "step": 1}, {"gamma": 0.8, "step": 1})
    best, other = (one["cv_error"] for one in found["tried"])
    assert best <= other
    assert list(found["test_errors"]) == ["1", "2", "3"]
    assert found["median"] == sorted(found["test_errors"].values())[1]


@pytest.mark.nightly
def test_speed(tmp_path: Path) -> None:
    arguments = ("--parts", "memory", "river", "state")
    found = quick("benchmarks.speed", tmp_path / "out.json", *arguments)
    assert list(found) == ["memory", "river", "state"]
    for row in found["state"]["state"]:
        # A chunk of features is whole: at most 63 more than are in use.
        assert row["bytes_a_feature_and_output"] == pytest.approx(4, rel=64 / row["features"])
    constant = {
        (row["other_arrays"], row["nbytes"] - row["coefficients"])
        for row in found["state"]["state"]
    }
    assert len(constant) == 1


@pytest.mark.nightly
def test_features(tmp_path: Path) -> None:
    from benchmarks.features import plain

    found = quick("benchmarks.features", tmp_path / "out.json")
    assert [case["case"] for case in found["one"]["cases"]] == SMALL
    assert [case["case"] for case in found["batch"]["cases"]] == SMALL
    for case in found["one"]["cases"]:
        assert min(figure["low"] for figure in case["us"].values()) > 0
        ours = case["us"]["Hadamard, compiled"]["median"]
        numpy = case["us"]["NumPy"]["median"]
        ratio = case["ratios"]["NumPy / Hadamard, compiled"]["median"]
        assert ratio == pytest.approx(numpy / ours, rel=1e-3)
    # Three ratios of two layers, three of the dict; two shares of sgemm, Hadamard against dense.
    assert [len(found[part]["goals"]) for part in ("one", "batch")] == [9, 3]
    if plain.has_avx512():
        assert max(found["plain"]["difference"].values()) <= plain.TOLERANCE
        assert [len(goals) for goals in found["plain"]["goals"].values()] == [9, 9]


SMALL = ["m=256 d=8", "m=256 d=54", "m=256 d=64", "m=512 d=64"]


def test_work_is_counted() -> None:
    from benchmarks.hot import COSINE, Case, count

    dense, hadamard = count(Case(64, 54, 2)), count(Case(64, 54, 2), (64,))
    assert dense.flops == 2 * 64 * (2 * 54 + COSINE[1] + 2)
    assert dense.bytes == 4 * 64 * (54 + 2) + 2 * (4 * 54 + 8)
    assert hadamard.operations == 2 * 64 * (3 * 6 + 1 + COSINE[0] + 1)
    # Three signs, a length, a phase and a coefficient.
    assert hadamard.bytes == 3 * 64 // 8 + 3 * 4 * 64 + 2 * (4 * 54 + 8)


def test_goals() -> None:
    from benchmarks.hot import goal

    assert goal("a", [1, 3, 2], "x", least=2) | {"figure": None} == {
        "case": "a",
        "goal": "≥ 2x",
        "figure": None,
        "reached": True,
    }
    assert not goal("b", [3], most=2)["reached"]
    assert [goal("c", [v], least=0.9, most=1.1)["reached"] for v in (0.8, 1, 1.2)] == [0, 1, 0]


@pytest.mark.nightly
def test_step(tmp_path: Path) -> None:
    found = quick("benchmarks.step", tmp_path / "out.json")
    assert list(found) == ["one", "batch", "engine", "start"]
    assert [len(part["goals"]) for part in found.values()] == [2, 3, 1, 3]
    assert list(found["batch"]["river"]["ratios"]) == [
        "River / DoublyStochasticClassifier, dense",
        "River / DoublyStochasticClassifier, Hadamard",
    ]
    for way in found["start"]["seconds"].values():
        parts = [figure["median"] for figure in way.values()]
        assert sum(parts[:-1]) == pytest.approx(parts[-1], rel=1e-3)


@pytest.mark.nightly
def test_memory(tmp_path: Path) -> None:
    found = quick("benchmarks.memory", tmp_path / "out.json")
    assert list(found) == ["regenerated", "budget", "state"]
    assert list(found["regenerated"]["peak_bytes"]) == [
        f"{name}, {way}" for name in ("dense", "Hadamard") for way in ("kept", "regenerated")
    ]
    dense, hadamard = (row["bytes"] for row in found["budget"]["rows"][2:])
    # 512 features of 64 columns: frequencies and phases; three signs, a length and a phase.
    assert (dense, hadamard) == (4 * 512 * 65, 512 * (3 / 8 + 8))
    for rows in found["state"]["rows"].values():
        assert {row["bytes_a_feature_and_output"] for row in rows} == {4}


@pytest.mark.nightly
def test_scaling(tmp_path: Path) -> None:
    found = quick("benchmarks.scaling", tmp_path / "out.json")
    assert found["powers"] == [7, 8, 9]
    assert len(found["lines"]) == 12
    assert len(found["goals"]) == 4


def test_the_exponent_is_that_of_a_power() -> None:
    from benchmarks.scaling import _exponents

    seconds = [[2.0**power, 3 * 4.0**power] for power in range(3, 6)]
    assert _exponents(range(3, 6), seconds) == pytest.approx([1, 2])


@pytest.mark.nightly
def test_arrivals(tmp_path: Path) -> None:
    found = quick("benchmarks.arrivals", tmp_path / "out.json")
    for name in ("messy", "noisy"):
        assert found["messy"][name]["learned"] > 250
        assert sum(found["messy"][name]["bad"].values()) >= 1
    assert found["fuzz"]["counted"] == found["fuzz"]["records"]
    assert set(found["fuzz"]["bad"]) >= {"undecodable", "not an object", "wrong type", "inf"}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    "sets", [("rialto",), pytest.param(("cadata_california_housing",), marks=pytest.mark.nightly)]
)
def test_the_command_says_what_rivers_loop_says(
    sets: tuple[str, ...], tmp_path: Path, kafka_address: str
) -> None:
    arguments = ("--parts", "equal", "--sets", *sets, "--kafka", kafka_address)
    found = quick("benchmarks.engine", tmp_path / "out.json", *arguments)
    assert tuple(found["equal"]["sets"]) == sets
    for name, one in found["equal"]["sets"].items():
        assert one["equal"] == {"file": True, "kafka": True}, (name, one)


@pytest.mark.kafka
@pytest.mark.nightly
def test_engine(tmp_path: Path, kafka_address: str) -> None:
    from benchmarks.engine import clients, rates

    arguments = ("--parts", "rates", "latency", "--kafka", kafka_address)
    found = quick("benchmarks.engine", tmp_path / "out.json", *arguments)
    assert list(found) == ["rates", "latency"]
    ways = len(found["rates"]["events_per_s"])
    each = 2 * len(clients.installed())
    assert ways == each + len(rates.MODELS) * (3 + each)
    # Of a broker that was not started here the share of the processor is not known.
    assert all(list(used) == ["process"] for used in found["rates"]["cores"].values())
    assert [case["client"] for case in found["latency"]["cases"]] == list(clients.installed())
    for case in found["latency"]["cases"]:
        for figures in case["figures"].values():
            assert 0 < figures["p50_ms"]["low"] <= figures["p99_ms"]["low"]


def test_formats(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="protoc is not installed: streamk[schemas]")
    found = quick("benchmarks.engine", tmp_path / "out.json", "--parts", "formats")["formats"]
    for one in found.values():
        assert list(one["bytes"]) == ["json", "json-schema", "avro", "protobuf"]
        assert list(one["events_per_s"]) == list(one["bytes"])


def test_figures_that_are_not_equal() -> None:
    from benchmarks.engine.equal import _is_equal

    found = {"scored": 9, "hits": 5, "accuracy": 5 / 9, "log_loss": 0.7}
    assert _is_equal(found | {"log_loss": 0.7 * (1 + 1e-12)}, found)
    assert not _is_equal(found | {"log_loss": 0.7 * (1 + 1e-8)}, found)
    assert not _is_equal(found | {"hits": 6}, found)
    assert not _is_equal({"scored": 9}, found)


def test_texts_of_events(tmp_path: Path) -> None:
    from benchmarks.data import SETS
    from benchmarks.engine.events import TEXTS, encoded, load

    name = "airlines_h2o_44k"
    X = np.ones((2, SETS[name].columns), dtype=np.float32)
    X[0, 2] = np.nan
    columns = [*"abcdefgh", *TEXTS[name].values()]
    lists = {column: np.array([f"{column}-0", f"{column}-1"]) for column in columns[8:]}
    np.savez(
        tmp_path / f"{name}.npz", X=X, y=np.array([0, 1]), feature_names=np.array(columns), **lists
    )
    (x, label), (other, _) = load(name, tmp_path, 0, quick=False)
    assert (x["c"], other["c"], x["Dest"], label) == (None, 1.0, "Dest-1", False)
    (line, _) = encoded([(x, label), (other, True)])
    assert json.loads(line) == x | {"label": False}


# --- data ---------------------------------------------------------------------------------------


def test_without_data_the_command_says_where_to_get_it() -> None:
    done = run("benchmarks.adult")
    assert done.returncode == 2
    assert "docs/data.md" in done.stderr
    assert "STREAMK_DATA" in done.stderr
    assert "Traceback" not in done.stderr


def save(directory: Path, **changed: Any) -> Path:
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.integers(0, 2, (9, 123)).astype(np.uint8),
        "y": np.array([-1, 1, -1] * 3, dtype=np.int8),
        "X_test": np.ones((2, 123), dtype=np.uint8),
        "y_test": np.array([1, -1], dtype=np.int8),
        **changed,
    }
    np.savez(directory / "a9a.npz", **{k: v for k, v in arrays.items() if v is not None})
    return directory


def test_a_set_is_read_from_the_directory_or_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.data import load

    data = load("a9a", save(tmp_path))
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [False, True, False] * 3
    assert data.test is not None
    assert data.test[1].tolist() == [True, False]
    monkeypatch.setenv("STREAMK_DATA", str(tmp_path))
    assert load("a9a", None).describe() == data.describe()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.zeros((9, 8))}, r"X of shape \(9, 8\), not \(events, 123\)"),
        ({"y": None}, "no array 'y'"),
        ({"y": np.arange(9)}, "label 0 is none of"),
    ],
)
def test_another_set_of_that_name_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    from benchmarks.data import DataError, load

    with pytest.raises(DataError, match=message):
        load("a9a", save(tmp_path, **changed))


@pytest.mark.parametrize(("content", "message"), [(None, "is not there"), (b"?", "cannot be read")])
def test_a_file_that_is_no_data_set(tmp_path: Path, content: bytes | None, message: str) -> None:
    from benchmarks.data import DataError, load

    if content is not None:
        (tmp_path / "elec2.npz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load("elec2", tmp_path)


def test_what_is_missing_is_left_out_of_the_dict() -> None:
    from benchmarks.data import load

    data = load("airlines_h2o_44k", None, quick=True)
    (x, _), (full, _) = list(data.events(5, 7))
    assert set(full) - set(x) == {data.columns[-1]}


# --- the page of results ------------------------------------------------------------------------


def test_the_pages_say_what_the_results_say() -> None:
    from benchmarks.page import FIRST, PAGES, first_page, page

    text = FIRST.read_text(encoding="utf-8")
    assert first_page(text) == text, "run python -m benchmarks.page"
    assert len(text.splitlines()) <= 120
    for path, tables in PAGES.items():
        text = path.read_text(encoding="utf-8")
        assert page(text, tables) == text, "run python -m benchmarks.page"


def test_results_are_of_full_runs() -> None:
    from benchmarks.common import RESULTS

    for path in RESULTS.glob("*.json"):
        assert not json.loads(path.read_text(encoding="utf-8"))["quick"], path.name


@pytest.mark.nightly
def test_first_use(tmp_path: Path) -> None:
    results = quick("benchmarks.first_use", tmp_path / "out.json")
    (took,) = results["versions"]["now"]["streamk --help"]
    assert took["wall"] > 0
    assert results["versions"]["now"]["compiled"]["functions"] > 10
    assert results["start_bytes"] > 0
