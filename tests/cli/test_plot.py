"""What happened along the stream: what a checkpoint keeps of it, and its picture."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import WhimsicalSource, attached

from connectors.memory import MemorySource
from streamk.cli import main, plot
from streamk.cli.report import confusion_table, figure_rows, since_lines, sparkline
from streamk.engine import Report, newest_checkpoint
from streamk.engine.evaluation.confusion import Confusion
from streamk.learners import MultiKernel

N_EVENTS = 3000
DRIFT, BAD = 1500, (500, 2000, 2001)


def changing(n: int = N_EVENTS) -> list[Any]:
    """Events whose labels turn into their opposite, and some that cannot be used."""
    rng = random.Random(3)
    events: list[Any] = []
    for i in range(n):
        a, b = rng.uniform(-1, 1), rng.uniform(-1, 1)
        above = a + b > 0
        label = "up" if above == (i < DRIFT) else "down"
        events.append({"a": a, "b": b, "y": None if i % 50 == 7 else label})
    for i in [i for i in BAD if i < n]:
        events[i] = {"a": [], "b": {"c": float("inf")}, "y": "up"}
    return events


def job(directory: Path, source: Any, **options: Any) -> Report:
    options = {"label": "y", "checkpoint": directory, "window": 200, **options}
    return attached(source, MultiKernel(seed=1), metrics=("MacroF1", "F1=up"), **options).run()


def body(directory: Path) -> dict[str, Any]:
    found = newest_checkpoint(directory / "member-0")
    assert found is not None
    return found.body


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a job that was stopped once and went on."""
    directory = tmp_path_factory.mktemp("job") / "state"
    job(directory, MemorySource(changing()), max_events=1000)
    job(directory, MemorySource(changing()))
    return directory


def test_marks_are_where_it_happened(made: Path) -> None:
    found = body(made)
    training = found["training"]
    assert found["restarts"] == {"width": 1, "places": [[1000, 1]]}
    assert training["bad"] == {"width": 1, "places": [[i + 1, 1] for i in BAD]}
    drifts = [at for at, _ in training["drifts"]["places"]]
    assert any(DRIFT < at < DRIFT + 300 for at in drifts)
    # Reviews come every 32 learned events; these two are the places of such.
    learned = [i for i, event in enumerate(changing()) if event["y"] and i not in BAD]
    assert all((learned.index(at - 1) + 1) % 32 == 0 for at in drifts)


def test_marks_do_not_depend_on_batches(made: Path, tmp_path: Path) -> None:
    source = WhimsicalSource(changing(), whim=1)
    job(tmp_path, source, checkpoint_every=700)
    assert body(tmp_path)["training"] == body(made)["training"]
    assert body(tmp_path)["restarts"]["places"] == []


def test_a_run_that_finds_nothing_new_leaves_no_mark(tmp_path: Path) -> None:
    for _ in range(3):
        job(tmp_path, MemorySource(changing(200)))
    assert body(tmp_path)["restarts"]["places"] == []


