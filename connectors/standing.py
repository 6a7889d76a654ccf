"""Outputs that stand in a sink which cannot be cut back, and which a resumed job gives again.

A job that goes on from a checkpoint repeats, in the same order, what it gave after it. A sink whose
records stay reads those that stand there, and leaves out each that comes again. Of a record that
stands there with another content (the model, or the library, is not the one of before) the one that
was written first stays, and the difference is counted. A prediction that calls itself a revision
replaces the one that stands there, so it is written, unless it says the same.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from connectors.base import Output

__all__ = ["Standing"]

_log = logging.getLogger("streamk.connectors")

Place = tuple[str, int]
"""Partition and offset of the input of an output."""


class Standing:
    """The outputs of one writer that stand in its sink after a mark.

    Parameters
    ----------
    where : str
        Name of the sink, for messages.
    held_back : int
        Outputs that the sink may have taken and not written when its process ends. Those that stand
        there are no further apart, so when more were given in a row and none stood there, none of
        the rest will come: the events of these are gone, or another process has them.

    Attributes
    ----------
    differing : int
        Outputs that stand there with another content than they would have now.

    Examples
    --------
    >>> standing = Standing("topic 'scores'", held_back=100)
    >>> standing.add("clicks:0", 7, None, {"prediction": 1})
    >>> seven = Output("clicks:0", 7, 0, None, {"prediction": 1})
    >>> [output.offset for output in standing.without([seven, seven._replace(offset=8)])]
    [8]
    """

    def __init__(self, where: str, held_back: int) -> None:
        self._where, self._held_back = where, held_back
        self._found: dict[Place, bytes] = {}
        self._by_key: defaultdict[bytes, list[Place]] = defaultdict(list)
        self._missed = 0
        self.differing = 0

    def __len__(self) -> int:
        return len(self._found)

    def add(self, partition: str, offset: int, key: bytes | None, value: Mapping[str, Any]) -> None:
        """Take note of a record that stands there; of several of one input the last counts."""
        place = partition, offset
        self._found[place] = _digest(value)
        if key is not None:
            self._by_key[key].append(place)

    def without(self, outputs: Sequence[Output]) -> Sequence[Output]:
        """Return the outputs that do not stand there, in their order."""
        return [output for output in outputs if not self._has(output)] if self._found else outputs

    def _has(self, output: Output) -> bool:
        digest = self._found.pop((output.partition, output.offset), None)
        if digest is None:
            self._missed += 1
            # A later one with its key may stand there all the same, where the topic is compacted.
            # That one is written again behind this one, so that the last of a key stays the last.
            for place in self._by_key.pop(output.key, ()) if output.key is not None else ():
                self._found.pop(place, None)
            return False
        self._missed = 0
        if digest == _digest(output.value):
            return True
        if output.value.get("revision") is True:
            return False
        self.differing += 1
        if self.differing == 1:
            _log.warning(
                "the output for %s offset %d stands in %s with another content than it would have"
                " now: the model or the library has changed; what stands there stays, and further"
                " ones are counted",
                *(output.partition, output.offset, self._where),
            )
        return True

    def is_over(self) -> bool:
        """Return whether no more of what stands there will come."""
        if self._missed > self._held_back:
            self._found.clear()
        if self._found:
            return False
        self._by_key.clear()
        if self.differing:
            _log.warning(
                "%s outputs stand in %s with another content than they would have now",
                *(f"{self.differing:,}", self._where),
            )
            self.differing = 0
        return True


def _digest(value: Mapping[str, Any]) -> bytes:
    """Return a digest of what a record says, apart from whether it is a revision.

    Of an object in any order: messages of Protobuf give the classes in one of their own.
    """
    content = {name: entry for name, entry in value.items() if name != "revision"}
    return hashlib.blake2b(
        msgspec.json.encode(content, order="deterministic"), digest_size=16
    ).digest()
