"""Compiles in a process of its own, so that learning goes on meanwhile."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import (
    ANY,
    FINITE,
    FLAGS,
    POSITIVE,
    SHARES,
    Declared,
    listed,
    number,
    reading,
    taken,
    within,
)
from streamk.errors import InvalidInput, StateError
from streamk.prediction import CompiledModel, files, load
from streamk.prediction.dc_pred import TreeOptions, fit
from streamk.prediction.targets import Targets
from streamk.state import State

__all__ = ["Background", "NotCompiled", "Order", "work"]

_log = logging.getLogger("streamk.compiling")

Numbers = NDArray[Any]

_OWNER = "a compilation that was begun"
_SILENT = 1.0
"""Seconds of waiting after which it is told."""
_ORDER, _MODEL, _SAID = "order.safetensors", "model.safetensors", "said"
# A supervisor sends SIGTERM to all processes of a job. This one ends with its owner, whose last
# state is to have the copy that is being compiled, and not that it failed.
_WORK = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " import json, pathlib, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from streamk.learners.live_compiled import background;"
    " background.work(pathlib.Path(sys.argv[2]))"
)


class NotCompiled(Exception):
    """A process has not compiled; the message says why."""


@dataclass(frozen=True)
class Order:
    """Events, and what the model predicted of them: all that a copy is compiled of.

    Attributes
    ----------
    X : float64 array of shape (n, d)
    targets : Targets
    options : TreeOptions
    """

    X: Numbers
    targets: Targets
    options: TreeOptions

    TYPE = "compilation"

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.X.nbytes + self.targets.values.nbytes

    def compiled(self) -> CompiledModel:
        """Return the compiled model, a function of the order alone."""
        return fit(self.X, self.targets, self.options)

    def state(self) -> State:
        """Return all of it."""
        targets = self.targets
        header: dict[str, Any] = {
            "type": self.TYPE,
            "classes": list(targets.classes),
            "mean": targets.mean,
            "deviation": targets.deviation,
            "options": asdict(self.options),
        }
        weights = np.ones(len(targets.classes)) if targets.weights is None else targets.weights
        return State(header, {"events": self.X, "targets": targets.values, "weights": weights})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the order whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or does not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        classes = listed(header, "classes", _OWNER)
        outputs = len(classes) if len(classes) > 2 else 1
        declared = (
            Declared("events", "float64", ("n", "d"), ANY),
            Declared("targets", "float64", ("n", outputs), SHARES if outputs > 1 else FINITE),
            Declared("weights", "float64", (len(classes),), POSITIVE),
        )
        found, sizes = taken(declared, state.arrays, {}, _OWNER)
        if sizes["n"] < 2:
            raise StateError(f"{_OWNER} has {sizes['n']} events, and at least 2 are needed")
        if len(classes) == 2:
            within(found["targets"], FLAGS, "targets", _OWNER)
        targets = Targets(
            found["targets"].copy(),
            tuple(classes),
            number(header, "mean", _OWNER),
            number(header, "deviation", _OWNER, POSITIVE),
            found["weights"].copy() if classes else None,
        )
        with reading(_OWNER):
            options = TreeOptions(**header["options"])
        return cls(found["events"].copy(), targets, options)


class Background:
    """A process that compiles, and ends with this object, or with the process that has it.

    Parameters
    ----------
    order : Order
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._here = Path(tempfile.mkdtemp(prefix="streamk-compile-"))
            self._end: Any = weakref.finalize(self, shutil.rmtree, self._here, ignore_errors=True)
            files.write(order.state(), self._here / _ORDER)
            self._process = self._started()
        except (OSError, InvalidInput) as error:
            _log.warning("no process that compiles can be started (%s)", error)
            return
        self._end.detach()
        self._end = weakref.finalize(self, _end, self._process, self._here, os.getpid())

    def _started(self) -> subprocess.Popen[bytes]:
        with (self._here / _SAID).open("wb") as said:
            # A group of its own: Ctrl-C is for the stream, which then ends in order. No session of
            # its own, in which Linux gives a niced process as much of the cores as the stream.
            return subprocess.Popen(
                [sys.executable, "-c", _WORK, json.dumps(sys.path), str(self._here)],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                process_group=0,
                # One thread: its products are small, and the other cores are for the stream.
                env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
            )

    @property
    def ended(self) -> bool:
        """True if `result` is there at once."""
        return self._process is None or self._process.poll() is not None

    def result(self) -> CompiledModel:
        """Wait for the compiled model.

        Raises
        ------
        NotCompiled
            If the process could not be started or ended without one, as by a signal.
        """
        if self._process is None:
            raise NotCompiled("the process that compiles was not started")
        code = _waited(self._process)
        try:
            if code == 0:
                return load(self._here / _MODEL)
            why = f"ended with {code} ({self._last_line()})"
        except (InvalidInput, StateError) as error:  # as after a cleaner of temporary files
            why = f"left no copy ({error})"
        finally:
            self._end()
        raise NotCompiled(f"the process that compiles {why}")

    def _last_line(self) -> str:
        """Return the last line that the process wrote, which names an error."""
        try:
            lines = (self._here / _SAID).read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "without a word"


def _waited(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process, and tell of it where that takes long; return its status.

    A job that is silent for minutes looks stuck.
    """
    try:
        return process.wait(_SILENT)
    except subprocess.TimeoutExpired:
        began = time.monotonic()
    _log.warning("waiting for the compiled copy, which is to be served from this event on")
    code = process.wait()
    _log.warning("the wait for the compiled copy is over, after %.0f s", time.monotonic() - began)
    return code


def _end(process: subprocess.Popen[bytes], here: Path, owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the process that has it
    assert process.stdin is not None
    process.kill()
    process.stdin.close()
    process.wait()
    shutil.rmtree(here, ignore_errors=True)


def work(here: Path) -> None:
    """Compile what is ordered in a directory, at a low priority: the stream goes first."""
    gone = threading.Event()
    watch = threading.Thread(target=_watch, args=[here, gone], daemon=True)
    watch.start()
    os.nice(19)
    try:
        order = Order.from_state(files.read(here / _ORDER))
        # It holds events, which an owner that is killed while the copy waits would leave behind.
        (here / _ORDER).unlink(missing_ok=True)
        order.compiled().save(here / _MODEL)
    except Exception:
        if gone.is_set():
            watch.join()  # it ends this process, once all that was left behind is removed
        raise


def _watch(here: Path, gone: threading.Event) -> None:
    """End this process when the one that started it has ended, however that was."""
    while os.read(0, 1):  # which says nothing
        pass
    gone.set()
    shutil.rmtree(here, ignore_errors=True)
    os._exit(1)
