"""One peer's requests, answered in the order in which they came.

Work is pipelined: a request that has to wait (for a sync, for the high watermark, for bytes to fetch) does not
hold the next one back, only its answer. A peer that does not read its answers, or that has too many requests
waiting, is not read from until it catches up; that bounds what one connection can cost in memory. What it can cost
in time is bounded by turns: a peer with many requests at hand is served for some milliseconds, then the others are.

What a request means is the business of `serve`, which returns the parts of an answer, or a future of them, or
None where the protocol wants no answer. The views it is given are valid until it returns.
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

WAITING_ANSWERS_MAX = 256  # requests under way on one connection; clients send 5, load generators some 100
WAITING_BYTES_MAX = 4 << 20  # answers in memory that wait for an earlier one; beyond this no more are made
LARGE_ANSWER_BYTES = WAITING_BYTES_MAX // WAITING_ANSWERS_MAX  # smaller ones are bounded by their number
TURN_S_MAX = 0.01  # how long one peer's requests are served before others get their turn
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
        "_backlog_bytes",
        "_faults",
        "_frames",
        "_held_by",
        "_is_paused",
        "_large_answers",
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
        """`faults` is the log of what peers do wrong, which all connections of a node share."""
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
        self._faults = faults or PeerFaults()
        self._frames = FrameReader(scratch, frame_bytes_max=frame_bytes_max)
        self._waiting: deque[Answer] = deque()
        self._large_answers: dict[int, int] = {}  # the size of each in `_waiting`, by its identity
        self._waiting_bytes = 0
        self._held_by: asyncio.Future[Any] | None = None
        self._outgoing: list[Part] = []
        self._is_paused = False
        self._pumping = False
        self._backlog_bytes = 0

    # -- what the stream calls

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
        for answer in self._waiting:
            if isinstance(answer, asyncio.Future):
                answer.cancel()
        self._waiting.clear()
        if reason is not None:
            logger.debug("connection of %s ended: %s", self.peer, reason)
        self._server.connection_closed(self)

    # -- what the server calls

    def close(self) -> None:
        """Send what is queued and end; answers that are still being worked on are dropped."""
        self.stream.close()

    def abort(self) -> None:
        """End now; what was not sent is dropped."""
        self.stream.abort()

    def hold(self, work: asyncio.Future[Any]) -> None:
        """Serve nothing more of this peer until `work` is done: for the few requests that would otherwise be
        overtaken by the next, or that cost so much that one at a time is enough."""
        self._held_by = work
        work.add_done_callback(self._let_go)

    def has_next(self) -> bool:
        """Whether there is something behind the request that is being served: a whole one, or the beginning of one."""
        return self._frames.buffered_bytes > 0

    def take_next(self) -> memoryview | None:
        """The request after the one that is being served, if all of it is here, to be served with it: then the answer
        is that to both, one after the other. `give_back` what cannot be."""
        try:
            return self._frames.next_frame()
        except FrameTooLarge:
            return None  # and it will be refused when its turn comes

    def give_back(self, frame: memoryview) -> None:
        """Have the request that was taken last served for itself."""
        self._frames.give_back(frame)

    def has_work(self) -> bool:
        """Whether the peer waits for us: an answer is being worked on, and none waits for the peer to read it."""
        return bool(self._waiting) and not self._backlog_bytes

    def look_at_backlog(self, now: float) -> None:
        """Count what the peer has read since the last look as a sign of life."""
        backlog_bytes = self.stream.backlog_bytes()
        if backlog_bytes != self._backlog_bytes:
            self._backlog_bytes = backlog_bytes
            self.last_active = now

    def is_stuck(self) -> bool:
        """Whether answers wait for the peer to read them, as of the last look."""
        return self._backlog_bytes > 0

    def shrink(self) -> None:
        self._frames.shrink()

    # -- the pump

    def _pump(self, now: float) -> None:
        """Serve the whole frames at hand, for one turn at most, then send what is ready in one go."""
        frames, waiting, outgoing, serve = self._frames, self._waiting, self._outgoing, self._server.serve
        turn_ends = now + TURN_S_MAX
        self._pumping = True
        try:
            while (frame := frames.next_frame()) is not None:
                answer = serve(frame, self)
                if answer is None:
                    pass
                elif type(answer) is list:
                    if waiting:
                        waiting.append(answer)
                        self._note_size(answer, answer)
                    else:
                        outgoing += answer
                        if len(answer) > 1:  # a slice of a file: start it on its way
                            self._send_outgoing()
                else:
                    waiting.append(answer)
                    answer.add_done_callback(self._answered)  # type: ignore[union-attr]
                if (waiting or self._held_by) and not self._can_serve():
                    self._pause()
                    break
                if (
                    not frames.buffered_bytes
                ):  # the usual end, of a peer that waits: bench "one-record latency"
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
            # Whatever it was, what is left of this peer's bytes is in a buffer that others will use next.
            logger.exception("serving %s failed; this is a bug, and its connection is closed", self.peer)
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
        """Whether the next request may be served although earlier ones are not answered yet."""
        return (
            len(self._waiting) < WAITING_ANSWERS_MAX
            and self._waiting_bytes < WAITING_BYTES_MAX
            and self._held_by is None
        )

    def _is_behind(self) -> bool:
        """Whether the peer has left so much unread that serving it further would only fill memory."""
        if len(self._outgoing) >= OUTGOING_PARTS_MAX:
            self._send_outgoing()
        return self.stream.backlog_bytes() > BACKLOG_BYTES_MAX

    def _pause(self) -> None:
        self._is_paused = True
        self.stream.pause_reading()

    def _let_go(self, work: asyncio.Future[Any]) -> None:
        """What held the connection is done, and is not to be kept: its result may be large."""
        if self._held_by is work:
            self._held_by = None
        self._answered(work)

    def _answered(self, done: asyncio.Future[Any]) -> None:
        """Some answer is there: send those at the head of the line."""
        if self.is_closed:
            return
        waiting, outgoing, large_answers = self._waiting, self._outgoing, self._large_answers
        while waiting:
            answer = waiting[0]
            if large_answers:
                self._waiting_bytes -= large_answers.pop(id(answer), 0)
            if isinstance(answer, asyncio.Future):
                if not answer.done():
                    break
                if answer.cancelled() or answer.exception() is not None:
                    # The node is stopping, or has said already what went wrong; later answers must not overtake.
                    logger.debug("no answer for %s; closing its connection", self.peer)
                    self._send_outgoing()
                    self.stream.close()
                    return
                answer = answer.result()
            waiting.popleft()
            if answer:
                outgoing += answer
        if waiting and not done.cancelled() and done.exception() is None:
            self._note_size(done, done.result())
        if not self._pumping:
            self._send_outgoing()
            self._continue_reading()

    def _note_size(self, answer: list[Part] | asyncio.Future[Any], parts: object) -> None:
        """Count an answer that has to wait for an earlier one, if it is large and still waits."""
        if type(parts) is not list:
            return
        size = sum([len(part) for part in parts if type(part) is not FileSlice])
        if size > LARGE_ANSWER_BYTES and any(each is answer for each in self._waiting):
            self._large_answers[id(answer)] = size
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
