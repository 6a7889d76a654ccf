"""The pages say what the results say, and the pictures are drawn from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import headlines
from benchmarks.common import RESULTS
from benchmarks.page import FIRST, TOPICS, first_page, page, pages


def test_the_pages_say_what_the_results_say() -> None:
    text = FIRST.read_text(encoding="utf-8")
    assert first_page(text) == text, "run python -m benchmarks.page"
    assert len(text.splitlines()) <= 120
    for path, tables in pages().items():
        text = path.read_text(encoding="utf-8")
        assert page(text, tables) == text, "run python -m benchmarks.page"


def test_every_row_of_the_first_page_is_there() -> None:
    names = {one.results for one in headlines.HEADLINES}
    documents = {name: json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in names}
    table = headlines.render(documents)
    for one in headlines.HEADLINES:
        assert f"| {one.what} |" in table


def test_results_are_of_full_runs_and_on_a_page() -> None:
    found = sorted(RESULTS.glob("*.json"))
    assert [path.stem for path in found] == sorted(TOPICS)
    for path in found:
        assert not json.loads(path.read_text(encoding="utf-8"))["quick"], path.name


def test_pictures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")
    from PIL import Image

    from benchmarks import plots

    for name in plots.PICTURES:
        document = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        with Image.open(plots.draw(name, document, tmp_path)) as image:
            assert len(image.convert("RGB").getcolors() or []) >= 4
