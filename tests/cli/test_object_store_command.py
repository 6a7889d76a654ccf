"""Jobs and replicas by the command, on S3."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import forked_kit
import pytest
from cli_kit import click_events, ndjson, streamk
from live_page_kit import serving
from object_store_kit import S3, s3_server
from s3fs import S3FileSystem
from test_serve import ask, get

from streamk.cli import main

pytestmark = pytest.mark.slow

EVENTS = click_events()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture
def job(s3: S3, tmp_path: Path) -> str:
    """The address of a job that has learned."""
    address = s3.address()
    (tmp_path / "events.ndjson").write_bytes(ndjson(EVENTS))
    run = ("run", "file:events.ndjson", "--label", "clicked", "--checkpoint", address)
    streamk(*run, "--quiet", "--max-events", "400", cwd=tmp_path)
    _, err = streamk(*run, "--quiet", cwd=tmp_path)
    assert "Traceback" not in err
    return address


def test_all_that_opens_a_checkpoint_takes_an_address(job: str, tmp_path: Path) -> None:
    (found,) = json.loads(streamk("inspect", job, "--json", cwd=tmp_path)[0])["checkpoints"]
    assert (found["events"], found["sha256"]) == (600, "ok")
    assert found["path"].startswith(f"{job}/0000")
    assert found["disk_bytes"] > 1000
    assert f"{job}/0000" in streamk("inspect", found["path"], cwd=tmp_path)[0]
    to = ("--to", "file:answers.ndjson")
    out, _ = streamk("predict", job, "file:events.ndjson", *to, "--json", "--quiet", cwd=tmp_path)
    assert json.loads(out)["events"] == 600
    assert (tmp_path / "answers.ndjson").read_bytes().count(b"\n") == 600
    begin = ("--label", "clicked", "--start-from", job, "--checkpoint", "state", "--quiet")
    streamk("run", "file:events.ndjson", *begin, cwd=tmp_path)
    (begun,) = json.loads(streamk("inspect", "state", "--json", cwd=tmp_path)[0])["checkpoints"]
    assert begun["model"]["events"] == 1200
    same = ("--checkpoint", f"{job}/", "--quiet")
    _, err = streamk("predict", job, "file:events.ndjson", *same, cwd=tmp_path, status=2)
    assert "is where the model comes from; the position needs another" in err
    pytest.importorskip("matplotlib")
    streamk("plot", job, "--to", "figure.svg", cwd=tmp_path)
    assert (tmp_path / "figure.svg").stat().st_size > 1000
    to = ("--to", "model.safetensors", "--budget", "5")
    out, _ = streamk("compile", job, "file:events.ndjson", *to, cwd=tmp_path)
    assert "600 of" in out


def test_a_replica_follows_a_job_and_outlives_the_store(s3: S3, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="pip install streamk[serve]")
    events, address = click_events(1200), s3.address()
    run = ("run", "stdin:", "--label", "clicked", "--checkpoint", address, "--quiet")
    job = forked_kit.popen(
        [sys.executable, "-m", "streamk", *run, "--checkpoint-every", "200"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
    )
    assert job.stdin is not None
    job.stdin.write(ndjson(events[:400]))
    job.stdin.flush()
    while main(["inspect", address]):
        assert job.poll() is None
    options = ("--refresh", "0.1", "--max-age", "1000000")
    with serving(tmp_path, *options, checkpoint=address) as (replica, url):
        while get(url, "/model")["events"] < 400:
            assert replica.poll() is None
        with s3.away():
            while "streamk_refresh_failures_total 0.0" in text(url, "/metrics"):
                assert replica.poll() is None
            assert set(ask(url)) == {"prediction", "probabilities"}
            assert get(url, "/readyz") == {"status": "ready"}
            assert get(url, "/model")["events"] == 400
        job.stdin.write(ndjson(events[400:]))
        job.stdin.close()
        assert job.wait(120) == 0
        while (found := get(url, "/model"))["events"] < 1200:
            assert replica.poll() is None
        assert 0 <= found["age"] < 1e6
        assert "streamk_model_events 1200.0" in text(url, "/metrics")
        replica.terminate()
        assert replica.wait(30) == 0
        err = replica.stderr.read().decode()
        assert "cannot read a newer model, keeping the current one" in err
        assert "newer models can be read again" in err


def text(url: str, path: str) -> str:
    import urllib.request

    with urllib.request.urlopen(f"{url}{path}", timeout=60) as answer:
        return str(answer.read().decode())


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [("serve",), ("inspect",), ("run", "file:events.ndjson", "--label", "clicked")]
)
def test_credentials_that_are_missing(command: tuple[str, ...], s3: S3, tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(EVENTS[:10]))
    address = ["--checkpoint", s3.address()] if command[0] == "run" else [s3.address()]
    environment = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "HOME": str(tmp_path)}
    S3FileSystem.clear_instance_cache()
    try:
        _, err = streamk(*command, *address, cwd=tmp_path, status=1, environment=environment)
    finally:
        S3FileSystem.clear_instance_cache()
    assert "Unable to locate credentials; credentials come from the environment" in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(EVENTS[:10]))
    run = ("run", "file:events.ndjson", "--label", "clicked", "--checkpoint", "s3://nowhere/job")
    _, err = streamk(*run, "--quiet", cwd=tmp_path, status=1)
    assert "cannot write s3://nowhere/job: The specified bucket does not exist" in err
    _, err = streamk("inspect", "s3://nowhere/job", cwd=tmp_path, status=2)
    assert "s3://nowhere/job holds no checkpoint" in err


@pytest.mark.parametrize(("package", "store"), [("fsspec", "s3"), ("gcsfs", "gs")])
def test_a_package_that_is_missing_is_named(
    package: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core" if package == "fsspec" else package, None)
    _, err = streamk("inspect", f"{store}://a/b", cwd=tmp_path, status=2)
    assert package in err
    assert "pip install 'streamk[object-store]'" in err
