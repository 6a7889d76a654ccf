"""The files of an address as one source: one after the other, each recognized by its content."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from contextlib import closing, suppress
from operator import itemgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import msgspec
import numpy as np

from connectors.base import Chunk, SourceBase, Trouble
from connectors.errors import BadRecord, ConnectorError, OffsetOutOfRange, Unavailable
from connectors.registry import near


class Files:
    """A file, the files that match a pattern (`*`), or those `below` a directory.

    Without a pattern of the files below it a directory is refused. `name` is that of all of them
    together, and `pattern` that of the names of many; where they `are_many` more may come later.
    """

    def __init__(self, place: Path, *, below: str = "") -> None:
        self._place, self._root, self.pattern = place, place.parent, ""
        self.name = place.name
        if below and place.is_dir():
            self._root, self.pattern = place, f"**/{below}"
            self.name = place.name or place.resolve().name
        elif "*" in str(place) and not place.exists():
            first = next(i for i, part in enumerate(place.parts) if "*" in part)
            self._root = Path(*place.parts[:first])
            self.pattern = self.name = "/".join(place.parts[first:])
        self.are_many = bool(self.pattern)

    def listed(self) -> list[str]:
        """Return the names of the existing files, in order.

        Raises `Unavailable` if it is one, and not there.
        """
        if not self.are_many:
            return [existing_file(self._place).name]
        names = sorted(path.relative_to(self._root) for path in self._root.glob(self.pattern))
        return [
            str(name)
            for name in names
            if not any(part.startswith(".") for part in name.parts) and self.path(name).is_file()
        ]

    def path(self, name: str | Path) -> Path:
        """Return where a file is, or was."""
        return self._root / name


def existing_file(path: Path) -> Path:
    """Return `path` if it is a file; else raise `Unavailable` with the nearest name."""
    if path.is_file():
        return path
    if path.is_dir():
        raise Unavailable(f"{path} is a directory, not a file; {path}/* are the files in it")
    names = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    raise Unavailable(f"no file {path}{near(path.name, names)}")


_FOLLOW_INTERVAL_S = 0.05
_LOOK_INTERVAL_S = 1.0


class Known(NamedTuple):
    """A fingerprint of a file up to a byte: digests of its first bytes and the last before that."""

    at: int
    first: str
    last: str


class FileReader:
    """Reads the records of one file. Positions count them from 0.

    The methods here are those of a file with no record left, such as one that was read to its end
    and then removed. `ordinal` is the position of the next record.
    """

    provisional: int | None = None
    """The position of a last record that may yet become longer."""
    unfinished: str | None = None
    """A sentence about the end of the file where that is not a whole record."""

    def __init__(self, path: Path, ordinal: int = 0) -> None:
        self.path, self.ordinal = path, ordinal

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return 0

    @property
    def bytes_read(self) -> int:
        """Bytes that were read, about."""
        return 0

    def fill(self) -> bool:
        """Have at least one record ready; False if there is none (yet)."""
        return False

    def take(self, most: int) -> list[Any]:
        """Return at most so many of the records that are ready."""
        return []

    def seek(self, ordinal: int) -> bool:
        """Go to a record. Returns False if the file has fewer (yet), and then stands at its end."""
        return ordinal == self.ordinal

    def end(self, *, final: bool) -> bool:
        """Take a last line without a newline as a record. Returns True if there is one.

        `final` says that nothing more will be written.
        """
        return False

    def known(self, ordinal: int) -> Known:
        """Return the fingerprint of the file up to a record that was given before."""
        raise Unavailable(f"{self.path} is gone")

    def difference(self, ordinal: int, known: Known) -> str | None:
        """Return how the file up to a record differs from its fingerprint; None if it does not.

        If it does not, that record is the next one.
        """
        return None

    def replaced(self) -> str | None:
        """Return what happened to the file of this name while it was read; None if it is there."""
        return None

    def close(self) -> None:
        """Close the file."""


class _Identity(msgspec.Struct, forbid_unknown_fields=True):
    """A position in the files of a source, and their fingerprints."""

    file: str
    """The one that is read on."""
    base: int
    """The position of its first record."""
    offset: int
    """The one that is next."""
    known: Known | None
    """None if the file was gone before it was taken."""
    ended: bool
    """True if it was read to its end."""
    done: dict[str, int]
    """Those before it, with their bytes."""


class FilesSource(SourceBase, ABC):
    """The records of a file, or of many in the order of their names; one partition.

    The position of an event counts the records of all files from the first on. A file that is read
    to its end may be removed; a later one must have a later name. Raises `Unavailable` if there is
    no such file.

    With `follow` it waits for more at the end instead of finishing, as `tail -f` does, and for
    later files where there may be many. A file that is replaced, becomes shorter or is written anew
    raises `OffsetOutOfRange` once everything in the old one was read; `seek(partition, 0)` then
    begins with the new one.
    """

    def __init__(self, files: Files, *, follow: bool) -> None:
        self._files, self._follow = files, follow
        self._reader: FileReader | None = None
        self._begin_anew()

    @abstractmethod
    def _opened(self, path: Path) -> FileReader:
        """Return a reader of a file, at its beginning."""

    # --- files ----------------------------------------------------------------------------------

    def _begin_anew(self) -> None:
        """Begin with the first file that there is now."""
        self._done: dict[str, int] = {}
        """Bytes of the files that were read to their end."""
        self._begun: list[tuple[int, str]] = []
        """The position of the first record of each file that was begun, and its name."""
        self._look()
        if not self._listed:
            raise Unavailable(f"no file matches {self._files.path(self._files.pattern)}")
        self._begin(self._listed[0], 0)

    def _begin(self, name: str, base: int) -> None:
        """Open a file whose first record has this position."""
        self._use(self._opened(self._files.path(name)), name, base)

    def _use(self, reader: FileReader, name: str, base: int) -> None:
        self.close()
        self._reader = reader
        self._begun.append((base, name))

    def _look(self) -> None:
        self._looked = time.monotonic()
        self._listed = self._files.listed()
        self._order = [PurePath(name).parts for name in self._listed]
        self._done = {name: size for name, size in self._done.items() if name in self._listed}
        self._unread = self._not_read() if self._begun else []

    def _not_read(self) -> list[str]:
        """Return a sentence for each earlier file that is not read, or not to its end."""
        present, told = self._begun[-1][1], []
        for name in self._listed[: bisect_left(self._order, PurePath(present).parts)]:
            path = self._files.path(name)
            if name not in self._done:
                told.append(
                    f"{path} is not read: it came after {present} was begun, which has a later "
                    "name. Give it a later name"
                )
                continue
            with suppress(FileNotFoundError):
                more = path.stat().st_size - self._done[name]
                if more > 0:
                    told.append(
                        f"{path} has {more} bytes more than when it was read: they are not read"
                    )
        return told

    def _later(self) -> str | None:
        """Return the name of the file after the present one; None if there is none (yet)."""
        may_come = self._follow and self._files.are_many
        if may_come and time.monotonic() - self._looked >= _LOOK_INTERVAL_S:
            self._look()
        place = bisect_right(self._order, PurePath(self._begun[-1][1]).parts)
        return self._listed[place] if place < len(self._listed) else None

    # --- reading --------------------------------------------------------------------------------

    @property
    def _now(self) -> FileReader:
        if self._reader is None:
            raise ConnectorError(f"{self._files.name}: the source is closed")
        return self._reader

    @property
    def _position(self) -> int:
        return self._begun[-1][0] + self._now.ordinal

    def _filled(self) -> FileReader | None:
        """Return the reader with at least one record ready; None if there is none (yet)."""
        while not (reader := self._reader or self._now).fill():
            if not self._go_on():
                return None
        return reader

    def _go_on(self) -> bool:
        """Take the last line or open the next file; False if there is neither (yet)."""
        later = self._later()
        if later is None and self._follow:
            return False
        if self._now.end(final=later is not None):
            return True
        if later is None:
            return False
        self._done[self._begun[-1][1]] = self._now.size
        self._begin(later, self._position)
        return True

    def partitions(self) -> tuple[str, ...]:
        """The name of the file, or of all together."""
        return (self._files.name,)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """The next records. Raises `OffsetOutOfRange` if a followed file was replaced."""
        deadline = None
        while (reader := self._filled()) is None:
            if not self._follow:
                return []
            deadline = deadline or time.monotonic() + timeout
            if (what := self._now.replaced()) is not None:
                raise OffsetOutOfRange(
                    f"{self._now.path} {what} after {self._now.ordinal} events",
                    partition=self._files.name,
                    offset=self._position,
                )
            left = deadline - time.monotonic()
            if left <= 0:
                return []
            time.sleep(min(left, _FOLLOW_INTERVAL_S))
        first = self._begun[-1][0] + reader.ordinal
        values = reader.take(max_events)
        while len(values) < max_events and self._filled() is reader:
            values += reader.take(max_events - len(values))
        offsets = np.arange(first, first + len(values), dtype=np.int64)
        return [Chunk(self._files.name, offsets, offsets, values)]

    def seek(self, partition: str, offset: int) -> None:
        """Go to a record. Raises `OffsetOutOfRange` past the last one."""
        if offset == 0:
            self._begin_anew()
            return
        if offset < self._begun[-1][0]:
            self._go_back(partition, offset)
        while not self._now.seek(offset - self._begun[-1][0]):
            if not self._go_on():
                raise self._no_offset(partition, offset)

    def _go_back(self, partition: str, offset: int) -> None:
        """Open the file again that a record is in. Raises `OffsetOutOfRange` if none was begun."""
        place = bisect_right(self._begun, offset, key=itemgetter(0)) - 1
        if place < 0:
            raise self._no_offset(partition, offset)
        base, name = self._begun[place]
        for _, later in self._begun[place:]:
            self._done.pop(later, None)
        del self._begun[place:]
        self._begin(name, base)

    def _no_offset(self, partition: str, offset: int) -> OffsetOutOfRange:
        return OffsetOutOfRange(
            f"{self._now.path} holds {self._position} events, there is no offset {offset}",
            partition=partition,
            offset=offset,
        )

    def end(self, partition: str) -> int | None:
        """The number of records, once they were all read; None before and when followed."""
        return self._position if self.finished() else None

    def lag(self) -> int | None:
        """0 at the end; not known before."""
        return 0 if self.finished() else None

    def share_read(self) -> float | None:
        """Return the part of the files that was read, by their bytes; None when followed."""
        if self._follow:
            return None
        done = sum(self._done.values())
        total = done
        for name in self._listed[bisect_left(self._order, PurePath(self._begun[-1][1]).parts) :]:
            with suppress(FileNotFoundError):
                total += self._files.path(name).stat().st_size
        return min(1.0, (done + self._now.bytes_read) / max(1, total))

    def finished(self) -> bool:
        """Return whether the last record was given; never, when followed."""
        return not self._follow and self._filled() is None

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # --- what is read again, or not -------------------------------------------------------------

    def provisional(self, partition: str) -> int | None:
        """Return the position of a last line without a newline; None if there is none."""
        at = (self._reader or self._now).provisional
        return None if at is None else self._begun[-1][0] + at

    def unfinished(self) -> list[str]:
        """Return a sentence for each part of the files that was not read."""
        reader = self._reader  # which another thread may close
        end = None if reader is None else reader.unfinished
        return [*([] if end is None else [end]), *self._unread]

    def trouble(self) -> Trouble | None:
        """Tell of what is not read."""
        told = "; ".join(self.unfinished())
        return Trouble("unfinished", told) if told else None

    # --- knowing the files ----------------------------------------------------------------------

    def identity(self, partition: str, offset: int) -> str | None:
        """Return the position and the fingerprints of the files read up to it."""
        place = bisect_right(self._begun, offset, key=itemgetter(0)) - 1
        if place < 0:
            return None
        (base, name), ahead = self._begun[place], {name for _, name in self._begun[place:]}
        ended = offset == self._position and not self._now.fill() and not self._now.unfinished
        done = {name: size for name, size in self._done.items() if name not in ahead}
        known = self._known(place, offset - base)
        return msgspec.json.encode(_Identity(name, base, offset, known, ended, done)).decode()

    def _known(self, place: int, ordinal: int) -> Known | None:
        """Return the fingerprint of a file up to a record; None if the file is gone."""
        if place == len(self._begun) - 1:
            return self._now.known(ordinal)
        with (
            suppress(ConnectorError),
            closing(self._opened(self._files.path(self._begun[place][1]))) as reader,
        ):
            return reader.known(ordinal)
        return None

    def recognize(self, partition: str, identity: str) -> str | None:
        """Go to the position of `identity`. Return which file differs; None if none does."""
        try:
            found = msgspec.json.decode(identity, type=_Identity)
        except msgspec.MsgspecError as error:
            raise BadRecord(f"the identity of {partition} cannot be read: {error}") from None
        self._look()
        names = self._listed
        if self._files.are_many:  # by another name only where it is the same for certain
            names = [name for name in names if name not in found.done and found.known is not None]
            names = [found.file] if found.file in self._listed else names
        what = f"{found.file} is gone, and was not read to its end; put it back"
        for name in names:
            reader = self._opened(self._files.path(name))
            differs = found.known and reader.difference(found.offset - found.base, found.known)
            if not differs:
                self._adopt(reader, name, found)
                return None
            reader.close()
            if name == found.file or not self._files.are_many:
                what = (
                    f"{differs}. To read the rest of the former file give its present name, with "
                    "the same checkpoint"
                )
        if found.ended and self._files.are_many and found.file not in self._listed:
            gone = FileReader(Path(found.file), found.offset - found.base)
            self._adopt(gone, found.file, found)
            return None
        return f"is of another file: {what}"

    def _adopt(self, reader: FileReader, name: str, found: _Identity) -> None:
        """Go on with a file that was begun by another process."""
        self._begun, self._done = [], found.done
        self._use(reader, name, found.base)
        self._look()
