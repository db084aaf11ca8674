"""TLS over any stream: a `Stream` with plaintext above and TLS records below.

OpenSSL works on buffers in memory and not on the socket, so the same code runs over sockets and in a simulation, for
clients and for brokers. Data that is sent before the end of the handshake is queued.

A slice of a file must be read into this process to be encrypted. That is done in pieces as the stream below sends them,
so a fetch of any size needs at most `BACKLOG_BYTES_MAX` of memory, and encrypts at most `TURN_BYTES_MAX` per turn of
the event loop.

Invariant: `closed` of the handler is called exactly once, whether the handshake failed, the peer closed the connection
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

READ_BYTES = 64 * 1024  # per read of TLS records, which have up to 16 KiB each
WRITE_BYTES = 256 * 1024  # of a large part that are encrypted at a time, to keep the copy small
BACKLOG_BYTES_MAX = 1 << 20  # encrypted bytes that the peer has not read; then encryption pauses
TURN_BYTES_MAX = 1 << 20  # about a millisecond; a peer that reads as fast as we encrypt must not block others


class TlsStream:
    """The handler of the stream below, and the stream of the handler above."""

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
        self._received = memoryview(bytearray(READ_BYTES))
        self._handler: StreamHandler | None = None
        self._waiting: deque[Part] = deque()
        """Parts that are not encrypted yet."""
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._is_paused = False
        self._is_closing = False
        self._failure: BaseException | None = None
        self.is_established = False
        self.established: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done after the handshake. It fails with `ssl.SSLError`, or with `ConnectionError` if the peer disconnects."""
        self.peer = below.peer
        self.peer_host = below.peer_host

    def start(self, handler: StreamHandler) -> None:
        """Start the handshake. The handler receives the data after it."""
        if self.established.done():  # the stream below was lost already
            return
        self._handler = handler
        self._pump()

    @property
    def session(self) -> ssl.SSLObject:
        """The TLS session: version, cipher, the certificate of the peer."""
        return self._tls

    # -- called by the user of the stream

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
            if self.is_established:  # data from before the pause is in memory; no socket event follows for it
                asyncio.get_running_loop().call_soon(self._pump)

    def close(self) -> None:
        if self._handler is None or self._is_closing:
            return
        self._is_closing = True
        if self.is_established:
            self._send_waiting()  # then it sends close_notify
        else:
            self._below.close()

    def abort(self) -> None:
        self._is_closing = True
        self._below.abort()

    # -- called by the stream below

    def lend_buffer(self) -> memoryview:
        return self._received

    def received(self, size: int) -> None:
        self._from_peer.write(self._received[:size])
        self._pump()

    def drained(self) -> None:
        if self._handler is None or not self.is_established:
            return
        if self._waiting:
            self._send_waiting()
        self._notify_drained()

    def closed(self, reason: BaseException | None) -> None:
        handler, self._handler = self._handler, None
        reason = self._failure or reason
        if not self.established.done():
            self.established.set_exception(
                reason or ConnectionResetError("the peer disconnected during the TLS handshake")
            )
            self.established.exception()  # mark it as retrieved: a server does not await it
        self._waiting.clear()
        self._waiting_bytes = 0
        if handler is not None:
            handler.closed(reason)

    # -- encryption

    def _pump(self) -> None:
        """Continue the handshake, send and receive, as far as the received bytes allow."""
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
        """Decrypt and pass on the received data; raises when more bytes are needed."""
        while not self._is_paused and not self._is_closing and self._handler is not None:
            buffer = self._handler.lend_buffer()
            try:
                size = int(self._tls.read(len(buffer), buffer))
            except ssl.SSLZeroReturnError:
                size = 0
            if not size:  # the peer sent close_notify
                self.close()
                return
            self._handler.received(size)

    def _send_waiting(self) -> None:
        """Encrypt and send the queued parts, for one turn at most, and as fast as the stream below sends."""
        turn_bytes = TURN_BYTES_MAX
        try:
            while self._waiting and self._failure is None:
                if self._to_peer.pending >= WRITE_BYTES:
                    self._flush()
                if self._below.backlog_bytes() >= BACKLOG_BYTES_MAX:
                    return  # `drained` continues
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
        except ssl.SSLWantReadError:  # the peer renegotiates; more of its bytes are needed first
            return
        except ssl.SSLError as error:
            self._fail(error)
            return
        except OSError as error:  # a slice cannot be read; closing is the only way to report it
            self._failure = error
            self.abort()
            return
        finally:
            self._flush()
        if self._is_closing and self._failure is None:
            self._send_close_notify()
            self._below.close()

    def _next_piece(self) -> memoryview:
        """The first queued bytes, up to `WRITE_BYTES`."""
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
            self._notify_drained()

    def _notify_drained(self) -> None:
        """Notify the handler if the whole backlog is empty, and not only that of the stream below."""
        if self._handler is not None and not self._is_closing and not self.backlog_bytes():
            self._handler.drained()

    def _flush(self) -> None:
        if self._to_peer.pending:
            self._below.send([self._to_peer.read()])

    def _send_close_notify(self) -> None:
        with contextlib.suppress(
            ssl.SSLError
        ):  # it wants to read the peer's close_notify, which we do not wait for
            self._tls.unwrap()
        self._flush()

    def _fail(self, error: ssl.SSLError) -> None:
        """The TLS data is invalid, or the peer is not trusted: send the alert, and end."""
        self._failure = error
        self._is_closing = True
        self._flush()
        self._below.close()


def _read(piece: FileSlice) -> memoryview:
    try:
        data = memoryview(piece.read())
    except OSError as error:
        # Later, because the owner may respond to requests of this very connection.
        asyncio.get_running_loop().call_soon(piece.failed, error)
        raise
    if len(data) < piece.size:
        raise OSError(errno.EIO, "the file is shorter than the slice to send", piece.file.path)
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
    """Connect and do the TLS handshake. If the context checks it, the certificate must be for `server_name`.

    Raises `ssl.SSLError` if the handshake or the verification fails, and `OSError` for other failures.
    """
    made: list[TlsStream] = []

    def wrap(below: Stream) -> TlsStream:
        stream = TlsStream(below, context, server_name=server_name)
        made.append(stream)
        # One turn later, because the stream below does not send before it has its handler.
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
