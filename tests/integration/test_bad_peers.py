"""Hostile and broken peers: the process survives, its memory stays bounded, and other clients are served.

`tests/wire` has the answers to single frames; here many of them hit a process.
"""

from __future__ import annotations

import gzip
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import crc32c
import pytest

from harness.admin import create_topics
from harness.brokers import Broker, answers
from harness.waiting import wait_until
from harness.wire import (
    FETCH,
    METADATA,
    PRODUCE,
    PRODUCE_VERSION,
    WireConnection,
    end_offset,
    frame,
    parse_produce_response,
    produce_body,
    record_batch,
    text,
)

MIB = 1 << 20
MAX_FRAME_BYTES = 104_857_600
ALL_TOPICS = struct.pack(">i", -1)  # of Metadata version 1
LINGER_NONE = struct.pack("ii", 1, 0)
NOW_MS = int(time.time() * 1000)

memory_is_bounded = pytest.mark.penstock_only("the heap size of a JVM is fixed")


@pytest.fixture
def broker(tmp_path: Path, make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    """A broker that accepts many connections and checks for idle ones every few seconds."""
    broker = make_broker(
        tmp_path / "broker",
        settings={"socket.listen.backlog.size": "1000", "connections.max.idle.ms": "60000"},
    )
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def others(broker: Broker) -> Iterator[Callable[[], None]]:
    """Check that a well-behaved client of the same broker is served."""
    create_topics(broker.bootstrap, "others")
    wait_until(lambda: _end_offset(broker) == 0, "the topic has a leader")
    with WireConnection(broker.port, timeout_seconds=60) as connection:
        body = produce_body("others", 0, record_batch([b"x" * 100], timestamp_ms=NOW_MS))

        def check() -> None:
            for _ in range(20):
                assert parse_produce_response(connection.request(PRODUCE, PRODUCE_VERSION, body))[0] == 0
            assert answers(broker.port)

        check()
        yield check
        check()


def _end_offset(broker: Broker) -> int:
    with WireConnection(broker.port) as connection:
        return end_offset(connection, "others", 0)


class Growth:
    """The growth of the process's memory from here on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._before = broker.resident_bytes()

    def check(self, *, mib_max: int) -> None:
        grown = self._broker.resident_bytes() - self._before
        assert grown < mib_max * MIB, f"grew by {grown / MIB:.0f} MiB"


@memory_is_bounded
def test_a_claimed_length_allocates_no_memory(broker: Broker, others: Callable[[], None]) -> None:
    growth = Growth(broker)
    with ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(WireConnection(broker.port))
            connection.socket.sendall(struct.pack(">i", MAX_FRAME_BYTES - 1) + bytes(1000))
        others()
        growth.check(mib_max=64)


@memory_is_bounded
def test_a_peer_that_never_reads_is_disconnected(broker: Broker, others: Callable[[], None]) -> None:
    create_topics(broker.bootstrap, *(f"topic-{number}" for number in range(300)))
    growth = Growth(broker)
    with ExitStack() as stack:
        greedy = [stack.enter_context(WireConnection(broker.port)) for _ in range(10)]
        for connection in greedy:
            _send_until_full(connection.socket, _metadata_requests())
        others()
        growth.check(mib_max=64)


@memory_is_bounded
def test_a_consumer_that_never_reads_takes_no_memory(broker: Broker, others: Callable[[], None]) -> None:
    create_topics(broker.bootstrap, "large", config={"max.message.bytes": str(20 * MIB)})
    wait_until(lambda: _is_led(broker, "large"), "the topic has a leader")
    with WireConnection(broker.port) as connection:
        for _ in range(4):
            batch = record_batch([bytes(10 * MIB)], timestamp_ms=NOW_MS)
            body = produce_body("large", 0, batch)
            assert parse_produce_response(connection.request(PRODUCE, PRODUCE_VERSION, body))[0] == 0
    growth = Growth(broker)
    with ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(WireConnection(broker.port))
            for _ in range(10):
                connection.send(FETCH, 4, _fetch_body("large", max_bytes=50 * MIB))
        others()
        growth.check(mib_max=64)


@memory_is_bounded
def test_a_thousand_connections(broker: Broker, others: Callable[[], None]) -> None:
    growth = Growth(broker)
    files_before = broker.open_file_count()
    with ExitStack() as stack:
        connections = [stack.enter_context(WireConnection(broker.port)) for _ in range(1_000)]
        for connection in connections:
            connection.send(METADATA, 1, ALL_TOPICS)
        for connection in connections:
            connection.receive()
        others()
        growth.check(mib_max=100)
    wait_until(lambda: broker.open_file_count() <= files_before + 10, "their files are closed")


def test_peers_that_connect_and_disconnect_leave_nothing_behind(
    broker: Broker, others: Callable[[], None]
) -> None:
    rng = random.Random(4)
    files_before = broker.open_file_count()
    for number in range(500):
        connection = WireConnection(broker.port)
        if number % 2:
            # Closed by a reset, not by FIN.
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
        request = frame(struct.pack(">hhi", METADATA, 1, 7) + text("gone") + ALL_TOPICS)
        connection.socket.sendall(request[: rng.randint(0, len(request))])
        connection.socket.close()
    others()
    wait_until(lambda: broker.open_file_count() <= files_before + 20, "their files are closed")


def test_random_bytes_on_many_connections(broker: Broker, others: Callable[[], None]) -> None:
    rng = random.Random(5)
    for _ in range(300):
        with WireConnection(broker.port) as connection:
            noise = rng.randbytes(rng.randint(1, 3_000))
            if rng.random() < 0.7:  # a frame of the right length, with an API key and version that may exist
                noise = frame(struct.pack(">hh", rng.randint(0, 90), rng.randint(0, 20)) + noise)
            connection.socket.sendall(noise)
            connection.socket.shutdown(socket.SHUT_WR)
    others()


def test_producers_that_disconnect_while_they_wait(broker: Broker, others: Callable[[], None]) -> None:
    create_topics(broker.bootstrap, "synced", config={"flush.messages": "1"})
    wait_until(lambda: _is_led(broker, "synced"), "the topic has a leader")
    for _ in range(50):
        with WireConnection(broker.port) as connection:
            for _ in range(5):
                batch = record_batch([b"x"], timestamp_ms=NOW_MS)
                connection.send(PRODUCE, PRODUCE_VERSION, produce_body("synced", 0, batch))
    others()


@memory_is_bounded
@pytest.mark.parametrize("config", [{}, {"compression.type": "zstd"}], ids=["kept", "recompressed"])
def test_a_batch_that_decompresses_to_gigabytes(
    broker: Broker, others: Callable[[], None], config: dict[str, str]
) -> None:
    create_topics(broker.bootstrap, "bombed", config=config)
    wait_until(lambda: _is_led(broker, "bombed"), "the topic has a leader")
    growth = Growth(broker)
    bomb = _bomb(expanded_bytes=1_500 * MIB)
    for _ in range(3):
        with WireConnection(broker.port) as connection:
            connection.send(PRODUCE, PRODUCE_VERSION, produce_body("bombed", 0, bomb))
            _correlation_id, payload = connection.receive()
            assert parse_produce_response(payload)[0] != 0
        others()
        growth.check(mib_max=300)


def test_an_idle_connection_is_closed(tmp_path: Path, make_broker: Callable[..., Broker]) -> None:
    broker = make_broker(tmp_path / "broker", settings={"connections.max.idle.ms": "500"})
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            connection.request(METADATA, 1, ALL_TOPICS)
            assert connection.is_closed_by_peer()
    finally:
        broker.close()


def test_the_connection_limit_of_an_address_is_enforced(
    tmp_path: Path, make_broker: Callable[..., Broker]
) -> None:
    broker = make_broker(tmp_path / "broker", settings={"max.connections.per.ip": "20"})
    broker.start()
    try:
        with ExitStack() as stack:
            wait_until(lambda: broker.is_alive(), "it serves")
            served = [stack.enter_context(WireConnection(broker.port)) for _ in range(15)]
            for connection in served:
                connection.request(METADATA, 1, ALL_TOPICS)
            more = [stack.enter_context(WireConnection(broker.port)) for _ in range(30)]
            assert any(connection.is_closed_by_peer() for connection in more[-5:])
            for connection in served:
                connection.request(METADATA, 1, ALL_TOPICS)
    finally:
        broker.close()


def _is_led(broker: Broker, topic: str) -> bool:
    with WireConnection(broker.port) as connection:
        return end_offset(connection, topic, 0) >= 0


def _metadata_requests() -> bytes:
    request = frame(struct.pack(">hhi", METADATA, 1, 7) + text("greedy") + ALL_TOPICS)
    return request * 2_000


def _send_until_full(peer: socket.socket, data: bytes) -> None:
    """Send repeatedly until the peer stops reading, as it should, or 100 MiB are sent."""
    peer.settimeout(0.3)
    sent = 0
    while sent < 100 * MIB:
        try:
            sent += peer.send(data)
        except TimeoutError:
            return


def _fetch_body(topic: str, *, max_bytes: int) -> bytes:
    head = struct.pack(">iiiib", -1, 0, 1, max_bytes, 0)
    return head + struct.pack(">i", 1) + text(topic) + struct.pack(">iiqi", 1, 0, 0, max_bytes)


def _bomb(*, expanded_bytes: int) -> bytes:
    """A batch with one gzip-compressed record of zeroes: a thousandth of it on the wire."""
    plain = record_batch([b""], timestamp_ms=NOW_MS)
    zeroes = gzip.compress(bytes(100 * MIB), 9) * (expanded_bytes // (100 * MIB))  # members of one stream
    counted = struct.pack(">h", 1) + plain[23:61]
    checked = counted + zeroes
    rest = struct.pack(">ibI", -1, 2, crc32c.crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(rest)) + rest
