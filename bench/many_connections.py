"""Eight connections at once, and the CPU time of the broker.

One thread serves all connections: it sends a prepared request whenever a response is complete, and only counts the
bytes of responses. All responses of a connection must have the same size. Before that, one response to each frame is
checked for errors.

On two cores the broker and this thread have one core each. With Penstock, this thread is idle for a third of a run of
fetches and most of a run of small requests, so the broker is the limit. Other load on the machine changes the figures
per second more than the CPU times. Apache Kafka needs several rounds until its code is compiled: compare late rounds.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.line import Group, Line
from bench.memory import back_page_cache
from bench.peers import Peer
from bench.wire import Wire, fetch_frame, first_batch_position, new_name, produce

CONNECTIONS = 8
MIB = 1 << 20
BUFFER_BYTES = 4 * MIB
FETCHES = 600  # on each connection; with fewer, a run takes some tenths of a second, and noise decides
STUCK_S = 60.0


@dataclass(frozen=True)
class Measured:
    seconds: float
    received_bytes: int
    times_us: list[float]
    """Of each request, if one was in flight; sorted."""


class _Load:
    """One connection: `requests` times the same frame, `in_flight` of them at a time."""

    __slots__ = (
        "_buffer",
        "_missing",
        "_response_bytes",
        "_sent_at",
        "frame",
        "left",
        "outstanding",
        "received_bytes",
        "socket",
        "times_us",
    )

    def __init__(self, port: int, frame: bytes, *, requests: int, in_flight: int, buffer: memoryview) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame = frame
        self.left = requests - in_flight
        self.outstanding = in_flight
        self.received_bytes = 0
        self.times_us: list[float] = []
        """Of each request, if only one is in flight."""
        self._buffer = buffer
        self._missing = 0
        """Bytes of the present response that have not arrived; 0 between two responses."""
        self._response_bytes: int | None = None
        self._sent_at = time.perf_counter_ns()
        self.socket.sendall(frame * in_flight)

    def readable(self) -> None:
        """Read once; send a request for every response that is complete."""
        if self._missing > MIB // 4:  # the middle of a large response
            got = self._receive(min(self._missing, BUFFER_BYTES))
            self._missing -= got
            if not self._missing:
                self._completed(1)
            return
        got = self._receive(MIB // 4)
        position = completed = 0
        while position < got:
            if not self._missing:
                # A length is never split here: responses are read from their beginning, and are small or read whole.
                if got - position < 4:
                    rest = self.socket.recv(4 - (got - position), socket.MSG_WAITALL)
                    self.received_bytes += len(rest)
                    head = bytes(self._buffer[position:got]) + rest
                    self._begin_response(struct.unpack(">i", head)[0])
                    break
                self._begin_response(struct.unpack_from(">i", self._buffer, position)[0])
                position += 4
            taken = min(self._missing, got - position)
            position += taken
            self._missing -= taken
            completed += not self._missing
        if completed:
            self._completed(completed)

    def _begin_response(self, size: int) -> None:
        if self._response_bytes is None:
            self._response_bytes = size
        elif size != self._response_bytes:
            raise RuntimeError(f"a response has {size} bytes, and the first one had {self._response_bytes}")
        self._missing = size

    def _receive(self, bytes_max: int) -> int:
        got = self.socket.recv_into(self._buffer, bytes_max)
        if not got:
            raise ConnectionError("the broker closed the connection")
        self.received_bytes += got
        return got

    def _completed(self, count: int) -> None:
        self.outstanding -= count
        if self.outstanding == 0:
            now = time.perf_counter_ns()
            self.times_us.append((now - self._sent_at) / 1000)
            self._sent_at = now
        again = min(count, self.left)
        if again:
            self.left -= again
            self.outstanding += again
            self.socket.sendall(self.frame * again)


def run_load(
    ports: int | Sequence[int], frames: Sequence[bytes], *, requests: int, in_flight: int
) -> Measured:
    """Send each frame `requests` times on a connection of its own, all at once. `ports` has one for each, or is one for
    all."""
    if isinstance(ports, int):
        ports = [ports] * len(frames)
    poll = select.epoll()
    buffer = memoryview(bytearray(BUFFER_BYTES))
    began = time.perf_counter()
    loads = [
        _Load(port, frame, requests=requests, in_flight=in_flight, buffer=buffer)
        for port, frame in zip(ports, frames, strict=True)
    ]
    by_fd = {load.socket.fileno(): load for load in loads}
    try:
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN)
        working = len(loads)
        while working:
            ready = poll.poll(STUCK_S)
            if not ready:
                raise TimeoutError("the broker did not answer in time")
            for fd, _ in ready:
                load = by_fd[fd]
                load.readable()
                if not load.outstanding and not load.left:
                    poll.unregister(fd)
                    working -= 1
        seconds = time.perf_counter() - began
    finally:
        poll.close()
        for load in loads:
            load.socket.close()
    return Measured(
        seconds,
        sum(load.received_bytes for load in loads),
        sorted(each for load in loads for each in load.times_us),
    )


def _produce_frames(topic: str, batch_bytes: int) -> list[bytes]:
    return [produce(topic, batch_bytes, partition=number).frame for number in range(CONNECTIONS)]


def _check_produced(wire: Wire, frames: Sequence[bytes]) -> None:
    for frame in frames:
        wire.socket.sendall(frame)
        error = wire.produce_error(wire.receive())
        if error:
            raise RuntimeError(f"produce was refused: {error!r}")


def _fetch_frames(wire: Wire, topic: str) -> list[bytes]:
    """Fetches of the same megabyte of a new topic: the broker is measured, not the page cache."""
    wire.create_topic(topic)
    made = produce(topic, 128 << 10)
    wire.pump(made.frame, requests=8 * MIB // len(made.frame) + 1, in_flight=5)
    frame = fetch_frame(topic, 0)
    first_batch_position(wire, frame)  # raises if the response is an error, or has no records
    return [frame] * CONNECTIONS


def eight_produce(peer: Peer) -> dict[str, float]:
    topic = new_name("eight")
    total_bytes = 384 * MIB
    with Wire(peer.port) as wire:
        wire.create_topic(topic, partitions=CONNECTIONS)
        wire.await_leaders(topic, partitions=CONNECTIONS)
        frames = _produce_frames(topic, 16 << 10)
        requests = total_bytes // CONNECTIONS // len(frames[0])
        back_page_cache(peer.folder, 2 * total_bytes)
        _check_produced(wire, frames)
        run_load(peer.port, frames, requests=requests // 4, in_flight=5)
        measured = run_load(peer.port, frames, requests=requests, in_flight=5)
        wire.delete_topic(topic)
    sent_bytes = requests * CONNECTIONS * len(frames[0])
    return {"eight connections, produce 16 KiB": sent_bytes / 1e6 / measured.seconds}


def eight_fetch(peer: Peer) -> dict[str, float]:
    topic = new_name("eight")
    with Wire(peer.port) as wire:
        frames = _fetch_frames(wire, topic)
        run_load(peer.port, frames, requests=150, in_flight=1)
        measured = run_load(peer.port, frames, requests=FETCHES, in_flight=1)
        wire.delete_topic(topic)
    return {"eight connections, fetch 1 MiB": measured.received_bytes / 1e6 / measured.seconds}


def eight_small(peer: Peer) -> dict[str, float]:
    topic = new_name("eight")
    with Wire(peer.port) as wire:
        wire.create_topic(topic, partitions=CONNECTIONS)
        wire.await_leaders(topic, partitions=CONNECTIONS)
        frames = _produce_frames(topic, 1)
        _check_produced(wire, frames)
        run_load(peer.port, frames, requests=1_000, in_flight=8)
        requests = 5_000
        pipelined = run_load(peer.port, frames, requests=requests, in_flight=8)
        run_load(peer.port, frames, requests=300, in_flight=1)
        times = run_load(peer.port, frames, requests=1_500, in_flight=1).times_us
    return {
        "eight connections, small requests": requests * CONNECTIONS / pipelined.seconds,
        "eight connections, one record, p99": times[int(len(times) * 0.99)],
    }


def cpu_time(peer: Peer) -> dict[str, float]:
    """The CPU time of the broker alone, without the client's."""
    topic = new_name("cpu")
    with Wire(peer.port) as wire:
        wire.create_topic(topic, partitions=CONNECTIONS)
        wire.await_leaders(topic, partitions=CONNECTIONS)
        large, small = _produce_frames(topic, 16 << 10), _produce_frames(topic, 1)
        _check_produced(wire, [*large, *small])
        found = {}
        for name, count in (("one connection", 1), ("eight connections", CONNECTIONS)):
            requests = 128 * MIB // count // len(large[0])
            used_s = _cpu_s(peer, large[:count], requests=requests, in_flight=5)
            found[f"CPU per GB produced, {name}"] = used_s * 1e9 / (requests * count * len(large[0]))
            requests = 40_000 // count
            used_s = _cpu_s(peer, small[:count], requests=requests, in_flight=8)
            found[f"CPU per million requests, {name}"] = used_s * 1e6 / (requests * count)
        wire.delete_topic(topic)
        topic = new_name("cpu")
        used_s = _cpu_s(peer, _fetch_frames(wire, topic), requests=FETCHES, in_flight=1)
        found["CPU per GB fetched, eight connections"] = used_s * 1e9 / (FETCHES * CONNECTIONS * MIB)
        wire.delete_topic(topic)
    return found


