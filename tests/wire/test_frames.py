"""Malformed requests: the connection is closed, or the response is that of Kafka.

Also run against Apache Kafka (`--broker=kafka`), with the same bytes, except marked tests.
"""

from __future__ import annotations

import random
import struct

import pytest

from harness.brokers import Broker
from harness.wire import API_VERSIONS, METADATA, WireConnection, frame, text

UNKNOWN_VERSION = 99
UNSUPPORTED_VERSION = 35
FRAME_BYTES_MAX = 104_857_600  # socket.request.max.bytes


def header(key: int, version: int, *, client_id: bytes = text("wire"), correlation_id: int = 7) -> bytes:
    return struct.pack(">hhi", key, version, correlation_id) + client_id


def metadata_of_no_topic(tagged_fields: bytes) -> bytes:
    """A Metadata request of version 9, which is flexible, with the tagged fields of its end."""
    return frame(header(METADATA, 9) + b"\x00" + b"\x01\x00\x00\x00" + tagged_fields)


CLOSED = {
    "noise": random.Random(1).randbytes(300),
    "a request of another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a frame of nothing": frame(b""),
    "half a header": frame(b"\x00\x12\x00\x00"),
    "a negative length": b"\xff\xff\xff\xff",
    "the least length": b"\x80\x00\x00\x00",
    "one byte too many": struct.pack(">i", FRAME_BYTES_MAX + 1),
    "an API that does not exist": frame(header(999, 0)),
    "a negative API key": frame(header(-1, 0)),
    "a version that does not exist": frame(header(METADATA, UNKNOWN_VERSION)),
    "a negative version": frame(header(METADATA, -1)),
    "no client id at all": frame(struct.pack(">hhi", API_VERSIONS, 0, 7)),
    "a client id longer than the frame": frame(
        header(API_VERSIONS, 0, client_id=struct.pack(">h", 500) + b"ab")
    ),
    "no body": frame(header(METADATA, 1)),
    "half a body": frame(header(METADATA, 1) + b"\x00\x00"),
    "two billion topics": frame(header(METADATA, 1) + b"\x7f\xff\xff\xff"),
    "a name longer than the frame": frame(header(METADATA, 1) + struct.pack(">ih", 1, 100) + b"abc"),
    "null where it is not allowed": frame(header(METADATA, 4) + struct.pack(">ih", 1, -1) + b"\x00"),
    "a tagged field longer than the frame": metadata_of_no_topic(b"\x01\x05\x7fab"),
    "a varint without end": metadata_of_no_topic(b"\x80\x80\x80\x80\x80\x80\x00"),
}

ANSWERED = {
    "bytes after the end": frame(header(METADATA, 1) + struct.pack(">i", 0) + b"trailing"),
    "a negative count where null is allowed": frame(header(METADATA, 1) + struct.pack(">i", -2)),
    "a flag that is neither 0 nor 1": frame(header(METADATA, 4) + struct.pack(">ib", 0, 2)),
    "no client id": frame(header(METADATA, 1, client_id=struct.pack(">h", -1)) + struct.pack(">i", 0)),
    "a client id in another encoding": frame(
        header(METADATA, 1, client_id=struct.pack(">h", 6) + b"M\xfcller") + struct.pack(">i", 0)
    ),
    "tagged fields that nobody knows": metadata_of_no_topic(b"\x02\x63\x01x\x64\x02yz"),
    "tagged fields twice": metadata_of_no_topic(b"\x02\x63\x01x\x63\x02yz"),
    "tagged fields out of order": metadata_of_no_topic(b"\x02\x64\x01x\x63\x02yz"),
}


@pytest.mark.parametrize("sent", CLOSED.values(), ids=CLOSED.keys())
def test_an_invalid_request_closes_the_connection(cluster: Broker, sent: bytes) -> None:
    with WireConnection(cluster.port) as connection:
        connection.socket.sendall(sent)

        assert connection.is_closed_by_peer()


@pytest.mark.parametrize("sent", ANSWERED.values(), ids=ANSWERED.keys())
def test_an_unusual_but_valid_request_gets_a_response(cluster: Broker, sent: bytes) -> None:
    with WireConnection(cluster.port) as connection:
        connection.socket.sendall(sent)

        correlation_id, _ = connection.receive()
        assert correlation_id == 7


@pytest.mark.parametrize("version", [5, UNKNOWN_VERSION, 2**15 - 1, -1])
def test_an_unknown_version_of_api_versions_gets_a_version_0_response_with_the_supported_versions(
    cluster: Broker, version: int
) -> None:
    with WireConnection(cluster.port) as connection:
        tagged_fields = b"\x00" if version > 0 else b""
        connection.socket.sendall(frame(header(API_VERSIONS, version) + tagged_fields))

        correlation_id, answer = connection.receive()
        error_code, api_count = struct.unpack_from(">hi", answer)
        assert (correlation_id, error_code) == (7, UNSUPPORTED_VERSION)
        assert len(answer) == 6 + api_count * 6
        served = {key: (first, last) for key, first, last in struct.iter_unpack(">hhh", answer[6:])}
        assert served[API_VERSIONS] == (0, 4)


def test_a_connection_that_is_closed_first_sends_the_earlier_responses(cluster: Broker) -> None:
    good = frame(header(METADATA, 1) + struct.pack(">i", 0))
    with WireConnection(cluster.port) as connection:
        connection.socket.sendall(good)
        connection.receive()
        connection.socket.sendall(frame(header(999, 0)) + good)

        assert connection.is_closed_by_peer()


def test_a_request_may_come_byte_by_byte(cluster: Broker) -> None:
    sent = frame(header(METADATA, 1) + struct.pack(">i", 0)) * 2
    with WireConnection(cluster.port) as connection:
        for byte in sent:
            connection.socket.sendall(bytes((byte,)))

        assert [connection.receive()[0] for _ in range(2)] == [7, 7]


def test_an_incomplete_frame_does_not_affect_other_clients(cluster: Broker) -> None:
    with WireConnection(cluster.port) as half, WireConnection(cluster.port) as whole:
        half.socket.sendall(struct.pack(">i", FRAME_BYTES_MAX) + b"\x00\x12")

        assert whole.request(METADATA, 1, struct.pack(">i", 0))


def test_thousands_of_pipelined_requests_get_responses_in_order(cluster: Broker) -> None:
    count = 5000
    sent = b"".join(
        frame(header(METADATA, 1, correlation_id=number) + struct.pack(">i", 0)) for number in range(count)
    )
    with WireConnection(cluster.port) as connection, WireConnection(cluster.port) as other:
        connection.socket.sendall(sent)
        assert other.request(METADATA, 1, struct.pack(">i", 0))

        assert [connection.receive()[0] for _ in range(count)] == list(range(count))
