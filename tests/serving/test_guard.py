"""Who may ask: every path of both applications, by a browser that has a page of another site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from http_kit import Client
from starlette.applications import Starlette
from starlette.routing import Route

import streamk
from streamk.serving.application import application
from streamk.serving.pages import PageHistory, live_page

TOKEN = "a token of some length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
COOKIE = {"Cookie": f"streamk_token={TOKEN}"}
JSON = {"Content-Type": "application/json"}
BODY = b'{"a": 1, "y": true}'
OPEN = {"/healthz", "/readyz"}
FOREIGN: list[dict[str, str]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "null"},
]
OURS: list[dict[str, str]] = [
    {},
    {"Origin": "http://localhost:8000"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8000"},
    {
        "Sec-Fetch-Site": "same-origin",
        "Origin": "https://a-proxy-that-asks-in-its-own-name.example",
    },
    {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
]


class Log:
    """What was posted."""

    def __init__(self) -> None:
        self.events: list[bytes] = []

    def append(self, events: list[bytes]) -> None:
        self.events += events

    def close(self) -> None: ...


@pytest.fixture(params=["server", "page"])
def made(request: pytest.FixtureRequest, state: Path) -> Any:
    """A function that makes an application, and what was posted to it."""
    log = Log()

    def make(token: str | None = None) -> Starlette:
        if request.param == "page":
            found = live_page(PageHistory({}), token=token)
        else:
            found = application(streamk.load(state), log=log, token=token)
        found.state.is_leaving = lambda: True  # so that answers without an end have one
        return found

    return make, log


def asked(app: Starlette) -> list[tuple[str, str]]:
    """Method and path of every request that an application answers."""
    found = []
    for route in app.routes:
        assert isinstance(route, Route), "of this kind the test does not know what to ask"
        path = route.path.replace("{name}", "page.js")
        assert "{" not in path, "give an example of this path"
        found += [(method, path) for method in sorted(route.methods or ())]
    assert len(found) > 10
    return found


def statuses(app: Starlette, headers: dict[str, str]) -> dict[tuple[str, str], int]:
    """The status of each request, but of those that are open to all."""
    found = {}
    with Client(app) as client:
        for method, path in asked(app):
            body = BODY if method == "POST" else None
            answer = client.request(method, path, headers=headers, content=body)
            if path in OPEN:
                assert answer.status_code in (200, 503)
                if method == "GET":
                    assert answer.json().keys() == {"status"}
            else:
                found[method, path] = answer.status_code
    return found


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_page_of_another_site_gets_and_teaches_nothing(
    made: Any, headers: dict[str, str], token: str | None
) -> None:
    make, log = made
    found = statuses(make(token), {**headers, **JSON, **(COOKIE if token else {})})
    if headers.get("Sec-Fetch-Mode") == "navigate":  # a link, or a form
        found = {key: status for key, status in found.items() if key[0] == "POST"}
    assert set(found.values()) <= {403}
    if token is None:  # where there is none, one is no reason to answer
        assert set(statuses(make(), {**headers, **JSON, **BEARER}).values()) <= {200, 403}
    assert log.events == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "localhost@a.b", "["]
)
def test_a_name_that_may_be_anyones_leads_to_nothing(made: Any, host: str) -> None:
    """A page of another site can have its name mean this machine, and ask in its own name."""
    make, log = made
    same = {"Host": host, "Origin": f"http://{host}", **JSON}
    assert set(statuses(make(), same).values()) == {421}
    assert log.events == []
    assert set(statuses(make(TOKEN), same | BEARER).values()) <= {200, 202, 422}


def test_a_body_says_that_it_is_json(made: Any) -> None:
    """A page may send others for another site, where a browser tells of none of it."""
    make, log = made
    kinds = (None, "text/plain", "text/plain; application/json", "multipart/form-data; boundary=x")
    for token in (None, TOKEN):
        for kind in (*kinds, "application/x-www-form-urlencoded", "application/jsonp", ""):
            headers = {**BEARER, **({} if kind is None else {"Content-Type": kind})}
            found = statuses(make(token), headers)
            assert {status for (method, _), status in found.items() if method == "POST"} <= {415}
    assert log.events == []


@pytest.mark.parametrize("headers", OURS, ids=str)
@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "192.0.2.7"])
def test_others_are_answered(made: Any, headers: dict[str, str], host: str) -> None:
    make, log = made
    origin = {"Origin": f"http://{host}"} if headers.keys() == {"Origin"} else {}
    found = statuses(make(), {**headers, **origin, "Host": host, **JSON})
    assert set(found.values()) <= {200, 202}
    assert len(log.events) == (("POST", "/learn") in found)


def test_a_link_leads_to_the_page(made: Any) -> None:
    make, _ = made
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    found = statuses(make(), {**link, **JSON})
    assert found["GET", "/"] == 200


def test_who_has_the_token_asks_from_anywhere(made: Any) -> None:
    make, _ = made
    for headers in FOREIGN:
        found = statuses(make(TOKEN), {**headers, **BEARER, **JSON})
        assert set(found.values()) <= {200, 202}
        assert set(statuses(make(TOKEN), {**headers, **JSON}).values()) <= {401, 403}


WITHOUT: list[dict[str, Any]] = [
    {},
    {"Cookie": "streamk_token=another"},
    *({"Authorization": one.encode()} for one in ("", "Bearer", "Bearer another", "Bearer é")),
    {"Authorization": f"Basic {TOKEN}"},
]


def test_nothing_is_answered_without_the_token(made: Any) -> None:
    make, log = made
    for headers in WITHOUT:
        assert set(statuses(make(TOKEN), headers | JSON).values()) == {401}
    with Client(make(TOKEN)) as client:
        assert client.get("/points").headers["www-authenticate"] == "Bearer"
    assert log.events == []
