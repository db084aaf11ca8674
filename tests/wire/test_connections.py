"""Too many clients, clients that do not read, and expensive requests do not affect other clients.

The tests check the order and not the time: while the responses of one client wait, or are still in progress, another
client gets all of its own.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Iterator

import pytest

from harness.brokers import Broker, PenstockBroker
from harness.requests import batch, create_topic, fetch, fetch_request, produce, values
from harness.waiting import wait_until
from harness.wire import METADATA, WireConnection, frame
from penstock.protocol.apis import ApiKey
from penstock.protocol.codec import codec
from penstock.protocol.headers import encode_request_header
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import kernel
from penstock.records.batch import Compression
from penstock.records.compression import compress

pytestmark = pytest.mark.penstock_only("what Penstock promises beyond Kafka")

MIB = 1 << 20
NO_TOPICS = struct.pack(">i", 0)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockBroker]:
    """A broker with tight limits on connections."""
    broker = PenstockBroker(
        tmp_path_factory.mktemp("limited"),
        settings={
            "max.connections": "12",
            "max.connections.per.ip": "8",
            "max.connections.per.ip.overrides": "127.0.0.3:2",
        },
    )
    broker.start()
    yield broker
    broker.close()


def connect_from(host: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(host, 0))


def is_served(connected: socket.socket) -> bool:
    """Whether a request gets a response and not a closed connection."""
    try:
        connected.sendall(frame(struct.pack(">hhih", METADATA, 1, 7, -1) + NO_TOPICS))
        return connected.recv(1) != b""
    except ConnectionError:
        return False


def is_accepted(host: str, port: int) -> bool:
    with connect_from(host, port) as connected:
        return is_served(connected)


def open_until_refused(stack: contextlib.ExitStack, host: str, port: int) -> list[socket.socket]:
    """Opens all connections that a host gets; it may take a moment until the broker has closed earlier ones."""
    connections = []
    while True:
        connected = stack.enter_context(connect_from(host, port))
        if not is_served(connected):
            return connections
        connections.append(connected)


@pytest.mark.parametrize(("host", "allowed"), [("127.0.0.2", 8), ("127.0.0.3", 2)])
def test_a_host_gets_max_connections_per_ip(limited: PenstockBroker, host: str, allowed: int) -> None:
    with contextlib.ExitStack() as stack:
        connections = open_until_refused(stack, host, limited.port)

        assert len(connections) == allowed
        with connect_from("127.0.0.4", limited.port) as other:
            assert is_served(other)
        connections[0].close()
        wait_until(lambda: is_accepted(host, limited.port), "the place is free again")


def test_all_hosts_together_get_max_connections(limited: PenstockBroker) -> None:
    with contextlib.ExitStack() as stack:
        connections = open_until_refused(stack, "127.0.0.2", limited.port)
        connections += open_until_refused(stack, "127.0.0.4", limited.port)

        assert len(connections) == 12
        assert all(is_answered_again(connection) for connection in connections)


def is_answered_again(connected: socket.socket) -> bool:
    while select.select([connected], [], [], 0)[0]:
        if not connected.recv(4096):
            return False
    return is_served(connected)


# -- peers that do not read


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this module's own, because its memory is measured."""
    broker = PenstockBroker(tmp_path_factory.mktemp("unread"))
    broker.start()
    with WireConnection(broker.port) as connection:
        create_topic(connection, "large")
        for number in range(8):
            produce(connection, "large", batch(b"%d" % number + bytes(1_000_000)))
        create_topic(connection, "small")
        create_topic(connection, "zipped", compression_type="gzip")
    yield broker
    broker.close()


@pytest.mark.parametrize("version", [11, 3, 0], ids=["from files", "converted", "converted, oldest"])
def test_a_peer_that_does_not_read_costs_neither_memory_nor_others_time(broker: Broker, version: int) -> None:
    request = encoded(fetch_request("large", max_bytes=50 * MIB, partition_max_bytes=50 * MIB), version)
    with WireConnection(broker.port) as stuck, WireConnection(broker.port) as other:
        ask_and_read(other)
        before_bytes = broker.resident_bytes()
        stuck.socket.sendall(request * 200)
        for _ in range(200):
            ask_and_read(other)
        grown_bytes = broker.resident_bytes() - before_bytes
        answers = [len(stuck.receive_payload()) for _ in range(200)]

    assert grown_bytes < 30 * MIB
    assert len(set(answers)) == 1
    assert answers[0] > 3 * MIB


