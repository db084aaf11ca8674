"""One connection to one broker: typed requests out, typed responses back, many under way at a time.

Versions are agreed on at the start (ApiVersions), so a caller passes a request object and gets the response
object of the newest version that both sides know. It runs over the `Network` seam, so the same client works
on sockets and in a simulation. It never retries and never reconnects: that is the business of what is built
on it.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Any

from penstock import __version__
from penstock.net.framing import SCRATCH_BYTES, FrameReader, FrameTooLarge
from penstock.protocol.apis import Api, ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.headers import encode_request_header, read_response_header
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.runtime.network import Network, Part, Stream

FRAME_BYTES_MAX = 1 << 30  # an answer's size is chosen by our own requests; this only stops nonsense
REQUEST_TIMEOUT_S = 30.0

_UNSUPPORTED_VERSION = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


class Disconnected(ConnectionError):
    """The broker ended the connection, or we did, before the answer came."""


class UnsupportedByBroker(Exception):
    """The broker serves no version of this API that we know."""


@dataclass(slots=True)
class _Pending:
    described: Api
    version: int
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ClientConnection:
    """Make one with `await ClientConnection.open(...)`, then `await connection.ask(SomeRequest(...))`."""

    def __init__(self, stream: Stream, client_id: str) -> None:
        self._stream = stream
        self._client_id = client_id
        self._frames = FrameReader(memoryview(bytearray(SCRATCH_BYTES)), frame_bytes_max=FRAME_BYTES_MAX)
        self._pending: dict[int, _Pending] = {}
        self._correlation_id = 0
        self._is_closed = False
        self.versions: dict[int, tuple[int, int]] = {}
        """First and last version that the broker serves, by API key."""

    @classmethod
    async def open(
        cls, network: Network, host: str, port: int, *, client_id: str = "penstock"
    ) -> ClientConnection:
        made: list[ClientConnection] = []

        def handler(stream: Stream) -> ClientConnection:
            made.append(cls(stream, client_id))
            return made[0]

        await network.connect(host, port, handler)
        connection = made[0]
        try:
            await connection._agree_on_versions()
        except BaseException:
            connection.close()
            raise
        return connection

    async def ask(
        self, request: Any, *, version: int | None = None, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        """Send and wait for the response; TimeoutError after `timeout_s`, Disconnected if the broker goes."""
        # Not `wait_for`, which in Python 3.11 forgets that it was cancelled when the answer comes at that moment.
        async with asyncio.timeout(timeout_s):
            return await self.send(request, version=version)

    def send(self, request: Any, *, version: int | None = None) -> asyncio.Future[Any]:
        """Send now; the future carries the response. Answers come in the order of requests."""
        if self._is_closed:
            raise Disconnected(f"the connection to {self._stream.peer} is closed")
        described = _api_of(request)
        if version is None:
            version = self.version_for(described)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        pending = self._pending[self._correlation_id] = _Pending(described, version)
        self._stream.send(self._frame(request, described, version))
        return pending.answer

    def send_and_forget(self, request: Any) -> None:
        """For produce with acks=0, which gets no answer."""
        described = _api_of(request)
        self._stream.send(self._frame(request, described, self.version_for(described)))

    def version_for(self, described: Api) -> int:
        first, last = self.versions.get(described.key, (1, 0))
        version = min(last, described.last_version)
        if version < max(first, described.first_version):
            raise UnsupportedByBroker(
                f"{self._stream.peer} serves no version of {described.key.name} that we know"
            )
        return version

    def close(self) -> None:
        self._stream.close()

    # -- what the stream calls

    def lend_buffer(self) -> memoryview:
        return self._frames.lend()

    def received(self, size: int) -> None:
        self._frames.received(size)
        try:
            while (frame := self._frames.next_frame()) is not None:
                self._answer(bytes(frame))  # a copy: the response may hold views of its records for long
        except (FrameTooLarge, MalformedMessage) as error:
            self._fail(error)
            self._stream.abort()

    def drained(self) -> None:
        """Writers wait for answers, not for the socket."""

    def closed(self, reason: BaseException | None) -> None:
        self._fail(reason)

    # -- helpers

    async def _agree_on_versions(self) -> None:
        newest = api(ApiKey.API_VERSIONS).last_version
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
        response = await self.ask(request, version=newest)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            served = {entry.api_key: entry for entry in response.api_keys}
            response = await self.ask(request, version=min(newest, served[ApiKey.API_VERSIONS].max_version))
        if response.error_code != ErrorCode.NONE:
            raise Disconnected(
                f"{self._stream.peer} refused to name its versions: {response.error_code.name}"
            )
        self.versions = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}

    def _frame(self, request: Any, described: Api, version: int) -> list[Part]:
        head = encode_request_header(described.key, version, self._correlation_id, self._client_id)
        parts = codec(type(request), version).encode_parts(request, head)
        return [struct.pack(">i", sum(map(len, parts))), *parts]

    def _answer(self, frame: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame)
        pending = self._pending.pop(correlation_id, None)
        if pending is None:
            raise MalformedMessage(f"an answer to request {correlation_id}, which was never sent")
        described, version = pending.described, pending.version
        if described.key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
            version = 0  # such an answer always comes in version 0, whatever was asked (KIP-511)
        _, position = read_response_header(memoryview(frame), described.key, version)
        response, _ = codec(described.response_class(), version).decode(frame, position)
        if not pending.answer.done():
            pending.answer.set_result(response)

    def _fail(self, reason: BaseException | None) -> None:
        self._is_closed = True
        pending, self._pending = self._pending, {}
        for waiting in pending.values():
            if not waiting.answer.done():
                error = Disconnected(f"{self._stream.peer} ended the connection")
                error.__cause__ = reason
                waiting.answer.set_exception(error)


def _api_of(request: Any) -> Api:
    key = declaration_of(type(request)).key
    assert key is not None, f"{type(request).__name__} is not a request"
    return api(key)
