"""A client of an application in the same process, which asks as one on this machine does.

Tests that import it are skipped where a package of the extra is missing.
"""

from __future__ import annotations

from functools import partial

import pytest

REASON = "pip install 'streamk[serve]' httpx2"
for package in ("httpx2", "prometheus_client", "uvicorn"):
    pytest.importorskip(package, reason=REASON)
testclient = pytest.importorskip("starlette.testclient", reason=REASON)

Client = partial(testclient.TestClient, base_url="http://localhost:8000")
