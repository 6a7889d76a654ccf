"""Any data set of River as a source: `river:Phishing`, `river:synth/SEA?seed=1&limit=10000`.

The position of an event is its ordinal. Events are dicts with the target in the field "label"
(or the one that the option `label` names).
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from connectors.base import URL, Chunk, Connector, Source, SourceBase
from connectors.errors import BadRecord, BadURL, OffsetOutOfRange, Unavailable
from connectors.registry import near


class RiverSource(SourceBase):
    """The events of a River data set, or of any iterable of `(dict, target)` pairs.

    It has one partition, named like its class, and must give the same events every time. `seek`
    begins anew and passes over events, so it takes as long as reading them.
    """

    encoding = "dict"

    def __init__(self, dataset: Any, *, label: str = "label", limit: int | None = None) -> None:
        self._dataset = dataset
        self._partition = type(dataset).__name__
        self._label = label
        size = getattr(dataset, "n_samples", None)
        sizes = [n for n in (size, limit) if n is not None]
        self._end = min(sizes) if sizes else None
        self._limit = limit
        self._restart()

    def _restart(self) -> None:
        self._events: Iterator[Any] = itertools.islice(iter(self._dataset), self._limit)
        self._ordinal = 0
        self._exhausted = False

    def partitions(self) -> tuple[str, ...]:
        """The name of the data set's class."""
        return (self._partition,)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """The next events; never waits."""
        values = [self._event(x, y) for x, y in itertools.islice(self._events, max_events)]
        self._exhausted = len(values) < max_events
        if not values:
            return []
        offsets = np.arange(self._ordinal, self._ordinal + len(values), dtype=np.int64)
        self._ordinal += len(values)
        return [Chunk(self._partition, offsets, offsets, values)]

    def _event(self, x: Mapping[Any, Any], y: Any) -> dict[Any, Any]:
        if self._label in x:
            raise BadRecord(f"{self._partition} has a column {self._label!r}; choose another label")
        if isinstance(y, Mapping):
            raise BadRecord(f"{self._partition} has several targets: {', '.join(map(str, y))}")
        return {**x, self._label: y}

    def seek(self, partition: str, offset: int) -> None:
        """Go to an event. Raises `OffsetOutOfRange` past the last one."""
        if offset < self._ordinal or offset == 0:
            self._restart()
        passed = sum(1 for _ in itertools.islice(self._events, max(offset - self._ordinal, 0)))
        self._ordinal += passed
        if self._ordinal != offset:
            raise OffsetOutOfRange(
                f"{self._partition} holds {self._ordinal} events, there is no offset {offset}",
                partition=partition,
                offset=offset,
            )

    def end(self, partition: str) -> int | None:
        """The number of events, if the data set tells; None for an endless one."""
        return self._ordinal if self._exhausted else self._end

    def lag(self) -> int | None:
        """The events not polled yet, if their number is known."""
        end = self.end(self._partition)
        return None if end is None else end - self._ordinal

    def share_read(self) -> float | None:
        """Return the part of the events that was read, if their number is known."""
        end = self.end(self._partition)
        return None if end is None else self._ordinal / max(1, end)

    def finished(self) -> bool:
        """Return whether the last event was given."""
        return self._exhausted or self._ordinal == self._end


def _open(url: URL, *, label: str = "label", limit: int | None = None, **options: Any) -> Source:
    try:
        from river import datasets
        from river.datasets import base, synth
    except ImportError as error:
        raise Unavailable("river: needs River: pip install river") from error
    if limit is not None and limit < 1:
        raise BadURL(f"{url.text!r}: limit must be at least 1, not {limit}")
    known = {
        prefix + name: member
        for module, prefix in ((datasets, ""), (synth, "synth/"))
        for name in sorted(module.__all__)
        if inspect.isclass(member := getattr(module, name)) and issubclass(member, base.Dataset)
    }
    kind = known.get(url.path)
    if kind is None:
        hint, names = near(url.path, known), ", ".join(known)
        raise BadURL(f"no data set {url.path!r} in river{hint}; there are {names}")
    dataset = kind(**_arguments(url, kind, options))
    if not getattr(dataset, "is_downloaded", True):
        raise Unavailable(
            f"{url.path} is not on this machine; fetch it once with "
            f'python -c "from river import datasets; datasets.{url.path}().download()"'
        )
    return RiverSource(dataset, label=label, limit=limit)


def _arguments(url: URL, kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The data set's own arguments, text made into numbers. Raises `BadURL`."""
    known = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    arguments: dict[str, Any] = {}
    for name, value in options.items():
        if name not in known:
            names = sorted({"label", "limit", *known})
            raise BadURL(
                f"{url.text!r}: no option {name!r}{near(name, names)}; {url.path} has"
                f" {', '.join(names)}"
            )
        arguments[name] = _literal(value) if isinstance(value, str) else value
    for name, default in known.items():
        if name.startswith("seed") and arguments.get(name, default) is None:
            raise BadURL(
                f"{url.text!r}: give {name}=1 (or another number); without it, reading again "
                "after a restart would give other events"
            )
    return arguments


def _literal(text: str) -> Any:
    """A number or a boolean where the text is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


RIVER = Connector(source=_open)
