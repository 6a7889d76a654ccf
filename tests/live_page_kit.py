"""Commands that listen, events that come to a job, and a browser that looks at its page."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from cli_kit import click_events, ndjson

Started = Iterator[tuple[forked_kit.Popen, str]]


@contextlib.contextmanager
def started(home: Path, *command: str, **environment: str) -> Started:
    """Start a command of streamk that listens; yield its process and its address."""
    where = () if "--http" in command else ("--http", ":0")
    process = forked_kit.popen(
        [sys.executable, "-m", "streamk", *command, *where],
        cwd=home,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline().decode()
        found = re.search(r"https?://\S+", line)
        assert found, line
        yield process, found[0]
    finally:
        process.kill()
        process.communicate()


def job(home: Path, *options: str, source: str = "stdin:") -> Any:
    """Start a job, which reads a pipe by default; yield its process and the address of its page."""
    command = ("run", source, "--label", "clicked", "--checkpoint", "state", "--quiet")
    return started(home, *command, *options)


def serving(home: Path, *options: str, checkpoint: str = "state", **environment: str) -> Any:
    """Serve the model of `home`; yield the process and the address."""
    return started(home, "serve", checkpoint, *options, **environment)


@contextlib.contextmanager
def feeding(process: forked_kit.Popen, lines: Sequence[bytes] | None = None) -> Iterator[None]:
    """Have events come, some every moment: those of these lines, again and again."""
    ended = threading.Event()
    lines = ndjson(click_events(3000)).splitlines(keepends=True) if lines is None else lines
    most = len(lines)

    def feed() -> None:
        n = 0
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while not ended.wait(0.05):
                process.stdin.write(b"".join(lines[n % most :][:20]))
                process.stdin.flush()
                n += 20

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def looking() -> Iterator[Any]:
    """Yield a page of a browser, in which nothing may fail; skip the test where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="browsers are driven by Playwright: pip install playwright"
    )
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
    if path is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page, wrong = found.new_page(viewport={"width": 1200, "height": 900}), list[str]()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        yield page
        found.close()
        assert not wrong
