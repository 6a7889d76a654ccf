"""StreamArena's protocol: streams, what answers are worth, ways that agree, files of results."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import arena_check, arena_streams, stream_arena
from benchmarks import data as sets
from benchmarks.arena_streams import GENERATED, NPZ, Stream, find, write
from benchmarks.data import DataError
from benchmarks.stream_arena import LEARNERS, PUBLISHED, Scores


def needs_capymoa() -> None:
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("CapyMOA needs Java")
    pytest.importorskip("capymoa", reason="CapyMOA is optional: pip install capymoa")


# --- streams --------------------------------------------------------------------------------------


def stream(folder: Path, key: str, rows: list[list[Any]]) -> Stream:
    path = folder / f"{key}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[f"c{j}" for j in range(len(rows[0]))], *rows])
    return Stream(key, str(path))


@pytest.mark.parametrize("below", ["", "datasets"])
def test_streams_are_found_by_the_end_of_their_names(below: str, tmp_path: Path) -> None:
    keys = ["classification/real/a", "classification/synth/ba", "regression/real/a"]
    for key in keys:
        stream(tmp_path / below, key, [[1, 2]])
    assert [*find(tmp_path, None)] == keys
    assert [*find(tmp_path, ["ba"])] == ["classification/synth/ba"]
    assert [*find(tmp_path, ["regression/real/a", "a"])] == [keys[2], keys[0]]
    with pytest.raises(DataError, match="no stream b"):
        find(tmp_path, ["a", "b"])


def test_a_directory_without_streams_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--generate"):
        find(tmp_path, None)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["10", "9", "9", "1"], ["1", "9", "10"]),
        (["b", "10", "9"], ["10", "9", "b"]),
        (["1.0", "0.0"], ["0.0", "1.0"]),
    ],
)
def test_classes_are_in_the_order_of_numbers_or_of_texts(
    labels: list[str], classes: list[str], tmp_path: Path
) -> None:
    found = stream(tmp_path, "classification/real/a", [[0, label] for label in labels])
    assert found.classes == classes
    assert found.labels().tolist() == [classes.index(label) for label in labels]
    assert found.labels(2).tolist() == found.labels().tolist()[:2]


@pytest.mark.parametrize("key", NPZ)
def test_a_file_has_the_numbers_of_the_array(key: str, tmp_path: Path) -> None:
    known = sets.load(NPZ[key], None, quick=True)
    write(tmp_path, key, *arena_streams._of_npz(NPZ[key], None, quick=True))
    found = Stream(key, str(tmp_path / f"{key}.csv"))
    assert found.names[:-1] == [*known.columns]
    X = np.array([row[:-1] for row in found.rows()], dtype=np.float32)
    np.testing.assert_array_equal(X, known.X)
    exact = known.y.astype(np.float32) if found.task == "regression" else known.y.astype(int)
    np.testing.assert_array_equal(found.labels().astype(exact.dtype), exact)


def test_a_missing_number_is_a_question_mark_and_a_file_is_made_once(tmp_path: Path) -> None:
    write(tmp_path, "regression/real/a", None, [([1.5, np.nan], 2.0)])
    write(tmp_path, "regression/real/a", None, [([7.0, 7.0], 7.0)])
    assert (tmp_path / "regression/real/a.csv").read_text() == "x0,x1,class\n1.5,?,2.0\n"


@pytest.mark.parametrize("width", [0, 100])
def test_parts_take_over_from_each_other(width: int) -> None:
    def part(name: int) -> Any:
        return lambda: iter(([t], name) for t in range(10_000))

    names = np.array([y for _, y in arena_streams._changing(900, width, *map(part, range(3)))])
    assert len(names) == 900
    for first in (0, 300, 600):
        whole = names[first + (width if first else 0) : first + 300]
        assert (whole == first // 300).all()
    early = names[300:350] if width else names[299:300]
    assert (early == 0).mean() > 0.5


@pytest.mark.one_in(6)
@pytest.mark.parametrize("key", GENERATED)
def test_a_generated_stream_is_as_its_name_tells(key: str) -> None:
    n, events = GENERATED[key]
    if "Friedman" not in key:
        needs_capymoa()
    some = 300 if n > 10_000 else 3
    found, again = list(islice(events(), some)), list(islice(events(), some))
    assert [[*x, y] for x, y in found] == [[*x, y] for x, y in again]
    assert np.isfinite(np.array([[*x, y] for x, y in found], dtype=float)).all()
    assert n in (10_000, 50_000, 100_000, 200_000, 500_000)
    published = json.loads(PUBLISHED.read_text())["streams"]
    assert key in published


# --- what answers are worth -----------------------------------------------------------------------


def scored(y: Any, answers: Any, n: int) -> dict[str, Any]:
    scores = Scores(n)
    for label, answer in zip(y, answers, strict=True):
        scores.add(label, answer)
    return scores.figures()


def answers(n: int, classes: int, seed: int) -> tuple[Any, list[Any]]:
    """Labels that repeat, of which the last class never comes, and shares, some of them none."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, max(classes - 1, 2), n)
    y[1:] = np.where(rng.random(n - 1) < 0.5, y[:-1], y[1:])
    shares = rng.random((n, classes)) ** 3 + 0.5 * (y[:, None] == np.arange(classes))
    found = [None if rng.random() < 0.05 else row[: rng.integers(1, classes + 1)] for row in shares]
    return y, found


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_calibration_is_of_each_class_by_tenths(classes: int) -> None:
    y, found = answers(300, classes, seed=classes)
    scores = Scores(classes)
    sums = np.zeros((classes, 10, 2))
    for label, answer in zip(y, found, strict=True):
        scores.add(label, answer)
        given = [1.0] * classes if answer is None else [*answer] + [0.0] * (classes - len(answer))
        for k, share in enumerate(given):
            p = share / sum(given)
            sums[k, min(int(10 * p), 9)] += [p, label == k]
    expected = [100 * sum(abs(p - hits) for p, hits in of) / len(y) for of in sums]
    assert scores.calibration() == pytest.approx(expected)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_classes_are_scored_as_by_capymoa(classes: int) -> None:
    needs_capymoa()
    from capymoa.evaluation import ClassificationEvaluator
    from capymoa.stream import Schema

    y, found = answers(300, classes, seed=classes)
    labels = {"y": [str(i) for i in range(classes)]}
    evaluator = ClassificationEvaluator(schema=Schema.from_custom(["a", "y"], "y", labels))
    for label, one in zip(y, found, strict=True):
        evaluator.update(int(label), 0 if one is None else int(np.argmax(one)))
    said, theirs = scored(y, found, classes), evaluator.metrics_dict()
    for name in ("accuracy", "kappa", "kappa_t", "kappa_m"):
        assert said[name] == pytest.approx(theirs[name])


