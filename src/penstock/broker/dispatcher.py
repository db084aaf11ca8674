"""From a frame to a handler and back: header, version, decode, handle, encode.

One `Route` is built for each (API, version) at its first request and kept, so the way of a request is one
dictionary lookup, one decode, one call and one encode. The peer's mistakes end its connection (`PeerError`),
except a version of ApiVersions that is newer than ours, which is answered so that clients can step down. A
handler that fails unexpectedly is our bug: it is logged with its traceback and the peer's connection is
closed, because its answer is lost; nobody else is touched.

Requests that a peer has sent one after the other may be handled as a run, where their API allows it
(`handlers.run_handler_of`): the first one takes those along that are here already, and its answer is theirs, too.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from penstock.broker import handlers
from penstock.broker.broker import Broker
from penstock.broker.context import ANONYMOUS, CloseConnection, RequestContext
from penstock.broker.handlers.api_versions import unsupported_version_response
from penstock.net.connection import Answer, Connection, PeerError
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.headers import skip_tagged_fields
from penstock.runtime.network import Part

logger = logging.getLogger(__name__)

_HEADER = struct.Struct(">Iih")  # API key and version as one number, correlation id, length of the client id
_LENGTH_AND_ID = struct.Struct(">ii")

LARGE_REQUEST_BYTES = 64 << 10  # a smaller request cannot name more than these bytes can hold
REQUEST_ELEMENTS_MAX = 100_000  # in all arrays together; ten times the partitions that a node should have
RUN_REQUESTS_MAX = 32  # handled together; bench `commits` sends ten
RUN_BYTES_MAX = 64 << 10  # and they cost no more than one request can
CLIENT_IDS_KEPT_MAX = 4096  # names are few; a peer that invents one for each request must not fill memory
CLIENT_ID_KEPT_BYTES_MAX = 256  # and they are short


class Route:
    """Everything about one API in one version that does not change between requests."""

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

    def __init__(self, key: int, version: int) -> None:
        described = api(key)
        self.api_key = key
        self.version = version
        self.handle = handlers.handler_of(key)
        self.run_handler = handlers.run_handler_of(key)
        self.request_codec = codec(described.request_class(), version)
        self.decode = self.request_codec.decode
        self.response_class = described.response_class()
        self.encode_parts = codec(self.response_class, version).encode_parts
        self.has_tagged_header = described.request_header_version(version) >= 2
        self.response_head = b"\x00" if described.response_header_version(version) >= 1 else b""


class Dispatcher:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._routes: dict[int, Route] = {}
        self._client_ids: dict[bytes, str] = {}
        self._tasks: dict[asyncio.Task[list[Part] | None], None] = {}  # in order; a set would have none

    def serve(self, frame: memoryview, connection: Connection) -> Answer:
        try:
            key_and_version, correlation_id, client_id_bytes = _HEADER.unpack_from(frame)
        except struct.error as error:
            raise PeerError(f"a request of {len(frame)} bytes is too short for a header") from error
        route = self._routes.get(key_and_version)
        if route is None:
            route = self._make_route(key_and_version)
            if route is None:
                return self._step_down(correlation_id)
        position = 10
        client_id = None
        try:
            if client_id_bytes >= 0:
                position += client_id_bytes
                if position > len(frame):
                    raise MalformedMessage(f"the client id would end at {position}, beyond the request")
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
            raise PeerError(f"a malformed {name} request of version {route.version}: {error}") from error
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
            response = route.handle(self._broker, request, context)
        except CloseConnection as error:
            raise PeerError(str(error)) from error
        except Exception as error:
            raise self._our_bug(route, connection) from error
        # Not by `Awaitable`, whose check is slow: bench "small pipelined", "classic group".
        if type(response) is route.response_class:
            return _encode(route, correlation_id, response)
        if response is None:
            return None
        encode = partial(_encode, route, correlation_id)
        return self._finish_later(route, encode, cast("Awaitable[Any]", response), connection)

    def connection_closed(self, connection: Connection) -> None:
        """Nothing is kept for a peer outside its connection."""

    async def close(self) -> None:
        """Cancel what still waits; called when the listeners have stopped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- helpers, in the order of their use

    def _make_route(self, key_and_version: int) -> Route | None:
        """The route for a first request of its kind; None for an ApiVersions that is too new."""
        key, version = key_and_version >> 16, key_and_version & 0xFFFF
        served = handlers.versions_served(key)
        if not served:
            raise PeerError(f"API key {key} is not served")
        if version not in served:
            if key == ApiKey.API_VERSIONS:
                return None
            raise PeerError(
                f"version {version} of {api(key).name} is not served; versions {served[0]} to {served[-1]} are"
            )
        route = self._routes[key_and_version] = Route(key, version)
        return route

    def _step_down(self, correlation_id: int) -> list[Part]:
        """Answer in version 0, which every client reads, with the versions to choose from (KIP-511)."""
        return _encode(Route(ApiKey.API_VERSIONS, 0), correlation_id, unsupported_version_response())

    def _client_id(self, raw: memoryview) -> str:
        key = bytes(raw)
        client_id = self._client_ids.get(key)
        if client_id is None:
            # Nothing hangs on this name, and Kafka takes one in any encoding.
            client_id = key.decode("utf-8", "replace")
            if len(self._client_ids) < CLIENT_IDS_KEPT_MAX and len(key) <= CLIENT_ID_KEPT_BYTES_MAX:
                self._client_ids[key] = client_id
        return client_id

    def _serve_run(self, route: Route, run: list[tuple[int, Any]], context: RequestContext) -> Answer:
        """Requests with their correlation ids."""
        connection = context.connection
        assert route.run_handler is not None
        assert connection is not None
        try:
            responses = route.run_handler.handle_run(self._broker, [request for _, request in run], context)
        except Exception as error:
            raise self._our_bug(route, connection) from error
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
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

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
        except asyncio.CancelledError:
            raise
        except CloseConnection as error:
            logger.info("closing the connection of %s: %s", connection.peer, error)
            connection.close()
            return None
        except Exception:
            self._our_bug(route, connection)
            connection.close()
            return None

    def _our_bug(self, route: Route, connection: Connection) -> PeerError:
        name = api(route.api_key).name
        logger.exception("%s version %d of %s failed; this is a bug", name, route.version, connection.peer)
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
    """The requests, with their correlation ids, that can be handled with the first one, whose body begins at `position`
    of its frame. What is broken or strange is left to be served for itself."""
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
