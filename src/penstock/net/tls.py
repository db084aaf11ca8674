"""TLS over any stream: plain bytes on one side, records of TLS on the other, and the same `Stream` to whoever uses it.

OpenSSL works here on buffers in memory, never on the socket, so the same code runs over sockets and in a simulation,
for clients and for brokers. What is sent before the handshake is done waits for it.

A slice of a file has to pass through this process, because it must be encrypted. That is done in pieces as the stream
below takes them, so a fetch of any size costs `BACKLOG_BYTES_MAX` of memory at most, and `TURN_BYTES_MAX` of encryption
before the event loop goes on with others.

Invariant: the handler is told that the stream ended exactly once, whether the handshake failed, the peer said goodbye
or the stream below was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from collections import deque
from collections.abc import Callable, Sequence

from penstock.runtime.network import FileSlice, Network, Part, Stream, StreamHandler

READ_BYTES = 64 * 1024  # of TLS records at a time; one holds up to 16 KiB
WRITE_BYTES = 256 * 1024  # of a large part that are encrypted at a time, so that its copy stays small
BACKLOG_BYTES_MAX = 1 << 20  # encrypted bytes that the peer has not read: beyond this no more are encrypted
TURN_BYTES_MAX = (
    1 << 20
)  # about a millisecond; a peer that reads as fast as we encrypt must not stall the others


class TlsStream:
    """Stands between the stream below, whose handler it is, and a handler above, whose stream it is."""

    def __init__(
        self,
        below: Stream,
        context: ssl.SSLContext,
        *,
        server_side: bool = False,
        server_name: str | None = None,
    ) -> None:
        self._below = below
        self._from_peer = ssl.MemoryBIO()
        self._to_peer = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._from_peer, self._to_peer, server_side=server_side, server_hostname=server_name
        )
        self._room = memoryview(bytearray(READ_BYTES))
        self._handler: StreamHandler | None = None
        self._waiting: deque[Part] = deque()
        """What is not encrypted yet."""
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._is_paused = False
        self._is_closing = False
        self._failure: BaseException | None = None
        self.is_established = False
        self.established: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the handshake is, or failed with it: `ssl.SSLError`, or `ConnectionError` where the peer left."""
        self.peer = below.peer
        self.peer_host = below.peer_host

    def start(self, handler: StreamHandler) -> None:
        """Begin the handshake; the handler gets what is received after it."""
        if self.established.done():  # the stream below was lost already
            return
        self._handler = handler
        self._pump()

    @property
    def session(self) -> ssl.SSLObject:
        """For what was agreed on: version, cipher, the peer's certificate."""
        return self._tls

    # -- what the user of the stream calls

    def send(self, parts: Sequence[Part]) -> None:
        if self._handler is None or self._is_closing:
            return
        self._waiting.extend(parts)
        self._waiting_bytes += sum(map(len, parts))
        if self.is_established:
            self._send_waiting()

    def backlog_bytes(self) -> int:
        return self._waiting_bytes + self._below.backlog_bytes()

    def is_reset(self) -> bool:
        return self._below.is_reset()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._below.resume_reading()
            if (
                self.is_established
            ):  # what was received before the pause is in memory, and no socket will tell of it
                asyncio.get_running_loop().call_soon(self._pump)

    def close(self) -> None:
        if self._handler is None or self._is_closing:
            return
        self._is_closing = True
        if self.is_established:
            self._send_waiting()  # and then say goodbye
        else:
            self._below.close()

    def abort(self) -> None:
        self._is_closing = True
        self._below.abort()

    # -- what the stream below calls

    def lend_buffer(self) -> memoryview:
        return self._room

    def received(self, size: int) -> None:
        self._from_peer.write(self._room[:size])
        self._pump()

    def drained(self) -> None:
        if self._handler is None or not self.is_established:
            return
        if self._waiting:
            self._send_waiting()
        self._tell_drained()

    def closed(self, reason: BaseException | None) -> None:
        handler, self._handler = self._handler, None
        reason = self._failure or reason
        if not self.established.done():
            self.established.set_exception(
                reason or ConnectionResetError("the peer left during the TLS handshake")
            )
            self.established.exception()  # seen: a server does not await it
        self._waiting.clear()
        self._waiting_bytes = 0
        if handler is not None:
            handler.closed(reason)

    # -- between the two

    def _pump(self) -> None:
        """Go on with whatever the bytes at hand allow."""
        if self._handler is None:
            return
        try:
            if not self.is_established:
                self._tls.do_handshake()
                self.is_established = True
                if not self.established.done():
                    self.established.set_result(None)
            self._send_waiting()
            self._decrypt()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()

    def _decrypt(self) -> None:
        """Hand up what is there until more bytes are needed, which raises."""
        while not self._is_paused and not self._is_closing and self._handler is not None:
            room = self._handler.lend_buffer()
            try:
                size = int(self._tls.read(len(room), room))
            except ssl.SSLZeroReturnError:
                size = 0
            if not size:  # the peer said goodbye
                self.close()
                return
            self._handler.received(size)

    def _send_waiting(self) -> None:
        """Encrypt what waits and pass it on, for one turn at most and as far as the stream below keeps up."""
        turn_bytes = TURN_BYTES_MAX
        try:
            while self._waiting and self._failure is None:
                if self._to_peer.pending >= WRITE_BYTES:
                    self._flush()
                if self._below.backlog_bytes() >= BACKLOG_BYTES_MAX:
                    return  # `drained` goes on
                if turn_bytes <= 0:
                    self._continue_soon()
                    return
                piece = self._next_piece()
                size = self._tls.write(piece) if piece else 0
                self._waiting_bytes -= size
                turn_bytes -= size
                if size < len(piece):
                    self._waiting[0] = piece[size:]
                else:
                    self._waiting.popleft()
        except ssl.SSLWantReadError:  # the peer renegotiates, and has to say more first
            return
        except ssl.SSLError as error:
            self._fail(error)
            return
        except OSError as error:  # a slice cannot be read; the peer can only be told by ending
            self._failure = error
            self.abort()
            return
        finally:
            self._flush()
        if self._is_closing and self._failure is None:
            self._say_goodbye()
            self._below.close()

    def _next_piece(self) -> memoryview:
        """Bytes at the head of what waits, few enough to be encrypted at once."""
        head = self._waiting[0]
        if not isinstance(head, FileSlice):
            piece = memoryview(head)[:WRITE_BYTES]
            if len(piece) == len(head):
                self._waiting[0] = piece
                return piece
            rest: Part = memoryview(head)[WRITE_BYTES:]
        elif head.size <= WRITE_BYTES:
            piece = self._waiting[0] = _read(head)
            return piece
        else:
            piece = _read(FileSlice(head.file, head.position, WRITE_BYTES, head.owner))
            rest = FileSlice(head.file, head.position + WRITE_BYTES, head.size - WRITE_BYTES, head.owner)
        self._waiting[0] = rest
        self._waiting.appendleft(piece)
        return piece

    def _continue_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        self._is_scheduled = False
        if self._handler is not None:
            self._send_waiting()
            self._tell_drained()

    def _tell_drained(self) -> None:
        """Only we know: the stream below may have been empty between two pieces."""
        if self._handler is not None and not self._is_closing and not self.backlog_bytes():
            self._handler.drained()

    def _flush(self) -> None:
        if self._to_peer.pending:
            self._below.send([self._to_peer.read()])

    def _say_goodbye(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # which wants to read: the peer's goodbye is not waited for
            self._tls.unwrap()
        self._flush()

    def _fail(self, error: ssl.SSLError) -> None:
        """The bytes make no sense to TLS, or who sent them cannot be trusted: tell the peer why, and end."""
        self._failure = error
        self._is_closing = True
        self._flush()
        self._below.close()


def _read(piece: FileSlice) -> memoryview:
    try:
        data = memoryview(piece.read())
    except OSError as error:
        # Not at once: the owner may answer requests of this very connection.
        asyncio.get_running_loop().call_soon(piece.failed, error)
        raise
    if len(data) < piece.size:
        raise OSError(errno.EIO, "the file ended before the slice that was promised", piece.file.path)
    return data


async def connect_tls(
    network: Network,
    host: str,
    port: int,
    handler: Callable[[Stream], StreamHandler],
    *,
    context: ssl.SSLContext,
    server_name: str | None,
) -> Stream:
    """Connect and shake hands. `server_name` is what the certificate must be for, where the context checks it.

    Raises `ssl.SSLError` where the two sides do not agree or do not trust each other, `OSError` for the rest.
    """
    made: list[TlsStream] = []

    def wrap(below: Stream) -> TlsStream:
        stream = TlsStream(below, context, server_name=server_name)
        made.append(stream)
        # One turn later, because the stream below takes nothing before it has its handler.
        asyncio.get_running_loop().call_soon(stream.start, handler(stream))
        return stream

    await network.connect(host, port, wrap)
    stream = made[0]
    try:
        await asyncio.shield(stream.established)
    except BaseException:
        stream.abort()
        raise
    return stream
