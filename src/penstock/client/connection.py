"""One connection to one broker: typed requests out, typed responses back, many under way at a time.

Versions are agreed on at the start (ApiVersions), so a caller passes a request object and gets the response
object of the newest version that both sides know. It runs over the `Network` seam, so the same client works
on sockets and in a simulation. It never retries and never reconnects: that is the business of what is built
on it (`transport`).

A broker answers in order, so one answer that is overdue holds up all behind it: a request that is not answered in time
ends the connection, as in Kafka. Invariant: every future given out is done when the connection is closed.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from penstock import __version__
from penstock.client.buffers import BufferPool
from penstock.client.errors import (
    BadArgument,
    Disconnected,
    MalformedAnswer,
    PenstockError,
    TimedOut,
    UnsupportedVersion,
)
from penstock.client.throttling import waits_for_client
from penstock.net.framing import EXACT_FRAME_BYTES, FrameReader, FrameTooLarge
from penstock.protocol.apis import Api, ApiKey, api
from penstock.protocol.codec import Codec, codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode, MalformedMessage, UnencodableValue, UnsupportedField
from penstock.protocol.headers import encode_request_header, skip_tagged_fields
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.runtime.network import Network, Part, Stream

__all__ = ["ClientConnection", "Disconnected"]

FRAME_BYTES_MAX = 1 << 30  # an answer's size is chosen by our own requests; this only stops nonsense
# The first answer is a list of versions. What claims to be larger is no broker, or one that speaks TLS.
FIRST_FRAME_BYTES_MAX = 1 << 24
REQUEST_TIMEOUT_S = 30.0

Connect = Callable[[Callable[[Stream], "ClientConnection"]], Awaitable[object]]
"""Makes a stream, given what makes its handler."""

_FRAME_HEAD = struct.Struct(">ihhi")  # size, API key, version, correlation id
HEADER_REST_AT = (
    _FRAME_HEAD.size - 4
)  # what follows the correlation id is the same in every request of a version
_UNSUPPORTED_VERSION = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


OnAnswer = Callable[[Any, PenstockError | None], None]
"""Called once, with the response or with the reason why there is none."""

ReadAnswer = Callable[[bytes | memoryview, int], Any]
"""Makes a response of the bytes from a position on; MalformedMessage where it cannot."""


@dataclass(slots=True)
class _Pending:
    described: Api
    version: int
    timeout_s: float
    deadline: float
    on_answer: OnAnswer
    read: ReadAnswer | None


class ClientConnection:
    """Make one with `await ClientConnection.open(...)`, then `await connection.ask(SomeRequest(...))`."""

    def __init__(self, stream: Stream, client_id: str) -> None:
        self._stream = stream
        self._client_id = client_id
        self._frames = FrameReader(
            memoryview(bytearray(EXACT_FRAME_BYTES)),
            frame_bytes_max=FIRST_FRAME_BYTES_MAX,
            growth=FRAME_BYTES_MAX,
            new_room=BufferPool().take,
        )
        self._pending: dict[int, _Pending] = {}
        self._correlation_id = 0
        self._header_rests: dict[tuple[ApiKey, int], bytes] = {}
        """The client id and what follows it, by API and version."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_gone: asyncio.Future[None] = self._loop.create_future()
        self._sending: list[asyncio.Future[None]] = []
        self.is_closed = False
        self.failure: PenstockError | None = None
        """Why it ended, where that was not our own wish."""
        self.on_closed: Callable[[], None] | None = None
        self.used_at = self._loop.time()
        """When something was last sent or received."""
        self.retires_at = math.inf
        """When the login ends that the connection was opened with: nothing new is sent from then on."""
        self._quiet: asyncio.Future[None] | None = None
        self.muted_until = 0.0
        """A broker's quota was used up: it asks for silence until then, and stops reading where it is not kept."""
        self._has_served = False
        """Whether a request was answered after the agreement on versions."""
        self.versions: dict[int, tuple[int, int]] = {}
        """First and last version that the broker serves, by API key."""
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
    ) -> ClientConnection:
        """Connect and agree on versions."""
        connection = await cls.over(lambda handler: network.connect(host, port, handler), client_id=client_id)
        try:
            await connection.agree_on_versions(timeout_s=timeout_s)
        except BaseException:
            connection.abort()
            raise
        return connection

    @classmethod
    async def over(cls, connect: Connect, *, client_id: str) -> ClientConnection:
        """Connect and send nothing yet."""
        made: list[ClientConnection] = []

        def handler(stream: Stream) -> ClientConnection:
            made.append(cls(stream, client_id))
            return made[0]

        await connect(handler)
        return made[0]

    @property
    def peer(self) -> str:
        return self._stream.peer

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answer."""
        return len(self._pending)

    async def ask(
        self, request: Any, *, version: int | None = None, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        """Send and wait for the response; TimedOut after `timeout_s`, Disconnected if the broker goes."""
        return await self.send(request, version=version, timeout_s=timeout_s)

    def send(
        self, request: Any, *, version: int | None = None, timeout_s: float = math.inf
    ) -> asyncio.Future[Any]:
        """Send now; the future carries the response. Answers come in the order of requests."""
        if self.is_closed:
            raise Disconnected(f"the connection to {self.peer} is closed")
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
        """Send a request that is encoded already; `on_answer` is called in the turn of the loop in which the answer
        comes. A future would take another turn (bench "one record, wait for it"). It must not raise."""
        if self.is_closed:
            raise Disconnected(f"the connection to {self.peer} is closed")
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
        """For produce with acks=0, which gets no answer. The future is done when the system has taken all bytes, so
        that a sender who waits for it does not fill memory faster than the broker reads."""
        if self.is_closed:
            raise Disconnected(f"the connection to {self.peer} is closed")
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
            raise UnsupportedVersion(f"{self.peer} does not serve {described.name}")
        first, last = self.versions[described.key]
        version = min(last, described.last_version)
        if version < max(first, described.first_version):
            raise UnsupportedVersion(f"{self.peer} serves no version of {described.name} that we know")
        return version

    async def agree_on_versions(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        newest = api(ApiKey.API_VERSIONS).last_version
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
        response = await self.ask(request, version=newest, timeout_s=timeout_s)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            served = {entry.api_key: entry.max_version for entry in response.api_keys}
            # Before Kafka 2.4 such an answer came without a list.
            known = min(newest, served.get(ApiKey.API_VERSIONS, 0))
            response = await self.ask(request, version=known, timeout_s=timeout_s)
        if response.error_code != ErrorCode.NONE:
            raise Disconnected(f"{self.peer} refused to name its versions: {response.error_code.name}")
        self._frames.frame_bytes_max = FRAME_BYTES_MAX
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        self.features = {entry.name: entry.max_version_level for entry in response.finalized_features}

    async def quiet(self) -> None:
        """Return when nothing waits for an answer, or the connection is closed."""
        if self._pending:
            if self._quiet is None:
                self._quiet = self._loop.create_future()
            await asyncio.shield(self._quiet)

    def close(self) -> None:
        """Send what is queued, then end. What waits for an answer fails."""
        self._stream.close()

    def abort(self) -> None:
        """End now, and drop what is queued."""
        self._stream.abort()

    async def ended(self, *, timeout_s: float) -> None:
        """Return when the stream is gone, after `close`. What the peer has not taken by then is dropped."""
        if not self._is_gone.done():
            await asyncio.wait([self._is_gone], timeout=timeout_s)
            self._stream.abort()
            await asyncio.shield(self._is_gone)  # whoever gives up waiting does not take it from the stream

    # -- what the stream calls

    def lend_buffer(self) -> memoryview:
        return self._frames.lend()

    def received(self, size: int) -> None:
        self.used_at = self._loop.time()
        self._frames.received(size)
        try:
            while (frame := self._frames.next_frame()) is not None:
                # The response may hold views of its records for long, so it keeps the room that they are in.
                kept = len(frame) > EXACT_FRAME_BYTES and self._frames.hand_over()
                self._answer(frame if kept else bytes(frame))
        except (FrameTooLarge, MalformedMessage) as error:
            failure = MalformedAnswer(f"what {self.peer} answers cannot be read: {error}")
            failure.__cause__ = error
            self._fail(failure)
            self._stream.abort()

    def drained(self) -> None:
        sending, self._sending = self._sending, []
        for sent in sending:
            if not sent.done():
                sent.set_result(None)

    def closed(self, reason: BaseException | None) -> None:
        words = f"{self.peer} ended the connection"
        if reason is not None:
            words += f": {reason}"
        elif self.versions and not self._has_served:
            words += " at the first request: it may want a login (security.protocol)"
        failure = Disconnected(words)
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
            raise UnsupportedVersion(
                f"{self.peer} serves {described.name} only up to version {version}: {error}"
            ) from error
        except UnencodableValue as error:
            raise BadArgument(f"{described.name} cannot be sent: {error}") from error

    def _frame(self, described: Api, version: int, body: list[Part]) -> list[Part]:
        """The request as it goes out, with a correlation id of its own."""
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
            raise MalformedMessage(f"an answer of {len(frame)} bytes")
        (correlation_id,) = struct.unpack_from(">i", frame)
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            raise MalformedMessage(f"an answer to request {correlation_id}, which was never sent")
        described, version = pending.described, pending.version
        if described.key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
            version = 0  # such an answer always comes in version 0, whatever was asked (KIP-511)
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
        """See to it that somebody looks when the deadline passes. One timer serves all that wait."""
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
        what = f"{self.peer} did not answer {first.described.name} within {first.timeout_s * 1000:.0f} ms"
        overdue = {key: each for key, each in self._pending.items() if each.deadline <= now}
        for correlation_id, pending in overdue.items():
            del self._pending[correlation_id]
            pending.on_answer(None, TimedOut(what))
        self._fail(Disconnected(f"the connection was given up because {what}"))
        self._stream.abort()

    def _fail(self, failure: PenstockError) -> None:
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
            # One for each: an exception that is raised in several places collects all their tracebacks.
            own = type(failure)(failure.words)
            own.__cause__ = failure.__cause__
            on_answer(None, own)


def _settle(answer: asyncio.Future[Any], response: Any, error: PenstockError | None) -> None:
    if answer.done():
        return  # the request was cancelled
    if error is None:
        answer.set_result(response)
    else:
        answer.set_exception(error)


@cache
def _answer_codec(key: ApiKey, version: int) -> Codec[Any]:
    """Remembered, because to find a class by its name takes as long as to read a small answer."""
    return codec(api(key).response_class(), version)


def _api_of(request: Any) -> Api:
    key = declaration_of(type(request)).key
    assert key is not None, f"{type(request).__name__} is not a request"
    return api(key)
