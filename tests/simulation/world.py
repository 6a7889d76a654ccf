"""Simulated time, and processes of which exactly one runs at a time.

A process is a thread that holds the turn while it runs. At every call into the simulated world it
comes to a *step*: there it may die, freeze, or hand the turn to another process, as the seed says.
Nothing else decides who runs next, so a run repeats exactly.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DELICATE = ("commit", "fsync", "rename", "mkdir", "mark", "unlink", "open", "committed")
"""Steps at which state is half one thing and half another."""


@dataclass
class Faults:
    """Chances of faults at a step, and how many there may be in all.

    `rates`: for steps that are delicate; at the others they are a tenth of it.
    `budget`: faults left; afterwards there are none.
    `freeze_seconds`: order of the time that a frozen process sleeps.
    """

    rates: dict[str, float] = field(default_factory=dict)
    budget: int = 0
    freeze_seconds: float = 5.0
    ordered: set[str] = field(default_factory=set)
    """Kinds that come at the very next opportunity, once."""

    def at(self, label: str, rng: random.Random) -> str | None:
        """The fault that comes at a step: "kill", "power", "freeze" or None."""
        if self.budget <= 0:
            return None
        share = 1.0 if label.split(":")[0] in DELICATE else 0.1
        draw = rng.random()
        for kind in ("kill", "power", "freeze"):
            draw -= share * self.rates.get(kind, 0.0)
            if draw < 0.0:
                self.budget -= 1
                return kind
        return None

    def chance(self, kind: str, rng: random.Random) -> bool:
        """Whether a fault of another kind comes now."""
        if kind in self.ordered:
            self.ordered.remove(kind)
            return True
        if self.budget <= 0 or rng.random() >= self.rates.get(kind, 0.0):
            return False
        self.budget -= 1
        return True

    def end(self) -> None:
        """No more faults from here on."""
        self.budget = 0


TICK = 0.001
"""Seconds that a step takes."""

_local = threading.local()


class Death(BaseException):
    """The process is gone: nothing that it does from here on reaches the world."""


class Simulated(Exception):
    """Mixed into errors that the world raises on purpose."""


def simulated(error: BaseException | None) -> bool:
    """Whether an error is one of the world's, or follows from one."""
    while error is not None:
        if isinstance(error, Simulated):
            return True
        error = error.__cause__ or error.__context__
    return False


def current() -> Process | None:
    """The process that this thread is; None for a thread outside the simulation."""
    return getattr(_local, "process", None)


