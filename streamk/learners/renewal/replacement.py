"""A function that is made anew in the background while learning goes on with the old one."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamk.declared import count, reading
from streamk.errors import InvalidInput, StateError, StreamkError
from streamk.learners.renewal.background import REPLACEMENTS, begun
from streamk.state import State


class Learns(Protocol):
    """A function that learns events, given as arrays of one row for each."""

    @property
    def learn(self) -> Callable[..., Any]:
        """Learns from events, one after the other, in whatever batches they come."""
        ...

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        ...


F = TypeVar("F", bound=Learns)


class Replacement(Generic[F]):
    """A function that is made in the background, and learns there what comes in the meantime.

    Parameters
    ----------
    at : int
        Event after which it takes over.
    make : callable
        Returns it. It depends on nothing that changes meanwhile, and is called again in a forked
        process, which does all of the work itself.
    """

    def __init__(self, at: int, make: Callable[[], F]) -> None:
        self.at = at
        self._make, self._process = make, os.getpid()
        self._steps: list[Callable[[F], Any]] = []
        """All that has followed, for a forked process."""
        self._future = self._before = begun(REPLACEMENTS, make)
        self._events: deque[tuple[NDArray[Any], ...]] | None = None

    @classmethod
    def of(cls, data: Any, clock: int, make: Callable[[], F], owner: str) -> Replacement[F]:
        """Return what was there, or had failed, when the state of a learner was taken.

        Parameters
        ----------
        data : dict
            Of the header of the state: the event to take over at, and the failure, if any.
        clock : int
            Events by then.
        make : callable
            Returns the function out of the state; asked if it had not failed.
        owner : str
            What it is, as messages name it.

        Raises
        ------
        StateError
            If the data do not fit.
        """
        with reading(owner):
            at, failure = count(data, "at", owner), data["failure"]
        if at <= clock or not (failure is None or isinstance(failure, str)):
            raise StateError(
                f"{owner} must have an 'at' above {clock}, and a text or nothing as 'failure', "
                f"not {data!r}"
            )
        if failure is not None:
            return cls(at, lambda: _failed(failure))
        made = [make()]
        return cls(at, lambda: made.pop() if made else make())

    def saved(self, parts: dict[str, State]) -> dict[str, Any]:
        """Return the data that `of` takes; the function's state goes among the parts as "next".

        It must be there, or have failed, see `wait`.
        """
        failure = self.failure
        if failure is None:
            parts["next"] = self.result().state()
        return {"at": self.at, "failure": failure and str(failure)}

    def then(self, follow: Callable[[F], Any]) -> None:
        """Apply a change to the function, as soon as it is there."""
        self._renew()
        self._events = None
        self._steps.append(follow)
        self._follow(follow)

    def learn(self, *arrays: NDArray[Any]) -> None:
        """Have the function learn events, as its own `learn` takes them.

        Those that are waiting when it comes to them are learned together, which changes no bit and
        asks for the interpreter less often: the thread that goes on meanwhile has it most of the
        time.
        """
        self._renew()
        self._steps.append(lambda function: function.learn(*arrays))
        if self._events is None:
            self._events = deque()
        events = self._events
        events.append(arrays)

        def learn(function: F) -> None:
            waiting = [events.popleft() for _ in range(len(events))]
            if waiting:
                function.learn(*map(np.concatenate, zip(*waiting, strict=True)))

        self._follow(learn)

    def _follow(self, follow: Callable[[F], Any]) -> None:
        self._before = before = self._future

        def work() -> F:
            function = before.result()
            follow(function)
            return function

        self._future = begun(REPLACEMENTS, work)

    def _renew(self) -> None:
        """Begin all of the work anew in a forked process, in which no thread does it."""
        if os.getpid() == self._process:
            return
        steps = tuple(self._steps)

        def work() -> F:
            function = self._make()
            for step in steps:
                step(function)
            return function

        self._process, self._events = os.getpid(), None
        self._future = self._before = begun(REPLACEMENTS, work)

    @property
    def late(self) -> bool:
        """True if more is left to be done than to follow what happened last."""
        self._renew()
        return not self._before.done()

    def wait(self) -> float:
        """Wait until it is there, or has failed, and return for how many seconds."""
        self._renew()
        began = time.perf_counter()
        self._future.exception()
        return time.perf_counter() - began

    def result(self) -> F:
        """Return the function.

        Raises
        ------
        StreamkError
            If it could not be made, or a prediction overflowed.
        """
        self._renew()
        return self._future.result()

    @property
    def failure(self) -> StreamkError | None:
        """The error of the background thread; None without one."""
        self._renew()
        found = self._future.exception()
        if found is not None and not isinstance(found, StreamkError):
            raise found
        return found


def _failed(failure: str) -> NoReturn:
    """Raise what a function failed of."""
    raise InvalidInput(failure)
