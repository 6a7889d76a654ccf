"""What takes part: a maker of models with River's interface, or with that of batches."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks import common
from benchmarks.river_battery.streams import Stream

SEED = 1
BOTH = ("binary", "classes")
ALL = (*BOTH, "regression")


@cache
def _code() -> str:
    """A hash of this project's own code, which changes while its version stays."""
    digest = hashlib.sha256()
    for path in sorted((common.ROOT / "streamk").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Contestant:
    """A model, the same for every stream.

    `make` gets the stream for its task, columns and classes alone, and returns a model
    with `learn_one(x, y)` and `predict_proba_one(x)`, in regression `predict_one(x)`. With `batch`
    it is asked for so many events at once: `predict_many(events)` gives such answers, and
    `learn_many(events, labels)`. The first `alone` of these come one at a time.
    """

    name: str
    make: Callable[[Stream], Any]
    package: str
    settings: str
    """All that tells it from another contestant of that name; part of a kept run's key."""
    tasks: tuple[str, ...] = ALL
    of_numbers: str = ""
    """The settings in regression, where they are others."""
    batch: int = 0
    alone: int = 0
    most_columns: float = math.inf
    """It is not run on streams of more."""
    none: bool = False
    """A missing number is None in an event; else it is left out."""

    @property
    def version(self) -> str | None:
        """Of its package, None where that is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def takes(self, stream: Stream) -> bool:
        """Return whether the stream is of a task that it knows, and not too wide."""
        return stream.task in self.tasks and len(stream.columns) <= self.most_columns

    def key(self, stream: Stream, delay: int) -> Mapping[str, Any]:
        """What a run's outcome depends on."""
        return {
            "contestant": self.name,
            "settings": (stream.task == "regression" and self.of_numbers) or self.settings,
            "package": self.package,
            "version": _code() if self.package == "streamk" else self.version,
            "seed": SEED,
            "stream": stream.name,
            **{k: v for k, v in stream.describe().items() if k in ("events", "sha256")},
            "delay": delay,
        }
