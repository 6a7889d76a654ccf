"""The door of extensions: what folders of this package that can be deleted add to the rest.

A folder with a file ``extension.toml`` is an extension. That file names, for each point where the
rest can be extended, what the folder provides there, as ``name = "module:attribute"``:

learners    learners around others, by the types of their states
openings    how a run with such a learner goes on, in place of `streamk.learners.registry.Opening`
run         options of `streamk run`, see `streamk.cli.parts.Part`
commands    further commands, by what is called; ``about`` beside it tells what they do
alarms      what watches over a job
regions     what comes beside predictions, by the details that ask for it (`streamk.engine.Details`)
exports     forms of a compiled model, by the options of `streamk compile`
places      places of checkpoints that are not directories
river       estimators in `streamk.adapters.river`, by their names

Nothing is imported before it is asked for. Nothing else imports an extension: where its folder is
deleted, all else runs, and what needs it says which folder that is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["all_of", "find", "provided"]


@cache
def _registered() -> Mapping[str, Mapping[str, str]]:
    """Return what the folders that are there register, by point and name."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(Path(__file__).parent.glob("*/extension.toml")):
        for point, names in tomllib.loads(path.read_text(encoding="utf-8")).items():
            found.setdefault(point, {}).update(names)
    return found


def provided(point: str) -> Mapping[str, str]:
    """Return the entries of a point: ``module:attribute`` by name.

    >>> provided("nothing is registered here")
    {}
    """
    return _registered().get(point, {})


def find(point: str, name: str) -> Any:
    """Return the object that is registered at a point under a name; None if it is missing."""
    address = provided(point).get(name)
    if address is None:
        return None
    module, _, attribute = address.partition(":")
    return getattr(import_module(module), attribute)


def all_of(point: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and objects of all that is registered at a point."""
    return ((name, find(point, name)) for name in provided(point))
