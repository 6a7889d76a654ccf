"""`streamk serve`: a real server, requests while its job learns, and mistakes that are named."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import certificates
import forked_kit
import pytest
from cli_kit import click_events, ndjson, streamk
from live_page_kit import serving

pytest.importorskip("starlette", reason="requests come by Starlette: pip install streamk[serve]")
pytest.importorskip("uvicorn", reason="the server is uvicorn: pip install streamk[serve]")

pytestmark = pytest.mark.slow

TOKEN = "sixteen letters or more"
EVENTS = click_events()
ASKED = {key: value for key, value in EVENTS[0].items() if key != "clicked"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a checkpoint `state`."""
    home = tmp_path_factory.mktemp("served")
    (home / "events.ndjson").write_bytes(ndjson(EVENTS))
    run = ("run", "file:events.ndjson", "--label", "clicked", "--checkpoint", "state", "--quiet")
    streamk(*run, cwd=home)
    return home


def ask(
    address: str, events: Any = ASKED, *, token: str = "", context: ssl.SSLContext | None = None
) -> Any:
    request = urllib.request.Request(f"{address}/predict", json.dumps(events).encode())
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        return json.load(answer)


def get(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_until_a_signal_comes(number: signal.Signals, home: Path) -> None:
    with serving(home) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert set(ask(address)) == {"prediction", "probabilities"}
        assert len(ask(address, [ASKED] * 3)) == 3
        process.send_signal(number)
        assert process.wait(30) == 0
        assert b"Traceback" not in process.stderr.read()


def test_requests_are_answered_while_the_job_learns(tmp_path: Path) -> None:
    events = click_events(3000)
    run = ("run", "stdin:", "--label", "clicked", "--checkpoint", "state", "--quiet")
    every = ("--checkpoint-every", "100")
    job = forked_kit.popen(
        [sys.executable, "-m", "streamk", *run, *every], cwd=tmp_path, stdin=subprocess.PIPE
    )
    assert job.stdin is not None
    job.stdin.write(ndjson(events[:200]))
    job.stdin.flush()
    while not list(tmp_path.glob("state/*/*/manifest.json")):
        assert job.poll() is None
    failed: list[Exception] = []
    ended = threading.Event()

    def asking(address: str) -> None:
        while not ended.is_set():
            try:
                ask(address, [ASKED] * 5)
            except Exception as error:
                failed.append(error)

    with serving(tmp_path, "--refresh", "0.1") as (process, address):
        threads = [threading.Thread(target=asking, args=(address,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        before = get(address, "/model")["events"]
        job.stdin.write(ndjson(events[200:]))
        job.stdin.close()
        assert job.wait(120) == 0
        # The last checkpoint may hold no more events than the one before it.
        found = json.loads(streamk("inspect", "state", "--json", cwd=tmp_path)[0])
        last = found["checkpoints"][-1]["epoch"]
        while get(address, "/model")["epoch"] < last:
            assert process.poll() is None
        ended.set()
        for thread in threads:
            thread.join()
        assert before < 3000
        assert not failed
        ours = get(address, "/model")
    assert (ours["epoch"], ours["events"]) == (last, 3000)


def test_a_token_and_tls(home: Path, tmp_path: Path) -> None:
    if lacking := certificates.missing():
        pytest.skip(lacking)
    certificates.make(tmp_path)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "token").chmod(0o600)
    files = ("--tls-cert", str(tmp_path / "server.pem"), "--tls-key", str(tmp_path / "server.key"))
    with serving(home, "--token-file", str(tmp_path / "token"), *files) as (_, address):
        assert address.startswith("https://")
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        assert "prediction" in ask(address, token=TOKEN, context=context)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(address, token="another one of them", context=context)
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            ask(address, token=TOKEN, context=ssl.create_default_context())


def test_a_token_of_the_environment_opens_other_addresses(home: Path) -> None:
    with serving(home, "--http", "0.0.0.0:0", STREAMK_TOKEN=TOKEN) as (_, address):
        local = address.replace("0.0.0.0", "127.0.0.1")
        assert "prediction" in ask(local, token=TOKEN)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(local)


def test_a_port_that_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _, err = streamk("serve", "state", "--http", f":{port}", cwd=home, status=1)
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "CHECKPOINT is needed"),
        (("stat",), "no directory of checkpoints stat; did you mean 'state'?"),
        (("state", "--http", "0.0.0.0:8000"), "can be reached from other machines: give a token"),
        (("state", "--http", "localhost"), "'localhost' is not an address; write HOST:PORT"),
        (("state", "--http", ":99999"), "is not an address"),
        (
            ("state", "--tls-cert", "events.ndjson"),
            "--tls-cert and --tls-key must be given together",
        ),
        (("state", "--token-file", "nowhere"), "no token file nowhere"),
        (("state", "--token-file", "short"), "the token of short must have 16"),
        (("state", "--token-file", "open"), "others can read the token file open: chmod 600 open"),
        (("state", "--refresh", "0"), "0 is too short; the minimum is 0.1"),
        (("state", "--max-events", "0"), "0 is too small; the minimum is 1"),
        (("state", "--tokn-file", "x"), "no option '--tokn-file'; did you mean '--token-file'?"),
        (
            ("state", "--tls-cert", "events.ndjson", "--tls-key", "short"),
            "events.ndjson and short are not a certificate and its key",
        ),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], says: str, home: Path) -> None:
    (home / "short").write_text("abc")
    (home / "short").chmod(0o600)
    (home / "open").write_text(TOKEN)
    (home / "open").chmod(0o644)
    _, err = streamk("serve", *arguments, cwd=home, status=2)
    assert says in err
    assert "Traceback" not in err


def test_a_package_that_is_missing_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "streamk.serving.server", raising=False)
    monkeypatch.delattr("streamk.serving.server", raising=False)
    _, err = streamk("serve", "state", cwd=home, status=2)
    assert "serving needs the package uvicorn: pip install 'streamk[serve]'" in err


def test_what_is_posted_is_learned_by_the_job(home: Path, tmp_path: Path) -> None:
    events = tmp_path / "posted.ndjson"
    with serving(home, "--learn", f"file:{events}") as (_, address):
        posted(address, EVENTS[:40])
        job = ("run", f"file:{events}?follow=true", "--label", "clicked", "--max-events", "60")
        process = forked_kit.popen(
            [sys.executable, "-m", "streamk", *job, "--quiet", "--checkpoint", "state"],
            cwd=tmp_path,
        )
        posted(address, EVENTS[40:60])
        assert process.wait(timeout=120) == 0
    shown = json.loads(streamk("inspect", "state", "--json", cwd=tmp_path)[0])
    assert shown["checkpoints"][-1]["model"]["events"] == 60


@pytest.mark.kafka
def test_what_is_posted_goes_to_a_topic(home: Path, tmp_path: Path, kafka_address: str) -> None:
    topic = f"kafka://{kafka_address}/posted"
    with serving(home, "--learn", topic) as (_, address):
        posted(address, EVENTS[:25])
    job = ("run", topic, "--label", "clicked", "--until-end", "--quiet", "--checkpoint", "state")
    streamk(*job, cwd=tmp_path)
    shown = json.loads(streamk("inspect", "state", "--json", cwd=tmp_path)[0])
    assert shown["checkpoints"][-1]["model"]["events"] == 25


def posted(address: str, events: Any) -> None:
    request = urllib.request.Request(f"{address}/learn", json.dumps(events).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 202
        assert json.load(answer) == {"taken": len(events)}
