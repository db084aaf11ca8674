"""An in-memory schema registry with the REST API that serializers use.

It keeps every schema and does not check compatibility. Serializers of other projects use it too, which shows that it
behaves like a registry.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Answer = tuple[int, dict[str, Any]]


class RegistryInMemory:
    """Schemas by id and by subject, and the requests so far."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        path = path.partition("?")[0]
        for pattern, wanted, handler in self._routes():
            match = re.fullmatch(pattern, path)
            if match and method == wanted:
                with self._lock:
                    return handler(*map(unquote, match.groups()), body)
        return 404, {"error_code": 404, "message": f"no such path: {path}"}

    def _routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        return [
            (r"/schemas/ids/(\d+)", "GET", self._schema),
            (r"/subjects/([^/]+)/versions", "POST", self._register),
            (r"/subjects/([^/]+)", "POST", self._find),
            (r"/subjects/([^/]+)/versions/(\w+)", "GET", self._version),
        ]

    def _schema(self, schema_id: str, body: dict[str, Any]) -> Answer:
        number = int(schema_id)
        if not 0 < number <= len(self._schemas):
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, self._schemas[number - 1]

    def _register(self, subject: str, body: dict[str, Any]) -> Answer:
        schema = _kept(body)
        if schema not in self._schemas:
            self._schemas.append(schema)
        schema_id = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return 200, {"id": schema_id, "version": versions.index(schema_id) + 1, **schema}

    def _find(self, subject: str, body: dict[str, Any]) -> Answer:
        schema = _kept(body)
        versions = self._subjects.get(subject, [])
        if schema not in self._schemas or self._schemas.index(schema) + 1 not in versions:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return self._entry(subject, versions.index(self._schemas.index(schema) + 1))

    def _version(self, subject: str, version: str, body: dict[str, Any]) -> Answer:
        versions = self._subjects.get(subject, [])
        index = len(versions) - 1 if version == "latest" else int(version) - 1
        if not 0 <= index < len(versions):
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        return self._entry(subject, index)

    def _entry(self, subject: str, index: int) -> Answer:
        schema_id = self._subjects[subject][index]
        return 200, {
            "subject": subject,
            "version": index + 1,
            "id": schema_id,
            **self._schemas[schema_id - 1],
        }


def _kept(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in ("schema", "schemaType", "references") if body.get(name)}


@contextmanager
def serve_registry() -> Iterator[RegistryInMemory]:
    """A registry on a free port, for the length of a `with` block."""
    registry = RegistryInMemory()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            registry.asked.append(f"{method} {self.path}")
            registry.authorizations.append(self.headers.get("Authorization"))
            status, answer = registry.answer(method, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