def test_hundreds_of_idle_connections_cost_little(broker: Broker) -> None:
    with contextlib.ExitStack() as stack:
        before_bytes = broker.resident_bytes()
        connections = [stack.enter_context(WireConnection(broker.port)) for _ in range(500)]
        for connection in connections:
            ask_and_read(connection)

        assert broker.resident_bytes() - before_bytes < 10 * MIB


def test_incomplete_large_frames_use_only_the_memory_of_received_bytes(broker: Broker) -> None:
    with contextlib.ExitStack() as stack:
        before_bytes = broker.resident_bytes()
        for _ in range(50):
            connection = stack.enter_context(WireConnection(broker.port))
            connection.socket.sendall(struct.pack(">i", 100 * MIB) + bytes(10_000))
        ask_and_read(stack.enter_context(WireConnection(broker.port)))

        assert broker.resident_bytes() - before_bytes < 20 * MIB


# -- peers that ask for much work


def bomb() -> bytes:
    """A few kilobytes that become a hundred megabytes."""
    return batch(bytes(100 * MIB), compression=Compression.ZSTD)


BOMBS = {
    "produced": ("small", 9, bomb),
    "to be compressed anew": ("zipped", 9, bomb),
    "in a message set": ("small", 2, lambda: old_bomb()),
}


def old_bomb() -> bytes:
    """The same for the format of 2016, up to its limit."""
    message = kernel.write_messages([(0, -1, None, None, ())], magic=1)
    inner = bytes(compress(Compression.GZIP, bytes(message) * (7 * MIB // len(message))))
    return bytes(kernel.write_messages([(0, -1, None, inner, ())], magic=1, codec=Compression.GZIP))


@pytest.mark.parametrize(("topic", "version", "make"), BOMBS.values(), ids=BOMBS.keys())
def test_records_that_are_slow_to_validate_do_not_delay_other_clients(
    broker: Broker, topic: str, version: int, make: object
) -> None:
    records = make()  # type: ignore[operator]
    request = produce_request(topic, records)
    with WireConnection(broker.port) as hostile, WireConnection(broker.port) as other:
        before_bytes = broker.resident_bytes()
        hostile.socket.sendall(encoded(request, version) * 8)
        for _ in range(50):
            ask_and_read(other)
        early = 0
        while early < 8 and select.select([hostile.socket], [], [], 0)[0]:
            hostile.receive_payload()
            early += 1
        assert early < 8  # much of it is still to be done
        for _ in range(8 - early):
            hostile.receive_payload()
        grown_bytes = broker.resident_bytes() - before_bytes

    assert grown_bytes < 300 * MIB  # one at a time, and released


def test_many_decompression_bombs_in_one_request_do_not_delay_other_clients(broker: Broker) -> None:
    records = bomb()
    request = produce_request("small", records)
    request.topic_data[0].partition_data *= 8
    with WireConnection(broker.port) as hostile, WireConnection(broker.port) as other:
        hostile.socket.sendall(encoded(request, 9))
        for _ in range(50):
            ask_and_read(other)
        assert not select.select([hostile.socket], [], [], 0)[0]
        hostile.receive_payload()


def test_a_slow_request_is_not_overtaken_by_the_next_of_its_connection(broker: Broker) -> None:
    with WireConnection(broker.port) as connection:
        start = produce(connection, "small", batch(b"start")).base_offset
        slow, quick = batch(bytes(20 * MIB), compression=Compression.ZSTD), batch(b"quick")
        connection.socket.sendall(
            encoded(produce_request("small", slow), 9) + encoded(produce_request("small", quick), 9)
        )
        connection.receive_payload()
        connection.receive_payload()

        read = values(
            fetch(
                connection, "small", offset=start, partition_max_bytes=200 * MIB, max_bytes=200 * MIB
            ).records
        )
    assert [len(value or b"") for value in read] == [5, 20 * MIB, 5]


def ask_and_read(connection: WireConnection) -> None:
    assert connection.request(METADATA, 1, NO_TOPICS)


def produce_request(topic: str, records: bytes) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
        ],
    )


def encoded(request: FetchRequest | ProduceRequest, version: int) -> bytes:
    key = ApiKey.FETCH if isinstance(request, FetchRequest) else ApiKey.PRODUCE
    return frame(
        encode_request_header(key, version, 1, "wire") + codec(type(request), version).encode(request)
    )
