"""Dispatches requests: decode the header and the request, call the handler, encode the response.

A dispatcher serves the APIs of one table and passes one target to its handlers: the `Broker` on broker listeners, the
`ControllerServer` on controller listeners. One `Route` is built per (API, version) at its first request, so a request
takes one dictionary lookup, one decode, one call and one encode. An invalid request closes the connection
(`PeerError`). The exception is a version of ApiVersions that is too new: it gets a response, so that the client can use
an older version. If a handler raises unexpectedly, that is a bug: it is logged with its traceback, and only the
connection of that client is closed.

Consecutive requests of a client can be handled together (`HandlerTable.run_handler`), if their API supports it: the
first one takes the buffered ones after it, and its response contains theirs.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from types import CoroutineType
from typing import Any, Generic, TypeVar, cast

from penstock.broker.context import ANONYMOUS, CloseConnection, RequestContext
from penstock.broker.handler_table import HandlerTable
from penstock.broker.served_versions import unsupported_version_response
from penstock.net.connection import Connection, PeerError, Response
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.headers import skip_tagged_fields
from penstock.runtime.network import Part

logger = logging.getLogger(__name__)

_HEADER = struct.Struct(">Iih")  # API key and version as one number, correlation id, length of the client id
_LENGTH_AND_ID = struct.Struct(">ii")

LARGE_REQUEST_BYTES = 64 << 10  # a smaller request is limited by its size
REQUEST_ELEMENTS_MAX = 100_000  # in all arrays together: ten times the partitions that a node should have
RUN_REQUESTS_MAX = 32  # per run; bench `commits` sends ten
RUN_BYTES_MAX = 64 << 10  # per run, so that it costs no more than one request
CLIENT_IDS_KEPT_MAX = 4096  # a client that uses a new id in each request must not fill memory
CLIENT_ID_KEPT_BYTES_MAX = 256  # they are usually short


class Route:
    """The handler and codecs of one API version."""

    __slots__ = (
        "api_key",
        "decode",
        "encode_parts",
        "handle",
        "has_tagged_header",
        "request_codec",
        "response_class",
        "response_head",
        "run_handler",
        "version",
    )

    def __init__(self, table: HandlerTable[Any], key: int, version: int) -> None:
        described = api(key)
        self.api_key = key
        self.version = version
        self.handle = table.handler(key)
        self.run_handler = table.run_handler(key)
        self.request_codec = codec(described.request_class(), version)
        self.decode = self.request_codec.decode
        self.response_class = described.response_class()
        self.encode_parts = codec(self.response_class, version).encode_parts
        self.has_tagged_header = described.request_header_version(version) >= 2
        self.response_head = b"\x00" if described.response_header_version(version) >= 1 else b""


T = TypeVar("T")


class Dispatcher(Generic[T]):
    def __init__(self, target: T, table: HandlerTable[T]) -> None:
        self._target = target
        self._table = table
        self._routes: dict[int, Route] = {}
        self._client_ids: dict[bytes, str] = {}
        self._tasks: dict[asyncio.Task[list[Part] | None], Awaitable[Any]] = {}
        """Requests in progress, in the order in which they arrived, each with what its handler returned."""

    def serve(self, frame: memoryview, connection: Connection) -> Response:
        try:
            key_and_version, correlation_id, client_id_bytes = _HEADER.unpack_from(frame)
        except struct.error as error:
            raise PeerError(f"a request of {len(frame)} bytes is too short for a request header") from error
        route = self._routes.get(key_and_version)
        if route is None:
            route = self._make_route(key_and_version)
            if route is None:
                return self._unsupported_version(correlation_id)
        position = 10
        client_id = None
        try:
            if client_id_bytes >= 0:
                position += client_id_bytes
                if position > len(frame):
                    raise MalformedMessage(f"the client id ends at {position}, after the end of the request")
                client_id = self._client_id(frame[10:position])
            if route.has_tagged_header:
                if position < len(frame) and frame[position] == 0:
                    position += 1
                else:
                    position = skip_tagged_fields(frame, position)
            if len(frame) < LARGE_REQUEST_BYTES:
                request, _ = route.decode(frame, position)
            else:
                request, _ = route.request_codec.decode_bounded(frame, position, REQUEST_ELEMENTS_MAX)
        except MalformedMessage as error:
            name = api(route.api_key).name
            raise PeerError(f"malformed {name} request, version {route.version}: {error}") from error
        context = RequestContext(
            route.api_key,
            route.version,
            correlation_id,
            client_id,
            connection.peer_host,
            connection.listener,
            ANONYMOUS,
            connection,
        )
        if route.run_handler is not None and connection.has_next():
            following = _take_following(route, frame, position, request, connection)
            if following:
                return self._serve_run(route, [(correlation_id, request), *following], context)
        try:
            response = route.handle(self._target, request, context)
        except CloseConnection as error:
            raise PeerError(str(error)) from error
        except Exception as error:
            raise self._log_bug(route, connection) from error
        # isinstance with `Awaitable` is slow: bench "small pipelined", "classic group".
        if type(response) is route.response_class:
            return _encode(route, correlation_id, response)
        if response is None:
            return None
        encode = partial(_encode, route, correlation_id)
        return self._finish_later(route, encode, cast("Awaitable[Any]", response), connection)

    def connection_closed(self, connection: Connection) -> None:
        """Nothing to do: all state of a client is in its connection."""

    async def close(self) -> None:
        """Cancel the requests in progress. Called after the listeners have stopped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    def _make_route(self, key_and_version: int) -> Route | None:
        """Build the route of an API version; None for a version of ApiVersions that is too new."""
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        served = self._table.versions(key)
        if not served:
            raise PeerError(f"API key {key} is not supported")
        if version not in served:
            if key == ApiKey.API_VERSIONS:
                return None
            raise PeerError(
                f"version {version} of {api(key).name} is not supported; versions {served[0]} to {served[-1]} are"
            )
        route = self._routes[key_and_version] = Route(self._table, key, version)
        return route

    def _unsupported_version(self, correlation_id: int) -> list[Part]:
        """Respond in version 0, which every client supports, with the list of versions (KIP-511)."""
        route = Route(self._table, ApiKey.API_VERSIONS, 0)
        return _encode(route, correlation_id, unsupported_version_response(self._table))

    def _client_id(self, raw: memoryview) -> str:
        key = bytes(raw)
        client_id = self._client_ids.get(key)
        if client_id is None:
            # It is only informational, and Kafka accepts any bytes.
            client_id = key.decode("utf-8", "replace")
            if len(self._client_ids) < CLIENT_IDS_KEPT_MAX and len(key) <= CLIENT_ID_KEPT_BYTES_MAX:
                self._client_ids[key] = client_id
        return client_id

    def _serve_run(self, route: Route, run: list[tuple[int, Any]], context: RequestContext) -> Response:
        """Handle several requests, given with their correlation ids, as one."""
        connection = context.connection
        assert route.run_handler is not None
        assert connection is not None
        try:
            responses = route.run_handler.handle_run(self._target, [request for _, request in run], context)
        except Exception as error:
            raise self._log_bug(route, connection) from error
        encode = partial(_encode_run, route, [correlation_id for correlation_id, _ in run])
        if isinstance(responses, list):
            return encode(responses)
        return self._finish_later(route, encode, responses, connection)

    def _finish_later(
        self,
        route: Route,
        encode: Callable[[Any], list[Part]],
        response: Awaitable[Any],
        connection: Connection,
    ) -> asyncio.Future[list[Part] | None]:
        finish = self._finish(route, encode, response, connection)
        task = asyncio.get_running_loop().create_task(finish)
        self._tasks[task] = response
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[list[Part] | None]) -> None:
        response = self._tasks.pop(task)
        if task.cancelled() and type(response) is CoroutineType:
            response.close()  # a task that is cancelled before its first step has not awaited it

    async def _finish(
        self,
        route: Route,
        encode: Callable[[Any], list[Part]],
        awaitable: Awaitable[Any],
        connection: Connection,
    ) -> list[Part] | None:
        try:
            response = await awaitable
            return None if response is None else encode(response)
        except CloseConnection as error:
            logger.info("closing the connection from %s: %s", connection.peer, error)
            connection.close()
            return None
        except Exception:
            self._log_bug(route, connection)
            connection.close()
            return None

    def _log_bug(self, route: Route, connection: Connection) -> PeerError:
        name = api(route.api_key).name
        logger.exception(
            "handling %s version %d from %s failed; this is a bug", name, route.version, connection.peer
        )
        return PeerError(f"{name} failed inside the broker")


