"""Streams over TCP sockets, driven by the event loop's readiness callbacks.

Sockets are used directly and not through asyncio transports: a response mixes bytes in memory with slices of files,
and only the socket itself can send both in order (`sendmsg`, `sendfile`) without a copy. Reads go into the buffer that
the handler lends. Everything runs on the thread of the loop.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from penstock.runtime.network import FileSlice, Listening, Part, Stream, StreamHandler

logger = logging.getLogger(__name__)

VECTOR_PARTS_MAX = 256  # well under IOV_MAX; longer queues need several calls
JOINED_BYTES_MAX = 1 << 16  # parts that are joined into one buffer; larger ones are not worth a copy
SENDFILE_BYTES_MAX = 1 << 30  # Linux sends at most 2 GiB - 4 KiB per call
ACCEPTS_PER_TURN = 64  # many new connections must not starve the existing ones
# Errors of sendfile that come from the file. All others come from a disconnected socket.
DISK_ERRORS = frozenset(
    getattr(errno, name)
    for name in ("EIO", "ENXIO", "ENODEV", "ESTALE", "EUCLEAN", "EBADMSG", "ENODATA", "EREMOTEIO")
    if hasattr(errno, name)  # some exist only on Linux
)
ACCEPT_RETRY_S = 0.1  # out of descriptors: wait until some are free


class SocketStream:
    """One connected socket. `penstock.runtime.network.Stream` documents the interface."""

    __slots__ = (
        "_closing",
        "_fd",
        "_handler",
        "_loop",
        "_queue",
        "_queued_bytes",
        "_reading",
        "_socket",
        "peer",
        "peer_host",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket, address: object) -> None:
        self._loop = loop
        self._socket = connected
        self._fd = connected.fileno()
        self._queue: deque[Part] = deque()
        self._queued_bytes = 0
        self._reading = False
        self._closing = False
        self._handler: StreamHandler | None = None
        host, port = (address[0], address[1]) if isinstance(address, tuple) else (str(address), 0)
        self.peer_host = str(host)
        self.peer = f"{host}:{port}"

    def start(self, handler: StreamHandler) -> None:
        self._handler = handler
        self.resume_reading()

    # -- reading

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if not self._reading and not self._closing and self._handler is not None:
            self._reading = True
            self._loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        handler = self._handler
        if handler is None:
            return
        try:
            size = self._socket.recv_into(handler.lend_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if size == 0:
            self._end(None)
            return
        handler.received(size)

    # -- writing

    def backlog_bytes(self) -> int:
        return self._queued_bytes

    def send(self, parts: Sequence[Part]) -> None:
        if self._handler is None or self._closing:
            return
        if not self._queue:
            # The usual case: one small buffer and an empty queue (bench "one-record latency", "small pipelined").
            part = parts[0] if len(parts) == 1 else _joined(parts)
            if part is not None and type(part) is not FileSlice:
                try:
                    sent = self._socket.send(part)  # type: ignore[arg-type]
                except (BlockingIOError, InterruptedError):
                    sent = 0
                except OSError as error:
                    self._end_soon(error)
                    return
                if sent == len(part):
                    return
                self._enqueue([memoryview(part)[sent:]])  # type: ignore[arg-type]
                self._loop.add_writer(self._fd, self._writable)
                return
        was_idle = not self._queue
        self._enqueue(parts)
        if was_idle:
            self._flush(wait_on_backlog=True)

    def is_reset(self) -> bool:
        # uvloop reports a reset only once. If that call still found bytes to read, no other call follows.
        return self._handler is not None and self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    def _enqueue(self, parts: Sequence[Part]) -> None:
        self._queue.extend(parts)
        for part in parts:
            self._queued_bytes += len(part)

    def _flush(self, *, wait_on_backlog: bool) -> None:
        """Send until the queue is empty or the socket accepts no more."""
        queue = self._queue
        try:
            while queue:
                head = queue[0]
                if type(head) is FileSlice:
                    self._send_slice(head)
                else:
                    self._send_buffers()
        except (BlockingIOError, InterruptedError):
            if wait_on_backlog:
                self._loop.add_writer(self._fd, self._writable)
        except OSError as error:
            self._end_soon(error)

    def _send_slice(self, head: FileSlice) -> None:
        try:
            sent = os.sendfile(
                self._fd, head.file.fileno(), head.position, min(head.size, SENDFILE_BYTES_MAX)
            )
        except OSError as error:
            if error.errno in DISK_ERRORS:
                # Later, because the owner may respond to requests of this very connection.
                self._loop.call_soon(head.failed, error)
            raise
        if sent == 0:
            raise OSError(errno.EIO, "the file is shorter than the slice to send", head.file.path)
        self._queued_bytes -= sent
        if sent == head.size:
            self._queue.popleft()
        else:
            self._queue[0] = FileSlice(head.file, head.position + sent, head.size - sent, head.owner)

    def _send_buffers(self) -> None:
        queue = self._queue
        vector: list[bytes | bytearray | memoryview] = []
        flags = 0
        for part in queue:
            if type(part) is FileSlice or len(vector) == VECTOR_PARTS_MAX:
                flags = socket.MSG_MORE  # send the header in one packet with the bytes that follow
                break
            vector.append(part)  # type: ignore[arg-type]
        sent = self._socket.sendmsg(vector, [], flags)
        self._queued_bytes -= sent
        for part in vector:
            size = len(part)
            if sent < size:
                queue[0] = memoryview(part)[sent:]
                return
            sent -= size
            queue.popleft()

    def _writable(self) -> None:
        self._flush(wait_on_backlog=False)
        if self._queue or self._handler is None:
            return
        self._loop.remove_writer(self._fd)
        if self._closing:
            self._end(None)
        else:
            self._handler.drained()

    # -- ending

    def close(self) -> None:
        if self._handler is None or self._closing:
            return
        self.pause_reading()
        self._closing = True
        if not self._queue:
            self._end_soon(None)

    def abort(self) -> None:
        self._end_soon(None)

    def _end_soon(self, reason: BaseException | None) -> None:
        """End after the current call of the handler has returned: `closed` must not run inside it."""
        if self._handler is not None:
            self.pause_reading()
            self._loop.call_soon(self._end, reason)

    def _end(self, reason: BaseException | None) -> None:
        handler, self._handler = self._handler, None
        if handler is None:
            return
        self._closing = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._queue.clear()
        self._queued_bytes = 0
        self._socket.close()
        handler.closed(reason)


def _joined(parts: Sequence[Part]) -> bytes | None:
    """Join small buffers, because tracking each costs more than the copy (bench "small pipelined", "raw produce,
    16 KiB"). None if they are large, or include a slice of a file."""
    if FileSlice in map(type, parts) or sum(map(len, parts)) > JOINED_BYTES_MAX:
        return None
    return b"".join(parts)  # type: ignore[arg-type]


class SocketListening:
    """A listening socket that passes every accepted stream to `accept`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        accept: Callable[[Stream], StreamHandler | None],
        buffers: SocketBuffers,
    ) -> None:
        self._loop = loop
        self._socket = listening
        self._accept = accept
        self._buffers = buffers
        self.host, self.port = listening.getsockname()[:2]
        self._is_open = True

    def start(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning(
                    "cannot accept connections on %s:%d: %s; retrying", self.host, self.port, error
                )
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(ACCEPT_RETRY_S, self._resume)
                return
            try:
                self._serve(connected, address)
            except OSError as error:
                logger.debug("the connection from %s ended while it was accepted: %s", address, error)
                connected.close()
            except Exception:
                logger.exception("accepting a connection from %s failed", address)
                connected.close()

    def _serve(self, connected: socket.socket, address: object) -> None:
        self._buffers.apply(connected)
        stream = SocketStream(self._loop, connected, address)
        handler = self._accept(stream)
        if handler is None:
            connected.close()
        else:
            stream.start(handler)

    def _resume(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket.fileno(), self._acceptable)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()


class SocketBuffers:
    """Socket options from `socket.send.buffer.bytes` and similar settings; -1 leaves them to the system."""

    def __init__(self, *, send_bytes: int = -1, receive_bytes: int = -1, backlog: int = 128) -> None:
        self.send_bytes = send_bytes
        self.receive_bytes = receive_bytes
        self.backlog = backlog

    def apply(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.send_bytes > 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_bytes)
        if self.receive_bytes > 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)


class SocketNetwork:
    """The real network."""

    def __init__(self, buffers: SocketBuffers | None = None) -> None:
        self._buffers = buffers or SocketBuffers()

    async def listen(
        self, host: str, port: int, accept: Callable[[Stream], StreamHandler | None]
    ) -> Listening:
        loop = asyncio.get_running_loop()
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(self._buffers.backlog)
        except OSError:
            listening.close()
            raise
        return SocketListening(loop, listening, accept, self._buffers)

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Stream:
        loop = asyncio.get_running_loop()
        family, _, _, _, address = await _address(loop, host, port)
        connected = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._buffers.apply(connected)
            await _connect(loop, connected, address)
        except BaseException:
            connected.close()
            raise
        stream = SocketStream(loop, connected, address)
        stream.start(handler(stream))
        return stream


async def _connect(
    loop: asyncio.AbstractEventLoop, connecting: socket.socket, address: tuple[object, ...]
) -> None:
    """Replaces `sock_connect`. uvloop's version resolves every address in libuv's thread pool, and a process that was
    forked after the pool was created crashes on exit, because it waits for threads that it does not have."""
    try:
        connecting.connect(address)
        return
    except (BlockingIOError, InterruptedError):
        pass
    is_decided: asyncio.Future[None] = loop.create_future()

    def decide() -> None:
        if not is_decided.done():
            is_decided.set_result(None)

    loop.add_writer(connecting.fileno(), decide)
    try:
        await is_decided
    finally:
        loop.remove_writer(connecting.fileno())
    error = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


async def _address(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]:
    """The first address of a host. Only a name needs a thread, a numeric address does not."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        # Not the resolver of the loop: see `_connect`.
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await loop.run_in_executor(None, look_up)
    return found[0]
