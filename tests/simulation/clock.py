"""The library's clock and identifiers, for the threads of a simulation only."""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from .world import World, current


@contextmanager
def simulated_time(world: World) -> Iterator[None]:
    """Let `time.monotonic`, `time.time`, `uuid.uuid4` and `token_hex` be functions of the seed."""
    monotonic, wall, uuid4, dumps = time.monotonic, time.time, uuid.uuid4, json.dumps

    def steady() -> float:
        return world.now if current() else monotonic()

    def dated() -> float:
        return 1.7e9 + world.now if current() else wall()

    def plain(value: Any, **options: Any) -> str:
        return dumps(value, **{**options, "indent": None})

    def no_sleep(seconds: float) -> None:
        if current() is None:
            sleep(seconds)
        else:
            world.wait("sleep", seconds)

    def identifier() -> Any:
        if current() is None:
            return uuid4()
        return uuid.UUID(int=world.random.getrandbits(128), version=4)

    def token(n: int) -> str:
        if current() is None:
            return hexadecimal(n)
        return f"{world.random.getrandbits(8 * n):0{2 * n}x}"

    sleep, hexadecimal = time.sleep, secrets.token_hex
    with (
        mock.patch("time.monotonic", steady),
        mock.patch("time.time", dated),
        mock.patch("time.sleep", no_sleep),
        mock.patch("uuid.uuid4", identifier),
        mock.patch("secrets.token_hex", token),
        # Most of the time of a run would go into writing figures, and into indenting them.
        mock.patch("streamk.engine.evaluation.metrics.MOST", 8),
        mock.patch("json.dumps", plain),
    ):
        yield
