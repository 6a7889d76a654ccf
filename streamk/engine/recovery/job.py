"""The options and the first model of a run, which a checkpoint that it goes on from must share."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from connectors.base import InGroup, Source
from streamk.engine.checkpoints.reading import Checkpoint
from streamk.errors import StateError
from streamk.learners import Scaled
from streamk.learners.registry import in_shards, initials
from streamk.packing import fingerprint
from streamk.state import State

FIRST_MODEL = "the first model"
"""The name instead of an option's where all options are the same, and the arrays are not."""
_log = logging.getLogger("streamk.engine")


def identities(source: Source, offsets: Mapping[str, int]) -> dict[str, str]:
    """Return by what each partition that was read up to these offsets is known again."""
    found = {name: source.identity(name, offset) for name, offset in offsets.items()}
    return {name: identity for name, identity in found.items() if identity is not None}


def renamed(found: Checkpoint, source: Source) -> Checkpoint:
    """Return a checkpoint with the present name of the file that has another one by now.

    Whether it is that file is told by `replaced`.
    """
    feed, known = found.body["feed"], found.body["identities"]
    places, there = feed["sequence"]["partitions"], source.partitions()
    gone, come = set(places).difference(there), set(there).difference(places)
    if isinstance(source, InGroup) or len(gone) != 1 or len(come) != 1 or not gone <= set(known):
        return found
    (before,), (now,) = gone, come
    _log.info("%s is read instead of %s", now, before)

    def with_name(items: Mapping[str, Any]) -> dict[str, Any]:
        return {now if name == before else name: item for name, item in items.items()}

    sequence = {**feed["sequence"], "partitions": with_name(places)}
    feed = {**feed, "sequence": sequence, "learned": with_name(feed["learned"])}
    return replace(found, body={**found.body, "identities": with_name(known), "feed": feed})


def replaced(found: Checkpoint, source: Source) -> dict[str, str]:
    """Return how partitions of a checkpoint are others in the source by now."""
    known = found.body["identities"]  # of all partitions: those of a group come later
    how = {name: source.recognize(name, one) for name, one in known.items()}
    return {name: what for name, what in how.items() if what is not None}


class AnotherJob(StateError):
    """A checkpoint that was made by a job with other options.

    Parameters
    ----------
    path : Path or Remote
        Of the checkpoint.
    name : str
        Of an option that differs.
    theirs, mine : object
        Its values in the checkpoint and in this run.
    """

    def __init__(self, path: Any, name: str, theirs: object, mine: object) -> None:
        self.path, self.name, self.theirs, self.mine = path, name, theirs, mine
        if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
            others = [key for key in {**theirs, **mine} if theirs.get(key) != mine.get(key)]
            theirs, mine = ({key: of.get(key) for key in others} for of in (theirs, mine))
        if name == FIRST_MODEL:
            said = (
                "began with another model of the same options, made by another version of streamk "
                "or already trained; begin with the same model, or use"
            )
        else:
            said = (
                f"was made with {name}={theirs!r}, but this run has {mine!r}; use the same "
                "options, also those of its model, or"
            )
        super().__init__(f"the checkpoint {path} {said} another checkpoint directory")

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is made again of its message alone, unless it says otherwise.
        of = self.path, self.name, self.theirs, self.mine
        return type(self), of, self.__dict__


class JobIdentity:
    """The part of a run that stays the same through restarts.

    Parameters
    ----------
    config : mapping
        Options by name, as JSON.
    initial : State or None
        The model before it has learned anything; None where no checkpoint is written or read.
    learns : bool
        Whether the run trains its model; else any model will do.
    """

    def __init__(self, config: Mapping[str, Any], initial: State | None, *, learns: bool) -> None:
        self._config, self._learns = dict(config), learns
        self.initial = self._learner = ""
        """Digests of the first model, and of the learner that is in shards, if one is."""
        if initial is not None:
            self.initial = self._learner = fingerprint(initial)
            self._config["model"] = initial.header
            if in_shards(initial.header):
                self._learner = fingerprint(initial.child("learner"))

    def to_json(self) -> dict[str, Any]:
        """Return the entries of a checkpoint's manifest."""
        return {"config": self._config, "initial": self.initial, "learner": self._learner}

    def check(self, found: Checkpoint, but: Collection[str] = ()) -> None:
        """Raise `StateError` unless a checkpoint is of this stream and this model.

        Of the options of the stream those named in `but` may differ; so may the shards of the
        model, if "shards" is among them.
        """
        difference = self.difference(found, but)
        if difference is not None:
            raise AnotherJob(found.path, *difference)

    def difference(
        self, found: Checkpoint, but: Collection[str] = ()
    ) -> tuple[str, object, object] | None:
        """Return the name and both values of an option that differs; None if none does."""
        theirs = found.body["config"]
        for name, mine in self._config.items():
            if name not in ("model", *but) and mine != theirs.get(name):
                return name, theirs.get(name), mine
        begun = {found.body["initial"], *initials(found.model).values()}
        own = {self.initial}
        if "shards" in but:
            begun.add(found.body["learner"])
            own.add(self._learner)
        if begun & own or not self._learns:
            return None
        mine, other = self._config["model"], theirs["model"]
        if "shards" in but:
            mine, other = _out_of_shards(mine), _out_of_shards(other)
        if mine == other:
            return FIRST_MODEL, theirs["model"], mine
        name, other, mine = _difference(other, mine)
        parts = [part for part in name.split(".") if part not in ("parts", "learner")]
        return f"model {'.'.join(parts)}".replace("fresh-", ""), other, mine


def _out_of_shards(header: Any) -> Any:
    """Return the header of the learner in shards, or the header itself where there are none."""
    return header["parts"]["learner"] if in_shards(header) else header


def _difference(theirs: Any, mine: Any, name: str = "") -> tuple[str, Any, Any]:
    """Return the name and both values of what is most telling where two headers differ."""
    if not (isinstance(theirs, dict) and isinstance(mine, dict)):
        return name, _types(theirs), _types(mine)
    if theirs.get("type") != mine.get("type") and name != "weights":
        return f"{name}.type" if name else "type", *_model_types(theirs, mine)
    differing = [key for key in {**theirs, **mine} if theirs.get(key) != mine.get(key)]
    # Models of two types differ in much; the type says why. An option says more than a part that
    # follows from it.
    key = min(
        differing,
        key=lambda key: (key != "type", isinstance(mine.get(key, theirs.get(key)), dict), key),
    )
    return _difference(theirs.get(key), mine.get(key), f"{name}.{key}" if name else key)


def _model_types(theirs: Any, mine: Any) -> tuple[Any, Any]:
    """Return the types of two learners, of scaled ones those of the learners inside.

    If those are the same, one is scaled and the other is not: then that is the difference.
    """
    inside = _unscaled_type(theirs), _unscaled_type(mine)
    return inside if inside[0] != inside[1] else (theirs.get("type"), mine.get("type"))


def _unscaled_type(header: Any) -> Any:
    while header.get("type") == Scaled.TYPE and "learner" in header.get("parts", {}):
        header = header["parts"]["learner"]
    return header.get("type")


def _types(value: Any) -> Any:
    """Return a value, or the types of the parts of a header that the other side lacks."""
    if not isinstance(value, dict):
        return value
    parts = [part.get("type") for part in value.get("parts", {}).values()]
    return ", ".join(dict.fromkeys(filter(None, parts))) or value.get("type", value)
