"""A schema registry on this machine, and records as its users write them."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

import fastavro

from connectors.errors import BadRecord
from connectors.records import framed
from connectors.schemas.avro import AvroSchema
from connectors.schemas.formats import SchemaFormat
from connectors.schemas.stores import StoredSchema


class Stored(dict[int, str]):
    """A store of schemas: their texts by their numbers."""

    def fetch(self, number: int) -> StoredSchema:
        if number not in self:
            raise BadRecord(f"schema {number} is unknown")
        return StoredSchema(self[number])


def avro_format(*schemas: Any) -> SchemaFormat:
    """Return the format of records whose schemas are numbered from 1."""
    store: Any = Stored({i: json.dumps(schema) for i, schema in enumerate(schemas, 1)})
    return SchemaFormat(store, lambda schema: AvroSchema(schema.text))


class Registry:
    """A server of the part of Confluent's interface by which schemas are read and registered.

    It may go away and come back at the same port.
    """

    def __init__(self, *, login: tuple[str, str] | None = None) -> None:
        self.login = login
        self.schemas: dict[str, dict[str, Any]] = {}
        """Answers by their paths."""
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.status: int | None = None
        """That of every answer, where it is set."""
        self.gone: set[str] = set()
        """Paths that are answered as by a server that is down behind its proxy."""
        self.location: str | None = None
        """Another server, to which every question is sent on."""
        self.subjects: dict[str, list[int]] = {}
        """Numbers of the schemas that were registered."""
        self.refusal: tuple[int, dict[str, Any]] | None = None
        """The answer to one that is to be registered, where it is set."""
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(
        self,
        number: int,
        schema: Any,
        *,
        kind: str = "AVRO",
        subject: str = "",
        references: Sequence[tuple[str, str, int]] = (),
    ) -> None:
        """Register a schema, also as version 1 of a subject."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        answer: dict[str, Any] = {"schema": text}
        if kind != "AVRO":
            answer["schemaType"] = kind
        if references:
            keys = ("name", "subject", "version")
            answer["references"] = [dict(zip(keys, one, strict=True)) for one in references]
        self.schemas[f"/schemas/ids/{number}"] = answer
        if subject:
            self.schemas[f"/subjects/{subject}/versions/1"] = {
                **answer,
                "id": number,
                "subject": subject,
                "version": 1,
            }

    def start(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def answer(
        self, path: str, headers: Mapping[str, str], schema: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Answer a question; a schema is looked for under a subject, or registered."""
        self.asked.append(path)
        self.headers.append(dict(headers))
        if self.location is not None:
            return 302, {}
        if self.login is not None:
            expected = base64.b64encode(":".join(self.login).encode()).decode()
            if headers.get("Authorization") != f"Basic {expected}":
                return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.status is not None:
            return self.status, {"error_code": self.status, "message": "as the test wants"}
        if path in self.gone:
            return 503, {}
        if schema is not None:
            return self._posted(path, schema)
        if path == "/":
            return 200, {}
        if path in self.schemas:
            return 200, self.schemas[path]
        code = 40403 if path.startswith("/schemas") else 40401
        return 404, {"error_code": code, "message": "not found"}

    def _posted(self, path: str, schema: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer as Confluent's registry does, which knows AVRO as the type of what has none."""
        subject = path.removeprefix("/subjects/").removesuffix("/versions")
        kind = schema.pop("schemaType", "AVRO")
        asked = {**schema, **({} if kind == "AVRO" else {"schemaType": kind})}
        for number in self.subjects.get(subject, ()):
            if self.schemas[f"/schemas/ids/{number}"] == asked:
                return 200, {"id": number, "subject": subject, **asked}
        if not path.endswith("/versions"):
            code = 40403 if subject in self.subjects else 40401
            return 404, {"error_code": code, "message": "not found"}
        if self.refusal is not None:
            return self.refusal
        number = 1 + sum(path.startswith("/schemas/ids/") for path in self.schemas)
        self.add(number, asked["schema"], kind=kind)
        self.subjects.setdefault(subject, []).append(number)
        return 200, {"id": number}


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(json.loads(body))

        def _answer(self, schema: dict[str, Any] | None) -> None:
            status, answer = registry.answer(unquote(self.path), self.headers, schema)
            body = json.dumps(answer).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{registry.location}{self.path}")
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def avro_body(schema: Any, event: Any) -> bytes:
    """An event in Avro's binary encoding, by another implementation."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return out.getvalue()


def avro_record(number: int, schema: Any, event: Any) -> bytes:
    return framed(number, avro_body(schema, event))


def record_schema(*fields: Any, name: str = "Event") -> dict[str, Any]:
    """A record of fields: pairs of name and type, or whole fields."""
    whole = [
        field if isinstance(field, dict) else {"name": field[0], "type": field[1]}
        for field in fields
    ]
    return {"type": "record", "name": name, "fields": whole}