@pytest.mark.parametrize(
    ("name", "magic"), [("one.png", b"\x89PNG"), ("one.svg", b"<?xml"), (None, b"\x89PNG")]
)
def test_a_picture(
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str | None,
    magic: bytes,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plot", str(made), *(["--to", name] if name else [])]) == 0
    target = tmp_path / (name or "state.png")
    assert target.read_bytes().startswith(magic)
    assert capsys.readouterr().out == f"figures of 3,000 events: {target.name}\n"
    if target.suffix == ".svg":
        drawn = "".join(re.findall(r"<!-- (.*?) -->", target.read_text()))
        for text in ("accuracy (0.", "no change (0.", "majority (0.", "MacroF1 (0.", "F1=up (0."):
            assert text in drawn
        assert "drift: the model begins anew" in drawn
        assert "resumed from a checkpoint (1)" in drawn
        assert "not usable (3)" in drawn


def test_a_picture_of_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(500, 2))
    source = MemorySource((X, X[:, 0] - X[:, 1]))
    model = MultiKernel(task="regression", seed=1)
    attached(source, model, label="y", checkpoint=tmp_path / "state", metrics=["R2"]).run()
    assert main(["plot", "state", "--to", "it.svg"]) == 0
    drawn = (tmp_path / "it.svg").read_text()
    for text in ("<!-- mae (", "<!-- last value (", "<!-- mean (", "<!-- R2 (", "<!-- rmse ("):
        assert text in drawn


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (lambda _: [], "the following arguments are required: CHECKPOINT"),
        (lambda made: [f"{made}x"], "no checkpoint"),
        (lambda made: [made, "--to", "it.pdf"], "must end in .png or .svg"),
        (lambda made: [made, "--to", "nowhere/it.png"], "there is no directory nowhere"),
        (lambda made: [made.parent], "holds no checkpoint"),
        (lambda made: [made / "member-0" / "00000001"], "has no figures yet"),
    ],
)
def test_what_cannot_be_drawn_is_explained(
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: Callable[[Path], list[Any]],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if "yet" in says:
        job(tmp_path / "state", MemorySource(changing(1)))
        assert main(["plot", "state"]) == 2
    else:
        assert main(["plot", *map(str, arguments(made))]) == 2
    assert says in capsys.readouterr().err


def test_several_members_are_named(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for member in ("member-0", "member-1"):
        (tmp_path / member).symlink_to(made / "member-0", target_is_directory=True)
    assert main(["plot", str(tmp_path)]) == 2
    assert f"choose one of {tmp_path}/member-0, {tmp_path}/member-1" in capsys.readouterr().err


# --- text ----------------------------------------------------------------------------------------


def test_inspect_shows_the_way(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(made)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"along the stream +[▁▂▃▄▅▆▇█]{32} from 0\.\d{3} to \d\.\d{3}$", out, re.M)
    assert re.search(r"^    no change +0\.\d{4}, lately 0\.\d{4}$", out, re.M)
    assert max(map(len, out.splitlines()[1:])) <= 79
    assert main(["inspect", str(made), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert found["restarts"] == [[1000, 1]]
    assert found["metrics"]["bad"] == [[i + 1, 1] for i in BAD]
    assert found["metrics"]["baselines"].keys() == {"whole", "window"}
    assert sum(n for *_, n in found["metrics"]["confusion"]) == found["metrics"]["scored"]


def test_sparklines() -> None:
    assert sparkline([], "utf-8") == sparkline([None], "utf-8") == ""
    assert sparkline([0.25], "utf-8") == "▁ from 0.250 to 0.250"
    assert sparkline([None, 0.0, 7.0], "latin-1") == "_# from 0.000 to 7.000"
    assert sparkline([0.0, 1.0], None) == "_# from 0.000 to 1.000"
    long = sparkline(np.linspace(0, 1, 1000).tolist(), "utf-8")
    assert re.fullmatch("▁+▂+▃+▄+▅+▆+▇+█+ from 0.000 to 1.000", long)
    assert len(long) == 32 + len(" from 0.000 to 1.000")


def test_figures_of_a_checkpoint_without_baselines() -> None:
    rows = figure_rows(
        {"mae": 1.0, "rmse": 2.0}, {"mae": 1.0, "rmse": 2.0}, {"whole": {}, "window": {}}
    )
    assert rows == [("mae", "1.0000", "1.0000"), ("rmse", "2.0000", "2.0000")]
    assert since_lines({"F1=is_up": 3}) == ["F1=is_up: from scored event 4 on"]


def matrix(pairs: dict[tuple[Any, Any], int]) -> Confusion:
    confusion = Confusion()
    for (label, answer), n in pairs.items():
        confusion.add(*confusion.codes([label] * n, [answer] * n))
    return confusion


def test_a_confusion_matrix() -> None:
    assert confusion_table(Confusion()) == ""
    confusion = matrix({(True, True): 8, (True, False): 2, (False, False): 30})
    assert confusion_table(confusion).split("\n") == [
        "  confusion matrix (rows true, columns predicted)",
        "  class  events  recall  false  true",
        "  false      30   1.000     30     0",
        "  true       10   0.800      2     8",
    ]


def test_a_confusion_matrix_of_many_classes_fits_a_terminal() -> None:
    names = [f"a class with a long name {k}" for k in range(40)]
    pairs = {(name, name): 50_000 - 100 * k for k, name in enumerate(names)}
    pairs |= dict.fromkeys(pairwise(names), 5000)
    caption, *lines = confusion_table(matrix(pairs)).split("\n")
    assert caption.endswith(", percent of the row")
    assert len(lines) == 12
    assert max(map(len, lines)) <= 79
    assert lines[0].split() == ["class", "events", "recall", *map(str, range(1, 11)), "rest"]
    assert re.fullmatch(r"  1 a cl\S* .* 0\.909 +91 +9( +0){9}", lines[1])
    assert re.fullmatch(r"  10 a .* +91 +9", lines[10])
    assert re.fullmatch(r"  30 others .*( +0){10} +100", lines[11])


def test_without_matplotlib_the_error_names_the_extra(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plot, "can_draw", lambda: False)
    assert main(["plot", str(made)]) == 2
    assert "pictures need matplotlib: pip install 'streamk[plot]'" in capsys.readouterr().err
