"""Places where schemas are kept under numbers: a directory, and what all places share."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from connectors.base import Trouble
from connectors.errors import BadRecord, BadURL, ConnectorError

__all__ = ["Away", "SchemaDirectory", "SchemaStore", "StoredSchema"]

_IMPORT = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"')


class Away(Exception):
    """A place of schemas does not answer at the moment."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"no schema registry answers at {address}: {reason}")
        self._address = address

    @property
    def trouble(self) -> Trouble:
        """The text for who waits."""
        return Trouble(
            "registry gone",
            f"{self}; waiting until one is back",
            f"the schema registry at {self._address} answers again",
        )


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """The text of a schema.

    Attributes
    ----------
    text : str
    references : mapping of str to str
        Schemas that it uses by their names (of Protobuf the names of files), each after those that
        it uses itself.
    """

    text: str
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaStore(Protocol):
    """A place of schemas."""

    def fetch(self, number: int) -> StoredSchema:
        """Return the schema of a number.

        Raises
        ------
        BadRecord
            If there is none.
        Away
            If the place does not answer at the moment.
        ConnectorError
            If it cannot be used at all.
        """

    def keep(self, text: str, subject: str) -> int:
        """Keep a schema of records under a subject, unless it is there; return its number.

        Raises
        ------
        Away
            If the place does not answer at the moment.
        ConnectorError
            If the schema is not taken.
        """


class SchemaDirectory:
    """Schemas in files that are named by their numbers: ``7.avsc``, ``7.proto``, ``7.json``.

    Parameters
    ----------
    path : Path
    suffix : ".avsc", ".proto" or ".json"
        That of the files. What a .proto file imports is looked for in the same directory.

    Raises
    ------
    BadURL
        If there is no such directory.
    """

    def __init__(self, path: Path, suffix: str) -> None:
        self._path, self._suffix = path.expanduser(), suffix
        if not self._path.is_dir():
            raise BadURL(
                f"schemas={path}: there is no such directory, and it is no address of a registry"
            )

    def fetch(self, number: int) -> StoredSchema:
        """Return the schema of a number. Raises `BadRecord` if there is no file of it."""
        text = self._text(f"{number}{self._suffix}")
        if text is None:
            raise BadRecord(
                f"schema {number} is unknown: there is no file {self._path / str(number)}"
                f"{self._suffix}"
            )
        references: dict[str, str] = {}
        if self._suffix == ".proto":
            self._add_imports(text, references)
        return StoredSchema(text, references)

    def keep(self, text: str, subject: str) -> int:
        """Return the number of the file with this text; the next one, which is written, if none is.

        Raises `ConnectorError` where the file cannot be written.
        """
        while True:
            numbers = sorted(
                int(path.stem) for path in self._path.glob(f"*{self._suffix}") if _is_number(path)
            )
            for number in numbers:
                if self._text(f"{number}{self._suffix}") == text:
                    return number
            number = numbers[-1] + 1 if numbers else 1
            with contextlib.suppress(FileExistsError):  # another process has just written it
                self._add(self._path / f"{number}{self._suffix}", text)
                return number

    def _add(self, path: Path, text: str) -> None:
        """Write a file whole, or not at all. Raises `FileExistsError`."""
        try:
            with tempfile.TemporaryDirectory(dir=self._path, prefix=".streamk-") as folder:
                whole = Path(folder, path.name)
                whole.write_text(text, encoding="utf-8")
                path.hardlink_to(whole)
        except FileExistsError:
            raise
        except OSError as error:
            raise ConnectorError(f"the schema {path} cannot be written: {error}") from None

    def _add_imports(self, text: str, found: dict[str, str]) -> None:
        """Add the files that a .proto file imports, as far as they are in the directory."""
        for name in _IMPORT.findall(text):
            if name in found or ".." in Path(name).parts or name.startswith("/"):
                continue
            imported = self._text(name)
            if imported is not None:
                found[name] = imported
                self._add_imports(imported, found)

    def _text(self, name: str) -> str | None:
        path = self._path / name
        try:
            return path.read_text(encoding="utf-8") if path.is_file() else None
        except (OSError, UnicodeDecodeError) as error:
            raise BadRecord(f"{path} cannot be read: {error}") from None


def _is_number(path: Path) -> bool:
    """Return whether a file is named by a number of 32 bits."""
    return path.stem.isascii() and path.stem.isdecimal() and int(path.stem) < 1 << 32
