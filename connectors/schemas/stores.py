"""Places where schemas are kept under numbers: a directory, or a registry over HTTP."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import msgspec

from connectors.base import Trouble
from connectors.errors import BadRecord, BadURL, ConnectorError, Unavailable

_IMPORT = re.compile(r'\bimport\s+(?:public\s+|weak\s+)?"([^"]+)"')


class Away(Exception):
    """A place of schemas does not answer at the moment."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"no schema registry answers at {address}: {reason}")
        self._address = address

    @property
    def trouble(self) -> Trouble:
        """The trouble of whoever waits for it."""
        return Trouble(
            "registry gone",
            f"{self}; waiting until one is back",
            f"the schema registry at {self._address} answers again",
        )


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """The text of a schema."""

    text: str
    references: Mapping[str, str] = field(default_factory=dict)
    """Schemas that it uses by their names (of Protobuf the names of files), each after those that
    it uses itself."""


class SchemaStore(Protocol):
    """A place of schemas: a directory, or a registry.

    Its methods raise `Away` where it does not answer at the moment, and `ConnectorError` where it
    cannot be used at all.
    """

    def fetch(self, number: int) -> StoredSchema:
        """Return the schema with a number. Raises `BadRecord` if the store has none."""

    def keep(self, text: str, subject: str) -> int:
        """Keep a schema of records under a subject, unless it is there; return its number."""


class SchemaDirectory:
    """Schemas in files that are named by their numbers: ``7.avsc``, ``7.proto``, ``7.json``.

    What a .proto file imports is looked for there, too. Raises `BadURL` if there is no directory.
    """

    def __init__(self, path: Path, suffix: str) -> None:
        self._path, self._suffix = path.expanduser(), suffix
        if not self._path.is_dir():
            raise BadURL(
                f"schemas={path}: there is no such directory, and it is not the address of a "
                "registry"
            )

    def fetch(self, number: int) -> StoredSchema:
        """Return the schema with a number. Raises `BadRecord` if its file is missing."""
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


# --- a registry -----------------------------------------------------------------------------------

# Asked by the standard library: the client of confluent-kafka needs five packages more (attrs,
# authlib, cachetools, certifi, httpx2), and asks what is asked here in three kinds of requests.


ENVIRONMENT_PREFIX = "STREAMK_SCHEMAS_"
_CREDENTIALS = ("USERNAME", "PASSWORD")

_TIMEOUT = 4.0
"""Seconds for an answer: a registry that is gone shall be told within five seconds."""
_LARGEST = 1 << 24
"""Bytes of an answer."""
_MOST_REFERENCES = 200
"""Of a schema, those of its references included."""
_UNKNOWN = (40401, 40402, 40403)
"""Error codes of the interface: no such subject, version, schema."""


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Refusal(msgspec.Struct):
    error_code: int = 0
    message: str = ""


class _Kept(msgspec.Struct):
    id: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class _Found(msgspec.Struct, rename="camel"):
    schema: str
    schema_type: str | None = None
    references: list[_Reference] | None = None