def _encode(route: Route, correlation_id: int, response: Any) -> list[Part]:
    parts: list[Part] = route.encode_parts(response, route.response_head)
    if len(parts) == 1:
        body = parts[0]
        return [_LENGTH_AND_ID.pack(len(body) + 4, correlation_id) + body]  # type: ignore[operator]
    size = 4 + sum(map(len, parts))
    return [_LENGTH_AND_ID.pack(size, correlation_id) + parts[0], *parts[1:]]  # type: ignore[operator]


def _take_following(
    route: Route, frame: memoryview, position: int, first: Any, connection: Connection
) -> list[tuple[int, Any]]:
    """Take the requests, with their correlation ids, that can be handled together with the first one, whose body starts
    at `position` of its frame. Malformed and other requests are left to be handled alone."""
    assert route.run_handler is not None
    can_follow, decode = route.run_handler.can_follow, route.decode
    following: list[tuple[int, Any]] = []
    key_and_version, rest_of_header = frame[:4], frame[8:position]  # between them is the correlation id
    size = len(frame)
    while (taken := connection.take_next()) is not None:
        size += len(taken)
        is_alike = (
            size <= RUN_BYTES_MAX
            and len(following) < RUN_REQUESTS_MAX - 1
            and taken[:4] == key_and_version
            and taken[8:position] == rest_of_header
        )
        try:
            request = decode(taken, position)[0] if is_alike else None
        except MalformedMessage:
            request = None
        if request is None or not can_follow(first, request):
            connection.give_back(taken)
            break
        following.append((_HEADER.unpack_from(taken)[1], request))
    return following


def _encode_run(route: Route, correlation_ids: list[int], responses: list[Any]) -> list[Part]:
    parts: list[Part] = []
    for correlation_id, response in zip(correlation_ids, responses, strict=True):
        parts += _encode(route, correlation_id, response)
    return parts
