"""Options of `streamk run` that extensions add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

from streamk.cli.arguments import Parser
from streamk.extensions import all_of

Header = Mapping[str, Any]
"""That of a saved model."""


@dataclass(frozen=True)
class Making:
    """The making of the model of a job.

    Attributes
    ----------
    options : mapping
        Those that were given, by name.
    name : str
        The name of the job's own model.
    own, first : mapping, or None
        Headers of the model that the job goes on with, and of that of another job with which it may
        begin.
    described : function
        Makes a model out of its text on the command line, the option that it was given by, for
        messages, and the header of the one that it goes on from, or None.
    stack : ExitStack
        Closes what was opened for it.
    """

    options: Mapping[str, Any]
    name: str
    own: Header | None
    first: Header | None
    described: Callable[[str, str, Header | None], Any]
    stack: ExitStack

    @property
    def kept(self) -> Header | None:
        """The header of the model that there is."""
        return self.own or self.first


class Part:
    """The options of one extension; here there are none."""

    FIRST: tuple[str, ...] = ()
    """Options that a first user needs."""
    SOURCES: tuple[str, ...] = ()
    """Options that are addresses of further sources."""
    EXAMPLE = ""
    """Lines of an example in the help."""

    def add(self, parser: Parser) -> None:
        """Add its options."""

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise `UsageError` for options that make no sense together."""

    def own_header(self, kept: Header, options: Mapping[str, Any]) -> Header | None:
        """Return the header of the job's own model in that of a saved one; None if it is not so."""

    def model(self, model: Any, job: Making) -> Any:
        """Return a model with what was asked for around it. Raises `UsageError`."""
        del job
        return model

    def connect(self, job: Making, engine_options: dict[str, Any]) -> None:
        """Add to the options of `Engine` by name, before source and sinks are opened.

        "labels" is a function that opens late labels after them.
        """


@cache
def parts() -> tuple[Part, ...]:
    """Return the parts of all extensions that are there, by the names of their folders."""
    return tuple(part() for _, part in all_of("run"))
