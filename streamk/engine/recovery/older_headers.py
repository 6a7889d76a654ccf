"""Headers of models that have not learned, as an older streamk wrote them, in the terms of today.

A job's options are in the header of its first model. A newer streamk may write more there than the
one that began the job: options that there were not, and counts of what has been learned.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from streamk.learners.registry import LEARNERS

__all__ = ["in_format_of"]


def in_format_of(older: Any, newer: Any) -> Any:
    """Return a header as it would be in the formats of another, part by part.

    What an older format lacks is what a model has that opens from it: of an option the default, and
    otherwise what follows from the options, since neither model has learned.

    Parameters
    ----------
    older, newer : JSON
        Headers of models that have not learned. Parts that are not older, or of another type, stay.

    Examples
    --------
    >>> in_format_of({"type": "a", "format": 1}, {"type": "a", "format": 2, "rests": False})
    {'type': 'a', 'format': 2, 'rests': False}
    >>> in_format_of({"type": "a", "format": 1}, {"type": "b", "format": 2})
    {'type': 'a', 'format': 1}
    """
    if not (isinstance(older, Mapping) and isinstance(newer, Mapping)):
        return older
    found = {name: in_format_of(value, newer.get(name)) for name, value in older.items()}
    if "format" in older and older.get("type") == newer.get("type"):
        before, now = older["format"], newer["format"]
        if before < now:
            missing = {name: newer[name] for name in newer if name not in older}
            found |= _before(str(older["type"]), missing) | {"format": now}
    return found


def _before(type_: str, missing: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was, of those entries of a newer header that older ones of its type lack."""
    if type_ not in LEARNERS:
        # Models around others, and their parts: all but what is not in use may be an option.
        return {name: value for name, value in missing.items() if not value}
    learner, found = LEARNERS[type_], {}
    parameters = inspect.signature(learner).parameters
    for name, value in missing.items():
        option = learner.OPTIONS.get(name)
        default = value if option is None else parameters[name].default
        found[name] = default if option is None or default is None else option.to_json(default)
    return found
