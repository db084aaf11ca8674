"""One connection to one node: sends typed requests, returns typed responses, with many requests in flight.

The versions are negotiated first (ApiVersions), so a caller passes a request object and gets the response object of the
newest version that both sides know. It runs over the `Network` interface, so it works on sockets and in a simulation.
It never retries and never reconnects: `node_connections` does that for nodes, `client.transport` for clients.

A node responds in order, so one late response delays all after it: a request that is not answered in time closes the
connection, as in Kafka. Invariant: every future is done when the connection is closed.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, Self

from penstock import __version__
from penstock.net.buffers import BufferPool
from penstock.net.framing import EXACT_FRAME_BYTES, FrameReader, FrameTooLarge
from penstock.net.request_errors import NET_ERRORS, RequestErrors
from penstock.net.throttling import waits_for_client
from penstock.protocol.apis import Api, ApiKey, api
from penstock.protocol.codec import Codec, codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode, MalformedMessage, UnencodableValue, UnsupportedField
from penstock.protocol.headers import encode_request_header, skip_tagged_fields
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.runtime.network import Network, Part, Stream

FRAME_BYTES_MAX = 1 << 30  # our requests decide the size of a response; this only stops nonsense
# The first response is a list of versions. A peer that claims a larger one is not a broker, or speaks TLS.
FIRST_FRAME_BYTES_MAX = 1 << 24
REQUEST_TIMEOUT_S = 30.0

Connect = Callable[[Callable[[Stream], "RequestConnection"]], Awaitable[object]]
"""Makes a stream from a function that makes its handler."""

_FRAME_HEAD = struct.Struct(">ihhi")  # size, API key, version, correlation id
HEADER_REST_AT = (
    _FRAME_HEAD.size - 4
)  # the bytes after the correlation id are the same in every request of a version
_UNSUPPORTED_VERSION = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


OnAnswer = Callable[[Any, Any], None]
"""Called once, with the response or with the error; the other one is None."""

ReadAnswer = Callable[[bytes | memoryview, int], Any]
"""Decodes a response from a position on; raises MalformedMessage."""


@dataclass(slots=True)
class _Pending:
    """A request without a response so far."""

    described: Api
    version: int
    timeout_s: float
    deadline: float
    on_answer: OnAnswer
    read: ReadAnswer | None


class RequestConnection:
    """Make one with `await RequestConnection.open(...)`, then `await connection.ask(SomeRequest(...))`."""

    errors: ClassVar[RequestErrors] = NET_ERRORS
    """The exceptions that are raised. The client has its own."""

    def __init__(self, stream: Stream, client_id: str) -> None:
        self._stream = stream
        self._client_id = client_id
        self._frames = FrameReader(
            memoryview(bytearray(EXACT_FRAME_BYTES)),
            frame_bytes_max=FIRST_FRAME_BYTES_MAX,
            growth=FRAME_BYTES_MAX,
            new_buffer=BufferPool().take,
        )
        self._pending: dict[int, _Pending] = {}
        self._correlation_id = 0
        self._header_rests: dict[tuple[ApiKey, int], bytes] = {}
        """The client id and the bytes after it, by API and version."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_gone: asyncio.Future[None] = self._loop.create_future()
        self._sending: list[asyncio.Future[None]] = []
        self.is_closed = False
        self.failure: Exception | None = None
        """Why it was closed, if not by us."""
        self.on_closed: Callable[[], None] | None = None
        self.used_at = self._loop.time()
        """When something was last sent or received."""
        self.retires_at = math.inf
        """When the login of this connection expires: no new request is sent after that."""
        self._quiet: asyncio.Future[None] | None = None
        self.muted_until = 0.0
        """The broker's quota was exceeded: it asks the client to send nothing until then (KIP-219)."""
        self._has_served = False
        """Whether any request after ApiVersions was answered."""
        self.versions: dict[int, tuple[int, int]] = {}
        """First and last version that the node serves, by API key."""
        self.features: dict[str, int] = {}
        """The cluster's finalized features and their levels; empty for old brokers."""

    @classmethod
    async def open(
        cls,
        network: Network,
        host: str,
        port: int,
        *,
        client_id: str = "penstock",
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Self:
        """Connect and negotiate versions."""
        connection = await cls.over(lambda handler: network.connect(host, port, handler), client_id=client_id)
        try:
            await connection.agree_on_versions(timeout_s=timeout_s)
        except BaseException:
            connection.abort()
            raise
        return connection

    @classmethod
    async def over(cls, connect: Connect, *, client_id: str) -> Self:
        """Connect without sending anything."""
        made: list[Self] = []

        def handler(stream: Stream) -> RequestConnection:
            made.append(cls(stream, client_id))
            return made[0]

        await connect(handler)
        return made[0]

    @property
    def peer(self) -> str:
        return self._stream.peer

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._pending)

    async def ask(
        self, request: Any, *, version: int | None = None, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        """Send and wait for the response; RequestTimedOut after `timeout_s`, Disconnected if the connection closes."""
        return await self.send(request, version=version, timeout_s=timeout_s)

    def send(
        self, request: Any, *, version: int | None = None, timeout_s: float = math.inf
    ) -> asyncio.Future[Any]:
        """Send now; the future gets the response. Responses come in the order of requests."""
        if self.is_closed:
            raise self.errors.disconnected(f"the connection to {self.peer} is closed")
        described = _api_of(request)
        if version is None:
            version = self.version_for(described)
        body = self._encode(request, described, version)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self.send_encoded(described, version, body, partial(_settle, answer), timeout_s=timeout_s)
        return answer

    def send_encoded(
        self,
        described: Api,
        version: int,
        body: list[Part],
        on_answer: OnAnswer,
        *,
        read: ReadAnswer | None = None,
        timeout_s: float = math.inf,
    ) -> None:
        """Send an encoded request. `on_answer` is called in the loop iteration in which the response arrives; a future
        would take one more (bench "one record, wait for it"). It must not raise."""
        if self.is_closed:
            raise self.errors.disconnected(f"the connection to {self.peer} is closed")
        frame = self._frame(described, version, body)
        now = self.used_at = self._loop.time()
        deadline = now + timeout_s
        self._pending[self._correlation_id] = _Pending(
            described, version, timeout_s, deadline, on_answer, read
        )
        if timeout_s != math.inf:
            self._watch(deadline)
        self._stream.send(frame)

    def send_and_forget(self, request: Any, *, version: int | None = None) -> asyncio.Future[None]:
        """For produce with acks=0, which has no response. The future is done when the system has taken all bytes, so
        that a sender that waits for it does not fill memory faster than the broker reads."""
        if self.is_closed:
            raise self.errors.disconnected(f"the connection to {self.peer} is closed")
        described = _api_of(request)
        if version is None:
            version = self.version_for(described)
        body = self._encode(request, described, version)
        self.used_at = self._loop.time()
        self._stream.send(self._frame(described, version, body))
        sent: asyncio.Future[None] = self._loop.create_future()
        if self._stream.backlog_bytes():
            self._sending.append(sent)
        else:
            sent.set_result(None)
        return sent

    def version_for(self, described: Api) -> int:
        if described.key not in self.versions:
            raise self.errors.unsupported_version(f"{self.peer} does not serve {described.name}")
        first, last = self.versions[described.key]
        version = min(last, described.last_version)
        if version < max(first, described.first_version):
            raise self.errors.unsupported_version(
                f"{self.peer} serves no version of {described.name} that this client knows"
            )
        return version

    async def agree_on_versions(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        newest = api(ApiKey.API_VERSIONS).last_version
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
        response = await self.ask(request, version=newest, timeout_s=timeout_s)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            served = {entry.api_key: entry.max_version for entry in response.api_keys}
            # Before Kafka 2.4 this error came without a list.
            known = min(newest, served.get(ApiKey.API_VERSIONS, 0))
            response = await self.ask(request, version=known, timeout_s=timeout_s)
        if response.error_code != ErrorCode.NONE:
            raise self.errors.disconnected(f"{self.peer} rejected ApiVersions: {response.error_code.name}")
        self._frames.frame_bytes_max = FRAME_BYTES_MAX
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.features = {entry.name: entry.max_version_level for entry in response.finalized_features}

    async def quiet(self) -> None:
        """Return when no response is outstanding, or the connection is closed."""
        if self._pending:
            if self._quiet is None:
                self._quiet = self._loop.create_future()
            await asyncio.shield(self._quiet)

    def close(self) -> None:
        """Send queued data, then close. Requests without a response fail."""
        self._stream.close()

    def abort(self) -> None:
        """Close now and drop queued data."""
        self._stream.abort()

    async def ended(self, *, timeout_s: float) -> None:
        """Return when the stream is closed, after `close`. Data that the peer has not taken by then is dropped."""
        if not self._is_gone.done():
            await asyncio.wait([self._is_gone], timeout=timeout_s)
            self._stream.abort()
            await asyncio.shield(self._is_gone)  # a caller that gives up does not close the stream

    # -- called by the stream

    def lend_buffer(self) -> memoryview:
        return self._frames.lend()

    def received(self, size: int) -> None:
        self.used_at = self._loop.time()
        self._frames.received(size)
        try:
            while (frame := self._frames.next_frame()) is not None:
                # The response may keep views of its records for long, so it owns its buffer.
                kept = len(frame) > EXACT_FRAME_BYTES and self._frames.hand_over()
                self._answer(frame if kept else bytes(frame))
        except (FrameTooLarge, MalformedMessage) as error:
            failure = self.errors.malformed(f"the response of {self.peer} cannot be decoded: {error}")
            failure.__cause__ = error
            self._fail(failure)
            self._stream.abort()

    def drained(self) -> None:
        sending, self._sending = self._sending, []
        for sent in sending:
            if not sent.done():
                sent.set_result(None)

    def closed(self, reason: BaseException | None) -> None:
        message = f"{self.peer} closed the connection"
        if reason is not None:
            message += f": {reason}"
        elif self.versions and not self._has_served:
            message += " at the first request: it may require authentication (security.protocol)"
        failure = self.errors.disconnected(message)
        failure.__cause__ = reason
        self._fail(failure)
        self._is_gone.set_result(None)
        if self.on_closed is not None:
            self.on_closed()

    # -- helpers

    def _encode(self, request: Any, described: Api, version: int) -> list[Part]:
        try:
            return codec(type(request), version).encode_parts(request)
        except UnsupportedField as error:
            raise self.errors.unsupported_version(
                f"{self.peer} serves {described.name} only up to version {version}: {error}"
            ) from error
        except UnencodableValue as error:
            raise self.errors.unencodable(f"{described.name} cannot be sent: {error}") from error

    def _frame(self, described: Api, version: int, body: list[Part]) -> list[Part]:
        """The request as it is sent, with its own correlation id."""
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        key = described.key
        rest = self._header_rests.get((key, version))
        if rest is None:
            header = encode_request_header(key, version, correlation_id, self._client_id)
            rest = self._header_rests[key, version] = header[HEADER_REST_AT:]
        size = HEADER_REST_AT + len(rest) + sum(map(len, body))
        return [_FRAME_HEAD.pack(size, key, version, correlation_id) + rest, *body]

    def _answer(self, frame: bytes | memoryview) -> None:
        if len(frame) < 4:
            raise MalformedMessage(f"a response of {len(frame)} bytes")
        (correlation_id,) = struct.unpack_from(">i", frame)
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            raise MalformedMessage(f"a response to request {correlation_id}, which was never sent")
        described, version = pending.described, pending.version
        if described.key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
            version = 0  # this response always has version 0 (KIP-511)
        try:
            position = 4
            if described.response_header_version(version) > 0:
                position = skip_tagged_fields(memoryview(frame), position)
            if pending.read is not None:
                response = pending.read(frame, position)
            else:
                response, _ = _answer_codec(described.key, version).decode(frame, position)
        except MalformedMessage:
            self._pending[correlation_id] = pending  # it fails with all the others
            raise
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0 and waits_for_client(described.key, version):
            self.muted_until = max(self.muted_until, self._loop.time() + throttle_time_ms / 1000)
        self._has_served = bool(self.versions)
        if not self._pending:
            self._tell_quiet()
        pending.on_answer(response, None)

    def _tell_quiet(self) -> None:
        quiet, self._quiet = self._quiet, None
        if quiet is not None:
            quiet.set_result(None)

    def _watch(self, deadline: float) -> None:
        """Check at the deadline. One timer serves all requests."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._look_for_overdue)

    def _look_for_overdue(self) -> None:
        self._timer = None
        if not self._pending:
            return
        now = self._loop.time()
        first = min(self._pending.values(), key=lambda pending: pending.deadline)
        if first.deadline > now:
            if first.deadline != math.inf:
                self._watch(first.deadline)
            return
        what = f"{self.peer} did not respond to {first.described.name} within {first.timeout_s * 1000:.0f} ms"
        overdue = {key: each for key, each in self._pending.items() if each.deadline <= now}
        for correlation_id, pending in overdue.items():
            del self._pending[correlation_id]
            pending.on_answer(None, self.errors.timed_out(what))
        failure = self.errors.disconnected(f"the connection was closed because {what}")
        failure.__cause__ = TimeoutError(what)  # the peer hangs, but did not close the connection
        self._fail(failure)
        self._stream.abort()

    def _fail(self, failure: Exception) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.failure = failure
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting: list[OnAnswer] = [pending.on_answer for pending in self._pending.values()]
        waiting += [partial(_settle, sent) for sent in self._sending]
        self._pending, self._sending = {}, []
        self._tell_quiet()
        for on_answer in waiting:
            # One exception each: an exception that is raised in several places collects all their tracebacks.
            own = type(failure)(*failure.args)
            own.__cause__ = failure.__cause__
            on_answer(None, own)


def _settle(answer: asyncio.Future[Any], response: Any, error: Exception | None) -> None:
    if answer.done():
        return  # the request was cancelled
    if error is None:
        answer.set_result(response)
    else:
        answer.set_exception(error)


@cache
def _answer_codec(key: ApiKey, version: int) -> Codec[Any]:
    """Cached: finding a class by its name takes as long as decoding a small response."""
    return codec(api(key).response_class(), version)


def _api_of(request: Any) -> Api:
    key = declaration_of(type(request)).key
    assert key is not None, f"{type(request).__name__} is not a request"
    return api(key)
