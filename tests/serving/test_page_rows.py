"""The live page's rows and curves in a browser: text whatever comes, filtered, by slices."""

from __future__ import annotations

import json
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from live_page_kit import feeding, job, serving

pytest.importorskip("starlette", reason="requests come by Starlette: pip install streamk[serve]")

HOSTILE = "<img src=x onerror=\"document.title='hit'\">"
pytestmark = pytest.mark.slow


def lines(n: int = 3000) -> list[bytes]:
    """Events, some of no use, with texts that would be elements, were they read as HTML."""
    rng, found = random.Random(1), []
    for i in range(1, n + 1):
        event: dict[str, Any] = {"age": rng.randint(16, 80), "hour": round(24 * rng.random(), 2)}
        event["device"] = rng.choice(["phone", "tablet", HOSTILE])
        sign = 1 if event["device"] == "phone" else -1
        event["clicked"] = sign * (event["age"] - 45) + rng.gauss(0, 5) > 0
        if i % 57 == 0:
            event["age"] = [[HOSTILE]]
        found.append(json.dumps(event).encode() + b"\n" if i % 91 else b'{"age": "</script>\n')
    return found


def visible(page: Any, table: str) -> list[str]:
    found: list[str] = page.locator(f"#{table} tbody tr:not([hidden])").all_inner_texts()
    return found


def test_rows_are_text_and_are_filtered(page: Any, tmp_path: Path) -> None:
    with job(tmp_path, "--slice", "device") as (process, address):
        page.goto(address)
        with feeding(process, lines()):
            page.wait_for_selector("#predictions tbody tr:has-text('img src=x') .reason")
            page.wait_for_selector("#bad tbody tr:has-text('img src=x')")
            page.wait_for_selector("#bad tbody tr:has-text('</script>')")
            page.wait_for_selector("#kinds li:has-text('undecodable: ')")
            # Which predictions are shown goes by the clock.
            page.wait_for_selector("#predictions tbody tr:has-text('slice phone')")
            page.wait_for_selector("#predictions tbody tr >> nth=1")
            titles = page.locator("#charts h2").all_inner_texts()
            assert "weight of each expert" in titles
            assert "importance of columns: mean absolute effect" in titles
            legends = " ".join(page.locator("#charts .u-legend").all_inner_texts())
            assert all(name in legends for name in ("gaussian", "binning", "device", "age", "hour"))
            # Newer rows come to the top while the page is open.
            top = page.locator("#predictions tbody tr").first.inner_text()
            page.wait_for_function(
                "top => document.querySelector('#predictions tbody tr').innerText !== top", arg=top
            )
            # Nothing of it became an element.
            assert page.locator("img, main script").count() == 0
            assert "hit" not in page.title()
            # By the keyboard: from the buttons to the slices, to the filter, to the tables.
            page.locator(".range button").last.focus()
            reached = []
            for _ in range(4):
                page.keyboard.press("Tab")
                reached.append(page.evaluate("document.activeElement.id || 'table'"))
            assert reached == ["slice", "filter", "table", "table"]
        # Nothing comes any more: what is shown stays.
        page.locator("#filter").fill("device undecodable")
        assert visible(page, "predictions") == []
        page.locator("#filter").fill("UNDECODABLE")
        assert visible(page, "bad")
        assert all("undecodable" in row for row in visible(page, "bad"))
        assert re.fullmatch(r"\d+ of \d+ rows", page.locator("#matches").inner_text())
        page.locator("#filter").fill("")
        assert len(visible(page, "predictions")) > 1
        page.locator("#slice").select_option("phone")
        assert visible(page, "predictions")
        assert all("slice phone" in row for row in visible(page, "predictions"))
        page.wait_for_selector("#charts .u-legend:has-text('phone')")
        page.locator("#slice").select_option("")
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 400, "height": 800})
        page.wait_for_function("() => document.documentElement.scrollWidth <= 400")


def test_a_label_that_comes_late_comes_to_its_row(page: Any, tmp_path: Path) -> None:
    events = tmp_path / "events.ndjson"
    labels = tmp_path / "labels.ndjson"
    made = [json.loads(line) for line in lines(1000) if line.endswith(b"}\n")]
    made = [{**event, "id": n} for n, event in enumerate(made)]
    known = [{"id": event["id"], "clicked": event.pop("clicked")} for event in made]

    def append(path: Path, rows: list[dict[str, Any]]) -> None:
        with path.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))

    append(events, made[:500])
    append(labels, known[:500])
    late = ("--labels", "file:labels.ndjson?follow=true", "--key", "id")
    with job(tmp_path, *late, source="file:events.ndjson?follow=true") as (_, address):
        page.goto(address)
        page.wait_for_function(
            "() => document.querySelector('#figures small')?.innerText.match(/^4\\d\\d learned/)"
        )
        row = page.locator("#predictions tbody tr:has(td:nth-child(3):text-is('–'))").first
        for n in range(500, len(made), 10):
            append(events, made[n : n + 10])
            page.wait_for_timeout(200)  # so that several are explained
            if row.count():
                break
        row.wait_for()
        place = row.locator("td").first.inner_text().splitlines()[0]
        append(labels, known[500:])
        same = page.locator(f"#predictions tbody tr:has(td:first-child:has-text('{place}'))")
        same.locator("td:nth-child(3) small").wait_for()
        assert same.count() == 1


def test_the_page_of_a_server(page: Any, tmp_path: Path) -> None:
    """Where nothing is served the page is reconnected to the next one; requests are on no row."""
    with job(tmp_path, "--max-events", "1500") as (process, _), feeding(process, lines()):
        assert process.wait(120) == 0
    with serving(tmp_path) as (process, address):
        page.goto(address)
        page.wait_for_selector("#state.live")
        for body in ({"age": 30, "device": "phone"}, {"age": [[1]]}):
            page.request.post(f"{address}/predict", data=body)
        page.wait_for_selector("#charts h2:has-text('weight of each expert')")
        page.wait_for_selector("#charts h2:has-text('importance of columns')")
        page.wait_for_selector("#kinds li:has-text('wrong type: 1')")
        figures = page.locator("#figures").inner_text()
        assert all(
            name in figures for name in ("accuracy", "age of the model", "time of a request")
        )
        assert page.locator("tbody tr").count() == page.locator(".u-legend tr").count()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        page.wait_for_selector("#state.lost")
        with serving(tmp_path, "--http", f":{address.rpartition(':')[2]}"):
            page.wait_for_selector("#state.live")