class SchemaRegistry:
    """A schema registry at an address.

    A user name and a password for HTTP's basic authentication come from the environment variables
    ``STREAMK_SCHEMAS_USERNAME`` and ``STREAMK_SCHEMAS_PASSWORD``; they are sent to this address
    alone. With https the certificate must be signed by an authority of the system, or of the file
    that ``SSL_CERT_FILE`` names. Raises `BadURL` if that is no such address, `Unavailable` if
    nothing answers there, and `ConnectorError` if the registry does not admit this user.

    Parameters
    ----------
    address : str
        ``http://HOST:PORT`` or ``https://HOST``.
    kind : "AVRO", "JSON" or "PROTOBUF"
        The type of the schemas, as the registry calls it.
    """

    def __init__(self, address: str, kind: str) -> None:
        self._address, self._kind = address.rstrip("/"), kind
        _check(self._address)
        self._login = _login()
        try:
            self._answer("/")
        except Away as away:
            raise Unavailable(
                f"{away}. Check that it runs and that host and port are right"
            ) from None

    def fetch(self, number: int) -> StoredSchema:
        """Return the schema of an id, with all that it refers to."""
        found = self._ask(f"/schemas/ids/{number}")
        if found is None:
            raise BadRecord(f"schema {number} is unknown to the registry at {self._address} (404)")
        kind = found.schema_type or "AVRO"
        if kind != self._kind:
            raise BadRecord(
                f"schema {number} is of type {kind}, not {self._kind}; choose the"
                " encoding that the topic has"
            )
        references: dict[str, str] = {}
        self._add(found, references, [_MOST_REFERENCES])
        return StoredSchema(found.schema, references)

    def keep(self, text: str, subject: str) -> int:
        """Return the id of a schema under a subject, which is registered if it is not there.

        One that is there needs no right to register. Raises `ConnectorError` where the registry
        does not take it.
        """
        path = f"/subjects/{quote(subject, safe='')}"
        question = msgspec.json.encode({"schema": text, "schemaType": self._kind})
        status, body = self._answer(path, question)
        if status == 404 and _refusal(body).error_code in _UNKNOWN:
            status, body = self._answer(f"{path}/versions", question)
        if status == 200:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return msgspec.json.decode(body, type=_Kept).id
        reason = _refusal(body).message or f"status {status}"
        if status == 409:
            raise ConnectorError(
                f"the schema of the outputs is not compatible with those of {subject!r} in the "
                f"registry at {self._address}: {reason}. Write to another topic, or change the "
                f"compatibility of the subject. The schema: {text}"
            )
        raise ConnectorError(
            f"the registry at {self._address} does not take the schema of {subject!r}: {reason}."
            f" The schema: {text}"
        )

    def _add(self, schema: _Found, found: dict[str, str], left: list[int]) -> None:
        """Add the texts of what a schema refers to, each after what it refers to itself."""
        for one in schema.references or ():
            if one.name in found:
                continue
            left[0] -= 1
            if left[0] < 0:
                raise BadRecord(f"a schema has more than {_MOST_REFERENCES} references")
            path = f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}"
            referenced = self._ask(path)
            if referenced is None:
                raise BadRecord(
                    f"version {one.version} of {one.subject!r}, to which a schema refers, is"
                    f" unknown to the registry at {self._address} (404)"
                )
            self._add(referenced, found, left)
            found[one.name] = referenced.schema

    def _ask(self, path: str) -> _Found | None:
        """Return the schema at a path, None if there is none."""
        status, body = self._answer(path)
        try:
            if status == 200:
                return msgspec.json.decode(body, type=_Found)
            if status == 404 and _refusal(body).error_code in _UNKNOWN:
                return None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        raise ConnectorError(
            f"{self._address}{path} returned no schema (status {status}); check that schemas= is "
            "the address of a schema registry"
        )

    def _answer(self, path: str, question: bytes | None = None) -> tuple[int, bytes]:
        """Return status and body of an answer; a question of JSON is posted."""
        headers = {"Accept": "application/json"}
        if question is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        request = Request(self._address + path, data=question, headers=headers)
        if self._login is not None:
            # So it is not sent on where the answer is a redirection.
            request.add_unredirected_header("Authorization", self._login)
        try:
            try:
                answer = urlopen(request, timeout=_TIMEOUT)
            except HTTPError as error:
                answer = error
            with answer:
                status, body = answer.status, answer.read(_LARGEST + 1)
        except (OSError, http.client.HTTPException) as error:
            raise Away(self._address, str(getattr(error, "reason", error))) from error
        if status >= 500 or status in (408, 429):
            raise Away(self._address, f"its status is {status}")
        if status == 401 or (status == 403 and question is None):
            raise ConnectorError(
                f"the schema registry at {self._address} refused this user (status {status}); set "
                f"{ENVIRONMENT_PREFIX}USERNAME and {ENVIRONMENT_PREFIX}PASSWORD"
            )
        if len(body) > _LARGEST:
            raise BadRecord(f"a schema of the registry has more than {_LARGEST} bytes")
        return status, body


def _refusal(body: bytes) -> _Refusal:
    """Return a registry's reason for a refusal; an empty one if the answer has none."""
    try:
        return msgspec.json.decode(body, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Refusal()


def _check(address: str) -> None:
    parts = urlsplit(address)
    if parts.username is not None or parts.password is not None:
        raise BadURL(
            "the address of schemas= holds a user name or a password, which do not belong there:"
            f" set {ENVIRONMENT_PREFIX}USERNAME and {ENVIRONMENT_PREFIX}PASSWORD in the environment"
        )
    try:
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise BadURL(f"schemas={address} is not http://HOST:PORT or https://HOST:PORT")


def _login() -> str | None:
    """Return the header of the user in the environment. Raises `BadURL` for half of one."""
    found = {name: os.environ.get(f"{ENVIRONMENT_PREFIX}{name}") for name in _CREDENTIALS}
    if not any(found.values()):
        return None
    for name, value in found.items():
        if not value:
            raise BadURL(f"{ENVIRONMENT_PREFIX}{name} is not set, but the other of the two is")
    text = "{USERNAME}:{PASSWORD}".format(**found)
    return "Basic " + base64.b64encode(text.encode()).decode()
