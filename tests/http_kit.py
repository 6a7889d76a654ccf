"""A client of an application in the same process, which asks as one on this machine does."""

from __future__ import annotations

from functools import partial

from starlette.testclient import TestClient

__all__ = ["Client"]

Client = partial(TestClient, base_url="http://localhost:8000")