class Process:
    """One life of a program, from its start to its end or death.

    `host`: the worker whose life it is: several processes may follow each other on one.
    `result, error`: what the program returned or raised; neither if it died.
    `wake`: when it may go on.
    `at`: the step that it stands at.
    """

    def __init__(
        self, world: World, name: str, host: str, program: Callable[[Process], Any]
    ) -> None:
        self.world, self.name, self.host = world, name, host
        self.result: Any = None
        self.error: BaseException | None = None
        self.dead = self.ended = False
        self.wake = world.now
        self.at = "start"
        self.doomed = False  # dies when it wakes
        self.harmed = False  # brokers have refused it something, or not answered
        self.descriptors: dict[int, str] = {}
        self._program = program
        self._turn = threading.Lock()
        self._turn.acquire()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Let it run until it hands the turn back."""
        self._turn.release()
        self.world.turn.acquire()
        if self.ended:
            self._thread.join()

    def pause(self) -> None:
        """Hand the turn back; called by the process itself."""
        self.world.turn.release()
        self._turn.acquire()
        if self.dead or self.doomed:
            self.die()

    def die(self) -> None:
        """Raise `Death`; called by the process itself."""
        self.dead = True
        raise Death

    def _main(self) -> None:
        self._turn.acquire()
        _local.process = self
        try:
            if self.dead:
                raise Death
            self.result = self._program(self)
        except Death:
            self.dead = True
        except BaseException as error:
            self.error = error
            if self.dead:  # what came of the death on the way out is nobody's business
                self.error = None
        finally:
            self.ended = True
            self.world.turn.release()

    def __repr__(self) -> str:
        return self.name


class World:
    """Clock, random numbers, processes and what is done to them.

    `faults`: those that the processes meet.
    `trace`: called with a line for each step.
    """

    def __init__(
        self, seed: int, faults: Faults | None = None, trace: Callable[[str], None] | None = None
    ) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.now = 1000.0
        self.turn = threading.Lock()
        self.turn.acquire()
        self.processes: list[Process] = []
        self.faults = faults or Faults()
        self.happened: Counter[str] = Counter()
        """How often each kind of fault was met."""
        self.steps = 0
        self.switching = 0.3
        """Chance that a step hands the turn to another process."""
        self.after_death: Callable[[Process], None] | None = None
        self.trace = trace

    # --- called by processes ----------------------------------------------------------------

    def step(self, label: str) -> None:
        """The calling process comes to a step: it may die, freeze or wait here."""
        process = current()
        if process is None:
            return
        if process.dead:
            raise Death
        self.steps += 1
        self.now += TICK
        process.at = label
        if self.trace:
            self.trace(f"{self.now:10.3f} {process.name:6} {label}")
        fault = self.faults.at(label, self.random)
        if fault == "kill":
            self.note(process, fault, label)
            process.die()
        if fault == "power":
            self.note(process, fault, label)
            self.cut_power(process)
        if fault == "freeze":
            self.note(process, fault, label)
            process.wake = self.now + self.faults.freeze_seconds * self.random.uniform(0.2, 3.0)
            process.doomed = self.random.random() < 0.3
            process.pause()
        elif self.random.random() < self.switching:
            process.wake = self.now
            process.pause()

    def wait(self, label: str, seconds: float) -> None:
        """The calling process sleeps."""
        process = current()
        if process is None:
            return
        if process.dead:
            raise Death
        process.at = label
        process.wake = self.now + seconds
        process.pause()

    def gone(self) -> bool:
        """Whether the caller is a process that has died: the world ignores what it does."""
        process = current()
        return process is not None and process.dead

    # --- called by whoever directs ----------------------------------------------------------

    def start(self, name: str, host: str, program: Callable[[Process], Any]) -> Process:
        """Start a process; it runs when it is given the turn."""
        process = Process(self, name, host, program)
        self.processes.append(process)
        return process

    def run(self, process: Process) -> None:
        """Give a process the turn until it hands it back."""
        process.resume()
        if process.ended:
            self._bury(process)

    def next(self) -> Process | None:
        """The process whose turn it is, after letting time pass if all wait; None if none lives."""
        living = [process for process in self.processes if not process.ended]
        if not living:
            return None
        due = [process for process in living if process.wake <= self.now]
        if not due:
            self.now = min(process.wake for process in living)
            due = [process for process in living if process.wake <= self.now]
        return due[self.random.randrange(len(due))]

    def kill(self, process: Process) -> None:
        """End a process at once, wherever it stands; not to be called by itself."""
        if not process.ended:
            process.dead = True
            self.run(process)

    def cut_power(self, cause: Process) -> None:
        """All processes die, the calling one among them, and what was not synced is lost."""
        self.dark = True
        for process in self.processes:
            if not process.ended:
                process.dead = True
        cause.die()

    dark = False
    """Whether the power is gone: to be handled by whoever directs."""

    def note(self, process: Process | None, kind: str, where: str = "") -> None:
        """Count a fault, and tell of it."""
        self.happened[kind] += 1
        if self.trace:
            self.trace(f"{self.now:10.3f} {process and process.name!s:6} *** {kind} {where}")

    def _bury(self, process: Process) -> None:
        if self.trace:
            end = "died" if process.dead else f"ended {process.error or ''!r}"
            self.trace(f"{self.now:10.3f} {process.name:6} {end}")
        if self.after_death is not None:
            self.after_death(process)