def test_numbers_are_scored_as_by_capymoa() -> None:
    needs_capymoa()
    from capymoa.evaluation import RegressionEvaluator
    from capymoa.stream import Schema

    y = np.random.default_rng(0).normal(3, 2, 200)
    found = [None, *(y[1:] + np.random.default_rng(1).normal(size=199)).tolist()]
    evaluator = RegressionEvaluator(schema=Schema.from_custom(["a", "y"], "y"))
    for label, one in zip(y, found, strict=True):
        evaluator.update(label, one)
    said, theirs = scored(y, found, 0), evaluator.metrics_dict()
    for name in ("rmse", "mae", "rmae", "r2"):
        assert said[name] == pytest.approx(theirs[name])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_log_loss_has_a_floor_and_no_answer_is_all_classes_alike(classes: int) -> None:
    one = [1.0] + [0.0] * (classes - 1)
    assert scored([0], [one], classes)["log_loss"] == 0.0
    assert scored([1], [one], classes)["log_loss"] == pytest.approx(-np.log(1e-7))
    for nothing in (None, [], [0.0], [np.nan] * classes):
        assert scored([1], [nothing], classes)["log_loss"] == pytest.approx(np.log(classes))
    assert scored([0, 0], [[2.0, 2.0], [4.0, 4.0]], 2)["log_loss"] == pytest.approx(np.log(2))


def test_areas_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="the rule: pip install scikit-learn")
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 2, 200), rng.integers(0, 9, 200) / 9
    said = scored(y, np.column_stack([1 - p, p]), 2)
    assert said["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, p))
    assert said["pr_auc"] == pytest.approx(metrics.average_precision_score(y, p))
    assert scored([1, 1], [[0.5, 0.5]] * 2, 2)["roc_auc"] is None


# --- ways that agree ------------------------------------------------------------------------------


def made(folder: Path, task: str, cells: str) -> Stream:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).round(3)
    first: Any = rng.choice(["red", "blue"], 80) if cells == "texts" else X[:, 0]
    score = X[:, 1] + rng.normal(size=80)
    y = (
        score
        if task == "regression"
        else np.array(["no", "maybe", "yes"])[np.digitize(score, (0, 1))]
    )
    rows = [[f, *x[1:], label] for f, x, label in zip(first, X, y, strict=True)]
    return stream(folder, f"{task}/real/a", rows)


# CapyMOA's reader leaves its file open.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("cells", ["numbers", "texts"])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_all_ways_to_read_a_stream_agree(task: str, cells: str, tmp_path: Path) -> None:
    found = made(tmp_path, task, cells)
    ways = ["streamk run", "River", "arrays", "CapyMOA"]
    if cells == "texts":
        ways.remove("arrays")
    if importlib.util.find_spec("capymoa") is None:
        ways.remove("CapyMOA")
    assert arena_check.agree(found.key, found.path, None if cells == "texts" else 60) == ways


