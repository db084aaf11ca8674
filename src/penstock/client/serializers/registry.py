"""A client of schema registries with Confluent's REST API.

A schema with an id never changes, so each one is requested once in the life of a `Registry` and cached, for all
threads. A request blocks its caller, up to `timeout_s`: it happens with the first record of a schema, not with every
one.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.argument_types import argument
from penstock.client.errors import BadConfiguration, RegistryError
from penstock.config.values import Secret

if TYPE_CHECKING:
    import ssl

    from penstock.client.settings import ClientSettings

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
ANSWER_BYTES_MAX = 16 * 1024 * 1024  # a larger response is not a schema


class Reference(NamedTuple):
    """A reference to another schema, by name."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema in a registry."""

    text: str
    type: str = "AVRO"
    """AVRO, PROTOBUF or JSON."""
    references: tuple[Reference, ...] = ()


class Registered(NamedTuple):
    """A version of a schema under a subject."""

    id: int
    schema: Schema
    version: int | None = None


class Registry:
    """A schema registry. Several addresses are tried in turn; an address may have a user and password."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        user: str | None = None,
        password: str | Secret | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        url = argument(url, str | Sequence[str], "url")
        urls = url.split(",") if isinstance(url, str) else list(url)
        self._servers = [_Server.at(each.strip(), user, password) for each in urls if each.strip()]
        if not self._servers:
            raise BadConfiguration("a registry needs an address, such as http://localhost:8081")
        self._ssl_context = ssl_context
        self._timeout_s = timeout_s
        self._by_id: dict[int, Schema] = {}
        self._ids: dict[tuple[str, Schema], int] = {}
        self._versions: dict[tuple[str, Schema], int] = {}
        self._by_version: dict[tuple[str, int], Schema] = {}
        self._asking = threading.Lock()

    def schema(self, schema_id: int) -> Schema:
        """The schema with an id."""
        known = self._by_id.get(schema_id)
        if known is None:
            with self._asking:
                known = self._by_id.get(schema_id) or _schema_in(
                    self._ask("GET", f"/schemas/ids/{schema_id}")
                )
                self._by_id[schema_id] = known
        return known

    def register(self, subject: str, schema: Schema) -> int:
        """The id of a schema under a subject; registers it if needed."""
        return self._id_of(subject, schema, f"/subjects/{_quoted(subject)}/versions")

    def find(self, subject: str, schema: Schema) -> int:
        """The id of a schema that the subject must have already."""
        return self._id_of(subject, schema, f"/subjects/{_quoted(subject)}")

    def version_of(self, subject: str, schema: Schema) -> int:
        """The version of the schema under the subject."""
        version = self._versions.get((subject, schema))
        if version is None:
            with self._asking:
                answer = self._ask("POST", f"/subjects/{_quoted(subject)}", _body(schema))
                version = self._versions[subject, schema] = int(answer["version"])
        return version

    def latest(self, subject: str) -> Registered:
        """The latest schema of a subject. It may change, so it is not cached."""
        answer = self._ask("GET", f"/subjects/{_quoted(subject)}/versions/latest")
        return Registered(int(answer["id"]), _schema_in(answer), int(answer["version"]))

    def schema_at(self, reference: Reference) -> Schema:
        """The schema that a reference names."""
        place = (reference.subject, reference.version)
        known = self._by_version.get(place)
        if known is None:
            with self._asking:
                path = f"/subjects/{_quoted(reference.subject)}/versions/{reference.version}"
                known = self._by_version[place] = _schema_in(self._ask("GET", path))
        return known

    def serialized(self, schema_id: int) -> str:
        """A Protobuf schema in binary form, as base64, whatever form was registered."""
        text: str = self._ask("GET", f"/schemas/ids/{schema_id}?format=serialized")["schema"]
        return text

    def _id_of(self, subject: str, schema: Schema, path: str) -> int:
        schema_id = self._ids.get((subject, schema))
        if schema_id is None:
            with self._asking:
                schema_id = self._ids.get((subject, schema)) or int(
                    self._ask("POST", path, _body(schema))["id"]
                )
                self._ids[subject, schema] = schema_id
        return schema_id

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The response of the first server that sends one; an HTTP error is a response."""
        failures = []
        for server in self._servers:
            request = urllib.request.Request(
                server.url + path,
                method=method,
                data=None if body is None else json.dumps(body).encode(),
                headers={
                    "Accept": f"{CONTENT_TYPE}, application/json",
                    "Content-Type": CONTENT_TYPE,
                    **server.login,
                },
            )
            try:
                with urllib.request.urlopen(
                    request, timeout=self._timeout_s, context=self._ssl_context
                ) as answer:
                    return json.loads(answer.read(ANSWER_BYTES_MAX))
            except urllib.error.HTTPError as refusal:
                with refusal:
                    raise _refused(refusal, f"{method} {path}") from None
            except (OSError, ValueError) as failure:
                failures.append(f"{server.url}: {getattr(failure, 'reason', None) or failure}")
        raise RegistryError("no schema registry answers: " + "; ".join(failures))


class _Server(NamedTuple):
    url: str
    login: dict[str, str]

    @classmethod
    def at(cls, url: str, user: str | None, password: str | Secret | None) -> _Server:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadConfiguration(f"{url!r} is not the address of a registry, such as http://localhost:8081")
        user = user or urllib.parse.unquote(parts.username or "")
        secret = password.reveal() if isinstance(password, Secret) else password
        secret = secret or urllib.parse.unquote(parts.password or "")
        place = parts.netloc.rpartition("@")[2]
        login = {}
        if user:
            login["Authorization"] = "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
        return cls(f"{parts.scheme}://{place}{parts.path.rstrip('/')}", login)


def registry_of(given: Registry | str | Sequence[str]) -> Registry:
    """A registry, given as an object or by its address."""
    taken = argument(given, Registry | str | Sequence[str], "registry")
    return taken if isinstance(taken, Registry) else Registry(taken)


def json_of(schema: str | dict[str, Any]) -> Any:
    """A schema given as text or as data, as data."""
    argument(schema, str | dict | Schema | None, "schema")
    try:
        return json.loads(schema) if isinstance(schema, str) else schema
    except ValueError as error:
        raise BadConfiguration(f"the schema is not JSON: {error}") from None


def registry_by_settings(settings: ClientSettings | None) -> Registry:
    """The registry of a client's settings."""
    urls = settings.get("schema.registry.url") if settings is not None else ()
    if not urls:
        raise BadConfiguration("a schema registry is needed: set schema.registry.url to its address")
    assert settings is not None
    login: Secret | None = settings.get("basic.auth.user.info")
    user, _, password = login.reveal().partition(":") if login else ("", "", "")
    return Registry(urls, user=user or None, password=Secret(password) if password else None)


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != "AVRO":  # very old registries send no type
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [reference._asdict() for reference in schema.references]
    return body


def _schema_in(answer: Any) -> Schema:
    references = tuple(
        Reference(each["name"], each["subject"], int(each["version"]))
        for each in answer.get("references") or ()
    )
    return Schema(answer["schema"], answer.get("schemaType", "AVRO"), references)


def _refused(refusal: urllib.error.HTTPError, question: str) -> RegistryError:
    try:
        message = json.loads(refusal.read(ANSWER_BYTES_MAX))["message"]
    except (ValueError, KeyError, TypeError):
        message = refusal.reason
    return RegistryError(f"{message} (HTTP {refusal.code})", about=question, status=refusal.code)


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")
