"""A connection: handles the requests of one peer and sends the responses in the order of the requests.

Requests are pipelined: one that waits (for a sync, for the high watermark, for bytes to fetch) delays only the later
responses, not the later requests. If a peer does not read its responses, or has too many requests in progress, the
connection stops reading from it; that limits the memory of one connection. Turns limit its time: after some
milliseconds of buffered requests of one peer, the other peers get their turn.

`serve` handles a request. It returns the parts of a response, or a future of them, or None if the protocol has no
response. The view that it gets is valid until it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from penstock.net.framing import FrameReader, FrameTooLarge
from penstock.net.peer_faults import PeerFaults
from penstock.runtime.network import FileSlice, Part, Stream

logger = logging.getLogger(__name__)

WAITING_RESPONSES_MAX = (
    256  # requests in progress on one connection; clients send 5, load generators about 100
)
WAITING_BYTES_MAX = 4 << 20  # of responses that wait for an earlier one; then no further request is handled
LARGE_RESPONSE_BYTES = WAITING_BYTES_MAX // WAITING_RESPONSES_MAX  # smaller ones are limited by their number
TURN_S_MAX = 0.01  # how long the requests of one peer are handled before it is the turn of others
OUTGOING_PARTS_MAX = 64  # responses per system call; more gain nothing in bench "small pipelined"
BACKLOG_BYTES_MAX = 1 << 20  # of responses that the peer has not read; then no further request is handled

Response = list[Part] | asyncio.Future[list[Part] | None] | None


class PeerError(Exception):
    """The peer broke the protocol; its connection is closed and the reason logged."""


class Server(Protocol):
    """Handles the requests of connections."""

    def serve(self, frame: memoryview, connection: Connection) -> Response: ...

    def connection_closed(self, connection: Connection) -> None: ...


class Connection:
    __slots__ = (
        "_backlog_bytes",
        "_faults",
        "_frames",
        "_held_by",
        "_is_paused",
        "_large_responses",
        "_outgoing",
        "_pumping",
        "_server",
        "_waiting",
        "_waiting_bytes",
        "data",
        "is_closed",
        "last_active",
        "listener",
        "now",
        "peer",
        "peer_host",
        "stream",
    )

    def __init__(
        self,
        stream: Stream,
        server: Server,
        *,
        listener: str,
        scratch: memoryview,
        frame_bytes_max: int,
        now: Callable[[], float],
        faults: PeerFaults | None = None,
    ) -> None:
        """`faults` is shared by all connections of a node."""
        self.stream = stream
        self.peer = stream.peer
        self.peer_host = stream.peer_host
        self.listener = listener
        self.now = now
        self.last_active = now()
        self.is_closed = False
        self.data: dict[str, object] = {}
        """State of higher layers about this connection, such as the name of the client."""
        self._server = server
        self._faults = faults or PeerFaults()
        self._frames = FrameReader(scratch, frame_bytes_max=frame_bytes_max)
        self._waiting: deque[Response] = deque()
        self._large_responses: dict[int, int] = {}  # their sizes, by the id() of the response in `_waiting`
        self._waiting_bytes = 0
        self._held_by: asyncio.Future[Any] | None = None
        self._outgoing: list[Part] = []
        self._is_paused = False
        self._pumping = False
        self._backlog_bytes = 0

    # -- called by the stream

    def lend_buffer(self) -> memoryview:
        return self._frames.lend()

    def received(self, size: int) -> None:
        self.last_active = now = self.now()
        self._frames.received(size)
        self._pump(now)

    def drained(self) -> None:
        self._continue_reading()

    def closed(self, reason: BaseException | None) -> None:
        self.is_closed = True
        for response in self._waiting:
            if isinstance(response, asyncio.Future):
                response.cancel()
        self._waiting.clear()
        if reason is not None:
            logger.debug("the connection from %s ended: %s", self.peer, reason)
        self._server.connection_closed(self)

    # -- called by the server

    def close(self) -> None:
        """Send the queued responses and end. Responses that are not ready are dropped."""
        self.stream.close()

    def abort(self) -> None:
        """End now and drop the queued responses."""
        self.stream.abort()

    def hold(self, work: asyncio.Future[Any]) -> None:
        """Handle no further request of this peer until `work` is done: for requests that the next one must not
        overtake, or that need so much memory that only one may run."""
        self._held_by = work
        work.add_done_callback(self._release)

    def has_next(self) -> bool:
        """Whether bytes after the current request are buffered: a whole request, or part of one."""
        return self._frames.buffered_bytes > 0

    def take_next(self) -> memoryview | None:
        """Take the next request, if all of it is buffered, to handle it together with the current one: the response
        must then contain both. `give_back` a request that cannot be handled with it."""
        try:
            return self._frames.next_frame()
        except FrameTooLarge:
            return None  # it is rejected when its turn comes

    def give_back(self, frame: memoryview) -> None:
        """Return the request that was taken last, to be handled alone."""
        self._frames.give_back(frame)

    def has_work(self) -> bool:
        """Whether a request is in progress, and the peer has read all responses so far."""
        return bool(self._waiting) and not self._backlog_bytes

    def check_backlog(self, now: float) -> None:
        """Treat it as activity if the peer has read from the backlog since the last check."""
        backlog_bytes = self.stream.backlog_bytes()
        if backlog_bytes != self._backlog_bytes:
            self._backlog_bytes = backlog_bytes
            self.last_active = now

    def is_stuck(self) -> bool:
        """Whether responses waited for the peer to read them at the last check."""
        return self._backlog_bytes > 0

    def shrink(self) -> None:
        self._frames.shrink()

    # -- the pump

    def _pump(self, now: float) -> None:
        """Handle the buffered requests, for one turn at most, then send the ready responses together."""
        frames, waiting, outgoing, serve = self._frames, self._waiting, self._outgoing, self._server.serve
        turn_ends = now + TURN_S_MAX
        self._pumping = True
        try:
            while (frame := frames.next_frame()) is not None:
                response = serve(frame, self)
                if response is None:
                    pass
                elif type(response) is list:
                    if waiting:
                        waiting.append(response)
                        self._note_size(response, response)
                    else:
                        outgoing += response
                        if len(response) > 1:  # a slice of a file: send it now
                            self._send_outgoing()
                else:
                    waiting.append(response)
                    response.add_done_callback(self._response_ready)  # type: ignore[union-attr]
                if (waiting or self._held_by) and not self._can_serve():
                    self._pause()
                    break
                if not frames.buffered_bytes:  # the usual case, first: bench "one-record latency"
                    break
                if self._is_behind():
                    self._pause()
                    break
                if self.now() > turn_ends:
                    self._pause()
                    asyncio.get_running_loop().call_soon(self._continue_reading)
                    break
        except (FrameTooLarge, PeerError) as error:
            self._faults.report(self.peer, self.peer_host, str(error), now=self.now())
            self._send_outgoing()
            self.stream.close()
            return
        except Exception:
            # The rest of this peer's bytes is in a buffer that other connections use next, so it cannot go on.
            logger.exception(
                "handling a request from %s failed; this is a bug; closing its connection", self.peer
            )
            self._send_outgoing()
            self.stream.close()
            return
        finally:
            self._pumping = False
        frames.settle()
        self._send_outgoing()
        if self.stream.backlog_bytes() > BACKLOG_BYTES_MAX and not self._is_paused:
            self._pause()

    def _can_serve(self) -> bool:
        """Whether the next request may be handled while earlier ones are in progress."""
        return (
            len(self._waiting) < WAITING_RESPONSES_MAX
            and self._waiting_bytes < WAITING_BYTES_MAX
            and self._held_by is None
        )

    def _is_behind(self) -> bool:
        """Whether the backlog of unread responses is over its limit."""
        if len(self._outgoing) >= OUTGOING_PARTS_MAX:
            self._send_outgoing()
        return self.stream.backlog_bytes() > BACKLOG_BYTES_MAX

    def _pause(self) -> None:
        self._is_paused = True
        self.stream.pause_reading()

    def _release(self, work: asyncio.Future[Any]) -> None:
        """The work that held the connection is done. It is not kept, because its result may be large."""
        if self._held_by is work:
            self._held_by = None
        self._response_ready(work)

    def _response_ready(self, done: asyncio.Future[Any]) -> None:
        """A response is ready: send the ready ones at the head of the queue."""
        if self.is_closed:
            return
        waiting, outgoing, large_responses = self._waiting, self._outgoing, self._large_responses
        while waiting:
            response = waiting[0]
            if large_responses:
                self._waiting_bytes -= large_responses.pop(id(response), 0)
            if isinstance(response, asyncio.Future):
                if not response.done():
                    break
                if response.cancelled() or response.exception() is not None:
                    # The node is stopping, or the error is already logged; later responses must not overtake.
                    logger.debug("closing the connection from %s: a request has no response", self.peer)
                    self._send_outgoing()
                    self.stream.close()
                    return
                response = response.result()
            waiting.popleft()
            if response:
                outgoing += response
        if waiting and not done.cancelled() and done.exception() is None:
            self._note_size(done, done.result())
        if not self._pumping:
            self._send_outgoing()
            self._continue_reading()

    def _note_size(self, response: list[Part] | asyncio.Future[Any], parts: object) -> None:
        """Count the size of a large response that waits for an earlier one."""
        if type(parts) is not list:
            return
        size = sum([len(part) for part in parts if type(part) is not FileSlice])
        if size > LARGE_RESPONSE_BYTES and any(each is response for each in self._waiting):
            self._large_responses[id(response)] = size
            self._waiting_bytes += size

    def _send_outgoing(self) -> None:
        outgoing = self._outgoing
        if outgoing:
            self.stream.send(outgoing)
            outgoing.clear()

    def _continue_reading(self) -> None:
        if not self._is_paused or self.is_closed:
            return
        if not self._can_serve() or self.stream.backlog_bytes() > BACKLOG_BYTES_MAX:
            return
        self._is_paused = False
        self._pump(self.now())
        if not self._is_paused:
            self.stream.resume_reading()
