"""Kafka's protocol by hand: frames, a produce request and a record batch, built with `struct` alone.

For tests that send what no client library would, or need to know exactly which request was answered. It shares no code
with the broker, so that both cannot be wrong together.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from types import TracebackType

import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
PRODUCE_VERSION = 7  # the last version but one that is not flexible, so easy to write by hand
LIST_OFFSETS_VERSION = 1
LATEST = -1


class WireConnection:
    """One connection: requests out, responses in, in order."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", timeout_seconds: float = 30.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> WireConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, api_key: int, version: int, body: bytes) -> int:
        """Send a request with a header of version 1; its correlation id."""
        self._correlation_id += 1
        header = struct.pack(">hhi", api_key, version, self._correlation_id) + text("wire")
        self.send_payload(header + body)
        return self._correlation_id

    def send_payload(self, payload: bytes) -> None:
        """Send a frame with any content."""
        self.socket.sendall(frame(payload))

    def receive(self) -> tuple[int, bytes]:
        """The next response: correlation id and body. Raises EOFError if the peer closed."""
        payload = self.receive_payload()
        return struct.unpack(">i", payload[:4])[0], payload[4:]

    def receive_payload(self) -> bytes:
        """The next frame without its length."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def request(self, api_key: int, version: int, body: bytes) -> bytes:
        expected = self.send(api_key, version, body)
        correlation_id, payload = self.receive()
        assert correlation_id == expected
        return payload

    def is_closed_by_peer(self) -> bool:
        """Wait until the peer closes (True) or sends something (False)."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise EOFError(f"closed after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def produce_body(
    topic: str, partition: int, batch: bytes, *, acks: int = -1, timeout_ms: int = 30_000
) -> bytes:
    """A produce request (version 3 to 8) of one batch to one partition."""
    head = struct.pack(">hhii", -1, acks, timeout_ms, 1) + text(topic)
    return head + struct.pack(">iii", 1, partition, len(batch)) + batch


def parse_produce_response(payload: bytes) -> tuple[int, int]:
    """Error code and base offset of the only partition in a produce response (version 5 to 7)."""
    topic_bytes = struct.unpack_from(">h", payload, 4)[0]
    _partition, error_code, base_offset = struct.unpack_from(">ihq", payload, 6 + topic_bytes + 4)
    return error_code, base_offset


def end_offset(connection: WireConnection, topic: str, partition: int) -> int:
    """The offset after the last readable record; -1 with an error."""
    body = struct.pack(">ii", -1, 1) + text(topic) + struct.pack(">iiq", 1, partition, LATEST)
    payload = connection.request(LIST_OFFSETS, LIST_OFFSETS_VERSION, body)
    at = 4 + 2 + len(topic.encode()) + 4
    _partition, error_code, _timestamp, offset = struct.unpack_from(">ihqq", payload, at)
    return offset if error_code == 0 else -1


def record_batch(
    values: Sequence[bytes], *, timestamp_ms: int, producer_id: int = -1, epoch: int = -1, sequence: int = -1
) -> bytes:
    """An uncompressed batch of format v2, with no keys and no headers."""
    records = b"".join(_record(delta, value) for delta, value in enumerate(values))
    counted = struct.pack(
        ">hiqqqhii",
        0,
        len(values) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        epoch,
        sequence,
        len(values),
    )
    checked = counted + records
    rest = struct.pack(">ibI", -1, 2, crc32c.crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(rest)) + rest


def _record(offset_delta: int, value: bytes) -> bytes:
    body = b"\x00" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """Zigzag, then seven bits per byte, low bits first."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
