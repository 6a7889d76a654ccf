"""The live page of a job: its points, its figures, who may look, and the page in a browser."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from http_kit import Client
from live_page_kit import feeding, job

from streamk.engine.evaluation.slices import Slices
from streamk.engine.progress import Snapshot
from streamk.learners.explaining import Reason
from streamk.serving.observing import MOST_BYTES, Explanation
from streamk.serving.pages import MOST, PageHistory, _Page, live_page

TOKEN = "a token of some length"
HOSTILE = "</script>\n\ndata: {}\n\n<img src=x onerror=alert(1)>"


def snapshot(events: int, **more: Any) -> Snapshot:
    found: dict[str, Any] = {
        "events": events,
        "learned": events,
        "predicted": events,
        "bad": 1,
        "events_per_s": 100.0,
        "lag": None,
        "features": 64,
        "model_bytes": 10**6,
        "process_bytes": 10**8,
        "whole": {"accuracy": 0.75, "log_loss": 0.5},
        "window": {"accuracy": 0.875, "log_loss": 0.25},
        "baselines": {"no_change": 0.5},
        "epoch": 3,
    }
    return Snapshot(**{**found, **more})


def filled(count: int) -> PageHistory:
    history = PageHistory({"label": "clicked"})
    for n in range(1, count + 1):
        history(snapshot(10 * n))
    return history


# --- points ---------------------------------------------------------------------------------------


def test_points_come_in_order_with_their_numbers() -> None:
    history = filled(5)
    assert [number for number, _ in history.since(2)] == [3, 4, 5]
    assert history.since(5) == []
    assert history.last is not None
    assert history.last["events"] == 50


def test_many_points_are_thinned_out_where_they_are_old() -> None:
    history = filled(5 * MOST)
    kept = [number for number, _ in history.since(0)]
    assert MOST // 2 <= len(kept) <= MOST
    assert kept == sorted(set(kept))
    assert kept[-1] == 5 * MOST
    recent = kept[-MOST // 4 :]
    assert recent == list(range(recent[0], recent[-1] + 1))


def test_an_application_without_points() -> None:
    with Client(live_page(PageHistory({}))) as client:
        assert client.get("/readyz").status_code == 503
        nothing = {"about": {}, "number": 0, "points": [], "version": 0}
        rows: dict[str, list[Any]] = {"predictions": [], "bad": []}
        assert client.get("/points").json() == {**nothing, **rows}
        assert client.get("/status").json() == {"about": {}, "now": None, **rows}
        assert "streamk_job_events 0.0" in client.get("/metrics").text


def test_paths() -> None:
    with Client(live_page(filled(3))) as client:
        page = client.get("/")
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'self'" in page.headers["content-security-policy"]
        for path in re.findall(r'(?:href|src)="([^"]+)"', page.text):
            assert client.get(f"/{path}").status_code == 200, path
        assert "://" not in re.sub(r"<!doctype html>", "", page.text)
        found = client.get("/points").json()
        assert found["about"] == {"label": "clicked"}
        assert [point["events"] for point in found["points"]] == [10, 20, 30]
        assert found["number"] == 3
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").json() == {"status": "ready"}
        for path in ("/page/none.js", "/page/..%2f__init__.py", "/page/../live.py"):
            assert client.get(path).status_code == 404


def test_figures_for_prometheus() -> None:
    history = filled(3)
    with Client(live_page(history)) as client:
        text = client.get("/metrics").text
        assert "streamk_job_events 30.0" in text
        assert "streamk_job_lag NaN" in text
        assert 'streamk_job_figure{name="accuracy",of="window"} 0.875' in text
        assert "streamk_job_waits 0.0" in text
        figures = {"events": 4, "accuracy": 0.5}
        slices = {"Rome": {**figures, "window": {"events": 2, "accuracy": 1.0}}}
        history(replace(snapshot(20), slices=slices, alarms={"error": 3}))
        text = client.get("/metrics").text
        assert 'streamk_job_slice{name="accuracy",of="whole",slice="Rome"} 0.5' in text
        assert 'streamk_job_alarms{kind="error"} 3.0' in text
        assert 'streamk_job_slice{name="events",of="window",slice="Rome"} 2.0' in text
        models = {
            "first": {"window": {"accuracy": 0.875}, "whole": {"accuracy": 0.75}},
            "lean": {"window": {}, "whole": {}},
        }
        history.observer.add(Explanation([], True, {"linear": 0.25, "newton": 0.75}))
        contest = {"champion": "first", "models": models, "promotions": []}
        more = {"contest": contest, "bad_kinds": {"wrong type": 2}}
        history(snapshot(30, trouble="broker gone 12s", **more))
        text = client.get("/metrics").text
        assert "streamk_job_waits 1.0" in text
        accuracy = 'streamk_job_model_figure{model="first",name="accuracy",of="whole"} 0.75'
        assert accuracy in text
        assert 'streamk_job_champion{model="first"} 1.0' in text
        assert 'streamk_job_champion{model="lean"} 0.0' in text
        assert 'streamk_expert_weight{expert="newton"} 0.75' in text
        assert 'streamk_job_bad_kind{kind="wrong type"} 2.0' in text
        assert client.get("/status").json()["now"]["experts"]["linear"] == 0.25
        assert client.get("/readyz").json() == {"status": "broker gone 12s"}


def test_rows_come_with_the_next_point_and_once() -> None:
    """The messages of `/events`, of a server that leaves after three looks."""
    history = filled(1)
    observer = history.observer
    observer.ROW_SECONDS = 0.0  # type: ignore[misc]
    for n in range(2):
        observer.add(Explanation([Reason("a", 2.0, 1.0)], True, {}), {"prediction": n})
    looks = iter((False, False, False, True))

    def is_leaving() -> bool:
        found = next(looks)
        if not found:
            observer.refused([{"partition": "t:0", "offset": 7, "reason": HOSTILE}])
        return found

    async def messages() -> list[bytes]:
        return [message async for message in _Page(history)._sent(0, 1, is_leaving)]

    retry, point, rows = asyncio.run(messages())
    assert retry == b"retry: 1000\n\n"
    assert point.startswith(b"id: 1\ndata: {")
    name, data, end = rows.split(b"\n", 2)
    assert (name, end) == (b"event: rows", b"\n")
    found = json.loads(data.removeprefix(b"data: "))
    assert [row["prediction"] for row in found["predictions"]] == [1]
    assert [row["reason"] for row in found["bad"]] == [HOSTILE]


def test_a_point_is_bounded_in_bytes_whatever_the_names_are() -> None:
    history = PageHistory({})
    names = [chr(0) * 1000 + str(n) for n in range(1000)]
    effects = [Reason(name, name, 1 / 3) for name in names]
    history.observer.add(Explanation(effects, True, dict.fromkeys(names[:6], 1 / 3)))
    slices = Slices("c")
    slices.add({"hit": np.ones(1000), "loss": np.ones(1000), "slice": slices.codes(names)})
    figures = {"events": 1, "accuracy": 1 / 3, "log_loss": 1 / 3}
    each = {name: {**figures, "window": figures} for name, *_ in slices.whole()}
    history(snapshot(10, slices=each))
    assert len(msgspec.json.encode(history.last)) < MOST_BYTES // 2


def test_a_token_is_asked_for_once_in_a_browser() -> None:
    with Client(live_page(filled(1), token=TOKEN), follow_redirects=False) as client:
        assert client.get("/").status_code == 401
        assert client.get("/?token=wrong").status_code == 401
        given = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/points", headers=given).status_code == 200
        answer = client.get("/", params={"token": TOKEN})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/points").status_code == 200


def test_a_number_that_is_none_is_refused() -> None:
    with Client(live_page(filled(1))) as client:
        assert client.get("/events?after=x").status_code == 400
        assert client.get("/events?rows=x").status_code == 400


# --- a job ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_job_tells_of_itself_while_it_runs(tmp_path: Path) -> None:
    import httpx2

    with job(tmp_path) as (process, address), feeding(process):
        found: list[dict[str, Any]] = []
        with httpx2.stream("GET", f"{address}/events", timeout=60) as answer:
            for line in answer.iter_lines():
                if line.startswith('data: {"time":'):
                    found.append(json.loads(line.removeprefix("data: ")))
                if len(found) == 3:
                    break
        assert found[0]["events"] < found[1]["events"] < found[2]["events"]
        points = httpx2.get(f"{address}/points").json()
        assert points["about"] == {"label": "clicked", "model": "multi-kernel", "from": "stdin"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


# --- a browser ------------------------------------------------------------------------------------


def numbers(page: Any) -> list[str]:
    found: list[str] = page.locator("#figures dd").all_inner_texts()
    return found


@pytest.mark.slow
def test_the_page_in_a_browser(page: Any, tmp_path: Path) -> None:
    with job(tmp_path) as (process, address):
        with feeding(process):
            page.goto(address)
            page.wait_for_selector("#state.live")
            before = numbers(page)
            page.wait_for_function(
                "before => document.querySelector('#figures dd').innerText !== before",
                arg=before[0],
            )
            assert page.locator("#charts canvas").count() >= 4
            assert "label clicked" in page.locator("#about").inner_text()
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            first = page.locator(".range button").first
            assert first.get_attribute("aria-pressed") == "true"
            # A phone, at night: nothing is wider than the screen.
            page.emulate_media(color_scheme="dark")
            page.set_viewport_size({"width": 400, "height": 800})
            page.wait_for_function("() => document.documentElement.scrollWidth <= 400")
            back = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert back == "rgb(22, 22, 21)"
        port = address.rpartition(":")[2]
        process.kill()
        process.wait()
        page.wait_for_selector("#state.lost")
        time.sleep(0.2)
        with job(tmp_path, "--http", f":{port}") as (again, _), feeding(again):
            page.wait_for_selector("#state.live", timeout=60_000)