def _cpu_s(peer: Peer, frames: Sequence[bytes], *, requests: int, in_flight: int) -> float:
    run_load(peer.port, frames, requests=requests, in_flight=in_flight)  # the JVM compiles what runs often
    before = peer.cpu_s()
    run_load(peer.port, frames, requests=requests, in_flight=in_flight)
    return max(0.01, peer.cpu_s() - before)  # the clock of the system ticks every 10 ms


MANY_CONNECTION_LINES = [
    Group("eight-produce", eight_produce, [Line("eight connections, produce 16 KiB", "MB/s", True, 1.5)], 5),
    Group("eight-fetch", eight_fetch, [Line("eight connections, fetch 1 MiB", "MB/s", True, 1.5)], 5),
    Group(
        "eight-small",
        eight_small,
        [
            Line("eight connections, small requests", "requests/s", True, 1.5),
            Line("eight connections, one record, p99", "µs", False, 0.9),
        ],
        5,
    ),
    Group(
        "cpu",
        cpu_time,
        [
            Line("CPU per GB produced, one connection", "s", False, 0.4),
            Line("CPU per million requests, one connection", "s", False, 0.4),
            Line("CPU per GB produced, eight connections", "s", False, 0.4),
            Line("CPU per million requests, eight connections", "s", False, 0.4),
            Line("CPU per GB fetched, eight connections", "s", False, 0.4),
        ],
        3,
    ),
]