@pytest.mark.parametrize("way", ["_by_river", "_by_arrays"])
def test_a_way_that_differs_is_named(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn: Any = getattr(arena_check, way)
    monkeypatch.setattr(arena_check, way, lambda *given: learn(*given[:-1], given[-1] + 1))
    found = made(tmp_path, "regression", "numbers")
    name = "River" if way == "_by_river" else "arrays"
    with pytest.raises(ValueError, match=rf"event \d+ is .* to streamk run, and .* to {name}"):
        arena_check.agree(found.key, found.path, 60)


# --- runs -----------------------------------------------------------------------------------------


def run(folder: Path, *more: str) -> dict[str, Any]:
    out = folder / "out.json"
    line = ["--data", str(folder), "--runs", str(folder / "runs"), "--out", str(out), *more]
    stream_arena.run(line)
    return dict(json.loads(out.read_text())["results"])


def is_a_submission(path: Path) -> dict[str, Any]:
    """Hold a file against what StreamArena asks for."""
    found: dict[str, Any] = json.loads(path.read_text())
    task = path.parent.parent.name
    metrics = {
        "classification": {"accuracy", "kappa", "kappa_t", "kappa_m", "log_loss"},
        "regression": {"rmse", "mae", "r2"},
    }
    assert found["task"] == task
    assert found["metrics"].keys() >= metrics[task]
    assert all(v is None or isinstance(v, float) for v in found["metrics"].values())
    assert path.stem == f"{found['dataset'].replace('/', '__')}__seed{found['seed']}"
    assert isinstance(found["seed"], int)
    assert found["wallclock_s"] > 0
    assert found["submission"]["author"]
    assert found["submission"]["contact_or_repo"]
    assert "_defaults" not in found["hyperparameters"]
    return found


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_run_is_a_file_that_is_made_once(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = made(tmp_path, task, "numbers")
    given = ("--learners", "streamk-no-metric", "--check", "20", "--events", "60")
    results = run(tmp_path, *given, "--seeds", "3")
    (path,) = (tmp_path / "runs/first-60" / task).rglob("*.json")
    submission = is_a_submission(path)
    assert submission["hyperparameters"]["external_experts"] == []
    assert submission["events"] == submission["max_instances"] == 60
    assert "streamk-no-metric, seed 3" in capsys.readouterr().err
    before = path.read_bytes()
    again = run(tmp_path, *given, "--seeds", "3")
    assert again == results
    assert path.read_bytes() == before
    assert capsys.readouterr().err == ""
    more = run(tmp_path, *given, "--seeds", "3-4")
    assert more[found.key]["learners"]["streamk-no-metric"]["seeds"] == [3, 4]
    text = stream_arena.render({"results": more})
    assert max(map(len, text.splitlines())) <= 100
    assert "±" in text


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_learner_runs(task: str, tmp_path: Path) -> None:
    needs_capymoa()
    found = made(tmp_path, task, "texts")
    learners = run(tmp_path, "--seeds", "1-2")[found.key]["learners"]
    assert [*learners] == [name for name, one in LEARNERS.items() if task in one.tasks]
    for path in (tmp_path / "runs/whole" / task).rglob("*.json"):
        told = is_a_submission(path)["hyperparameters"]
        ensemble = told.get("ensemble_size", 100)
        assert ensemble == 100


@pytest.mark.nightly
def test_a_quick_run_has_all_streams_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    stream_arena.run(["--quick", "--seeds", "1", "--learners", "streamk", "--out", str(out)])
    assert set(json.loads(out.read_text())["results"]) == {*NPZ}
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines()[:-1])) <= 100


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e5])
@pytest.mark.parametrize("anew", [False, True])
def test_a_table_of_all_learners_is_narrow(scale: float, anew: bool) -> None:
    of = {
        "seeds": [1, 2, 3],
        "primary": [0.123456 * scale, 0.234567 * scale, 0.11 * scale],
        "others": [0.98765 * scale, -0.123456],
        "calibration": [0.123, 12.3, 0.4],
        "events": 539_383.0,
        "cpu_time_s": 61.5,
        "peak_rss_mb": 10_388.7,
    }
    published = json.loads(PUBLISHED.read_text())["streams"]
    results = {
        key: {
            "anew": anew,
            "learners": {n: of for n, one in LEARNERS.items() if key.split("/")[0] in one.tasks},
        }
        for key in [*published, *NPZ]
    }
    text = stream_arena.render({"results": results, "settings": {"events": 100}})
    assert max(map(len, text.splitlines())) <= 100
    assert "first 100 events" in text
    assert ("~0." in text) == anew
    text = stream_arena.front({"results": results})
    assert max(map(len, text.splitlines())) <= 100
    assert ("electricity" in text) != anew


def test_ours_tells_every_option_of_its_experts() -> None:
    from streamk.learners.registry import options_of

    told = stream_arena._options("regression", ())
    assert told.keys() == {"model", *options_of("multi-kernel")} - {"seed"}
    (expert,) = told["external_experts"]
    assert expert.keys() == {"model", *options_of("feature-machine")} - {"seed"}


def test_what_takes_hours_stays_where_it_is_not_measured_again() -> None:
    def learners(**seeds: int) -> dict[str, object]:
        return {"anew": False, "learners": {name: {"seeds": [n]} for name, n in seeds.items()}}

    former = {"here": learners(streamk=1, SOKNL=1, **{"streamk-no-metric": 1})}
    former["there"] = learners(streamk=1)
    found = stream_arena.with_former(former, {"here": learners(streamk=2)})
    assert found == {"here": learners(streamk=2, SOKNL=1), "there": former["there"]}
