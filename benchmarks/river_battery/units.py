"""Runs of rivals are kept: one file for a contestant, a stream and a delay.

It has the answer to every event, so that scores and paired comparisons are made without running
anything again. The name ends in a hash of all that the run depends on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.river_battery.loop import Outcome

_FORMAT = 1
"""Raised when the loop answers differently."""


def directory() -> Path:
    """Where runs are kept unless an option says where."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "streamk" / "battery"


def path(cache: Path, key: Mapping[str, Any]) -> Path:
    """The file of a run."""
    text = json.dumps({"format": _FORMAT, **key}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    words = (key["stream"], key["delay"], key["contestant"], digest)
    return cache / ("-".join(re.sub(r"\W+", "_", str(word)) for word in words) + ".npz")


def kept(cache: Path, key: Mapping[str, Any], limit: float) -> Outcome | None:
    """The run, unless there is none, or one that had less time than `limit` and needed more."""
    file = path(cache, key)
    if not file.is_file():
        return None
    with np.load(file) as arrays:
        about = json.loads(str(arrays["about"]))
        outcome = Outcome(arrays["guess"], arrays["p"], **about["outcome"])
    return None if outcome.ended == "too slow" and about["limit"] < limit else outcome


def keep(cache: Path, key: Mapping[str, Any], limit: float, outcome: Outcome) -> None:
    """Write the run at once, or not at all."""
    cache.mkdir(parents=True, exist_ok=True)
    file = path(cache, key)
    figures = {k: v for k, v in asdict(outcome).items() if k not in ("guess", "p")}
    about = {"key": dict(key), "limit": limit, "machine": common.machine(), "outcome": figures}
    partial = file.with_suffix(f".{os.getpid()}.partial")
    with partial.open("wb") as stream:
        np.savez_compressed(
            stream,
            guess=outcome.guess,
            p=outcome.p.astype(np.float32),
            about=np.array(json.dumps(about)),
        )
    partial.replace(file)
