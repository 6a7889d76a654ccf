"""Compiles in a process of its own, so that learning goes on meanwhile."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from streamk.declared import ANY, FINITE, Declared, listed, number, reading, taken
from streamk.prediction import CompiledModel, files, load
from streamk.prediction.dc_pred import TreeOptions, fit
from streamk.prediction.targets import Targets
from streamk.state import State

__all__ = ["Background", "Order"]

_log = logging.getLogger("streamk.compiling")

Numbers = NDArray[Any]

_OWNER = "a compilation that was begun"


@dataclass(frozen=True)
class Order:
    """What is compiled: events, and what the model predicted of them.

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
    FORMAT = 1

    def compiled(self) -> CompiledModel:
        """Return the compiled model, a function of the order alone."""
        return fit(self.X, self.targets, self.options)

    def state(self) -> State:
        """Return all of it."""
        targets = self.targets
        header: dict[str, Any] = {
            "type": self.TYPE,
            "format": self.FORMAT,
            "classes": list(targets.classes),
            "mean": targets.mean,
            "deviation": targets.deviation,
            "options": asdict(self.options),
        }
        return State(header, {"events": self.X, "targets": targets.values})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the order whose state this is.

        Raises
        ------
        StateError
            If the state is something else's, of a newer format, or does not fit.
        """
        header: Any = state.expect(cls.TYPE, format=cls.FORMAT).header
        declared = (
            Declared("events", "float64", ("n", "d"), ANY),
            Declared("targets", "float64", ("n", "outputs"), FINITE),
        )
        found, _ = taken(declared, state.arrays, {}, _OWNER)
        targets = Targets(
            found["targets"].copy(),
            tuple(listed(header, "classes", _OWNER)),
            number(header, "mean", _OWNER),
            number(header, "deviation", _OWNER),
        )
        with reading(_OWNER):
            options = TreeOptions(**header["options"])
        return cls(found["events"].copy(), targets, options)


class Background:
    """A process that compiles, and ends with this object.

    Parameters
    ----------
    order : Order
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._room = tempfile.TemporaryDirectory(prefix="streamk-compile-")
        here = Path(self._room.name)
        self._to, self._said = here / "model.safetensors", here / "said"
        files.write(order.state(), here / "order.safetensors")
        command = [sys.executable, "-m", __name__, str(here / "order.safetensors"), str(self._to)]
        # One thread: its products are small, and the other cores are for the stream.
        alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, **alone},
            )
        weakref.finalize(self, _end, self._process)

    def result(self) -> CompiledModel:
        """Wait for the compiled model.

        Where the process ended without one, as by a signal, it is compiled here.
        """
        code = self._process.wait()
        try:
            if code == 0:
                return load(self._to)
            said = self._said.read_text(errors="replace").strip().splitlines()
            _log.warning(
                "the process that compiles ended with %d (%s); compiling in this one",
                code,
                said[-1] if said else "without a word",
            )
            return self._order.compiled()
        finally:
            self._room.cleanup()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _main(source: str, to: str) -> None:
    os.nice(10)  # the stream goes first
    Order.from_state(files.read(Path(source))).compiled().save(to)


if __name__ == "__main__":
    _main(*sys.argv[1:])
