"""One peer's requests, answered in the order in which they came.

Work is pipelined: a request that has to wait (for a sync, for the high watermark, for bytes to fetch) does not
hold the next one back, only its answer. A peer that does not read its answers, or that has too many requests
waiting, is not read from until it catches up; that bounds what one connection can cost.

What a request means is the business of `serve`, which returns the parts of an answer, or a future of them, or
None where the protocol wants no answer. The views it is given are valid until it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from penstock.net.framing import FrameReader, FrameTooLarge
from penstock.runtime.network import Part, Stream

log = logging.getLogger(__name__)

WAITING_ANSWERS_MAX = (
    256  # requests under way on one connection; clients send 5, load generators up to some 100
)
OUTGOING_PARTS_MAX = 64  # answers gathered for one system call; bench "small pipelined" gains nothing beyond
BACKLOG_BYTES_MAX = 1 << 20  # answers that the peer has not read: beyond this it gets no further ones

Answer = list[Part] | asyncio.Future[list[Part] | None] | None


class PeerError(Exception):
    """The peer broke the protocol; its connection is closed and the reason logged."""


class Server(Protocol):
    """What a connection needs from the broker."""

    def serve(self, frame: memoryview, connection: Connection) -> Answer: ...

    def connection_closed(self, connection: Connection) -> None: ...


class Connection:
    __slots__ = (
        "_frames",
        "_is_paused",
        "_outgoing",
        "_pumping",
        "_server",
        "_waiting",
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
    ) -> None:
        self.stream = stream
        self.peer = stream.peer
        self.peer_host = stream.peer_host
        self.listener = listener
        self.now = now
        self.last_active = now()
        self.is_closed = False
        self.data: dict[str, object] = {}
        """What a layer above remembers about this peer for as long as it stays, such as its client's name."""
        self._server = server
        self._frames = FrameReader(scratch, frame_bytes_max=frame_bytes_max)
        self._waiting: deque[Answer] = deque()
        self._outgoing: list[Part] = []
        self._is_paused = False
        self._pumping = False

    # -- what the stream calls

    def lend_buffer(self) -> memoryview:
        return self._frames.lend()

    def received(self, size: int) -> None:
        self.last_active = self.now()
        self._frames.received(size)
        self._pump()

    def drained(self) -> None:
        self._continue_reading()

    def closed(self, reason: BaseException | None) -> None:
        self.is_closed = True
        for answer in self._waiting:
            if isinstance(answer, asyncio.Future):
                answer.cancel()
        self._waiting.clear()
        if reason is not None:
            log.debug("connection of %s ended: %s", self.peer, reason)
        self._server.connection_closed(self)

    # -- what the server calls

    def close(self) -> None:
        """Send what is queued and end; answers that are still being worked on are dropped."""
        self.stream.close()

    def has_work(self) -> bool:
        return bool(self._waiting) or self.stream.backlog_bytes() > 0

    def shrink(self) -> None:
        self._frames.shrink()

    # -- the pump

    def _pump(self) -> None:
        """Serve every whole frame at hand, then send what is ready in one go."""
        frames, waiting, outgoing, serve = self._frames, self._waiting, self._outgoing, self._server.serve
        self._pumping = True
        try:
            while (frame := frames.next_frame()) is not None:
                answer = serve(frame, self)
                if answer is None:
                    pass
                elif type(answer) is list:
                    if waiting:
                        waiting.append(answer)
                    else:
                        outgoing += answer
                        if len(answer) > 1:  # a slice of a file: start it on its way
                            self._send_outgoing()
                else:
                    waiting.append(answer)
                    answer.add_done_callback(self._answered)  # type: ignore[union-attr]
                if len(waiting) >= WAITING_ANSWERS_MAX or self._is_behind():
                    self._is_paused = True
                    self.stream.pause_reading()
                    break
        except (FrameTooLarge, PeerError) as error:
            log.warning("closing the connection of %s: %s", self.peer, error)
            self._send_outgoing()
            self.stream.close()
            return
        except Exception:
            log.exception(
                "a request of %s failed inside the broker; this is a bug; closing its connection", self.peer
            )
            self._outgoing.clear()
            self.stream.abort()
            return
        finally:
            self._pumping = False
        frames.settle()
        self._send_outgoing()

    def _is_behind(self) -> bool:
        """Whether the peer has left so much unread that serving it further would only fill memory."""
        if len(self._outgoing) >= OUTGOING_PARTS_MAX:
            self._send_outgoing()
        return self.stream.backlog_bytes() > BACKLOG_BYTES_MAX

    def _answered(self, _: asyncio.Future[list[Part] | None]) -> None:
        """Some answer is there: send those at the head of the line."""
        if self.is_closed:
            return
        waiting, outgoing = self._waiting, self._outgoing
        while waiting:
            answer = waiting[0]
            if isinstance(answer, asyncio.Future):
                if not answer.done():
                    break
                if answer.cancelled() or answer.exception() is not None:
                    # The server is stopping, or has said already what went wrong; later answers must not overtake.
                    log.debug("no answer for %s; closing its connection", self.peer)
                    self._send_outgoing()
                    self.stream.close()
                    return
                answer = answer.result()
            waiting.popleft()
            if answer:
                outgoing += answer
        if not self._pumping:
            self._send_outgoing()
            self._continue_reading()

    def _send_outgoing(self) -> None:
        outgoing = self._outgoing
        if outgoing:
            self.stream.send(outgoing)
            outgoing.clear()

    def _continue_reading(self) -> None:
        if not self._is_paused or self.is_closed:
            return
        if len(self._waiting) >= WAITING_ANSWERS_MAX or self.stream.backlog_bytes() > BACKLOG_BYTES_MAX:
            return
        self._is_paused = False
        self._pump()
        if not self._is_paused:
            self.stream.resume_reading()
