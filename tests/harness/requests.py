"""Typed requests over a plain socket: one line per request, and the decoded response.

The codecs are Penstock's. Sending the same requests to Kafka (`--broker=kafka`) shows that they are right.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import crc32c

from harness.waiting import wait_until
from harness.wire import WireConnection, end_offset, frame
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header, read_response_header
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from penstock.records import kernel
from penstock.records.batch import CRC_START, HEADER, LENGTH_BYTES

CREATE_TOPICS_VERSION = 5
PRODUCE_VERSION = 9
FETCH_VERSION = 11
"""Versions that both Penstock and Apache Kafka 4.3 serve, and that use topic names."""


class ClosedByPeer(Exception):
    """The broker closed the connection instead of answering."""


def ask(connection: WireConnection, request: Any, version: int) -> Any:
    """The decoded response, which must end with its frame."""
    key = ApiKey(declaration_of(type(request)).key)
    body = codec(type(request), version).encode(request)
    connection.send_payload(encode_request_header(key, version, 1, "wire") + body)
    try:
        payload = connection.receive_payload()
    except (EOFError, ConnectionError) as error:
        raise ClosedByPeer from error
    _, position = read_response_header(memoryview(payload), key, version)
    response, end = codec(api(key).response_class(), version).decode(payload, position)
    assert end == len(payload)
    return response


def ask_all(connection: WireConnection, requests: Sequence[Any], version: int) -> list[Any]:
    """The decoded responses to requests of one version that are sent at once, in the order of arrival."""
    connection.socket.sendall(
        b"".join(
            frame(request_payload(request, version, correlation_id=number))
            for number, request in enumerate(requests)
        )
    )
    responses = []
    for number, request in enumerate(requests):
        payload = connection.receive_payload()
        key = ApiKey(declaration_of(type(request)).key)
        correlation_id, position = read_response_header(memoryview(payload), key, version)
        assert correlation_id == number
        responses.append(codec(api(key).response_class(), version).decode(payload, position)[0])
    return responses


def request_payload(request: Any, version: int, *, correlation_id: int) -> bytes:
    key = ApiKey(declaration_of(type(request)).key)
    body = codec(type(request), version).encode(request)
    return encode_request_header(key, version, correlation_id, "wire") + body


def create_topic(connection: WireConnection, name: str, *, partitions: int = 1, **configs: str) -> None:
    """`configs` have underscores in place of dots."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=30_000,
    )
    (result,) = ask(connection, request, CREATE_TOPICS_VERSION).topics
    assert result.error_code == ErrorCode.NONE, result
    # Kafka responds before the broker has applied the controller's decision.
    for partition in range(partitions):
        wait_until(
            lambda partition=partition: end_offset(connection, name, partition) == 0, f"{name} has a leader"
        )


def produce(
    connection: WireConnection,
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = PRODUCE_VERSION,
    timeout_ms: int = 10_000,
) -> PartitionProduceResponse:
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
            )
        ],
    )
    (answered,) = ask(connection, request, version).responses
    (answer,) = answered.partition_responses
    return answer  # type: ignore[no-any-return]


def fetch_request(
    topic: str,
    *,
    partitions: Sequence[int] = (0,),
    offset: int = 0,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    replica_id: int = -1,
    isolation_level: int = 0,
) -> FetchRequest:
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        current_leader_epoch=current_leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for partition in partitions
                ],
            )
        ],
        forgotten_topics_data=[],
    )


def fetch(
    connection: WireConnection, topic: str, *, version: int = FETCH_VERSION, **fields: Any
) -> PartitionData:
    (answered,) = ask(connection, fetch_request(topic, **fields), version).responses
    (data,) = answered.partitions
    return data  # type: ignore[no-any-return]


def batch(*values: bytes, **options: Any) -> bytes:
    """A batch of values with keys, with the current time."""
    now_ms = int(time.time() * 1000)
    return bytes(kernel.build_batch([(now_ms, b"key", value, ()) for value in values], **options))


def values(records: Any) -> list[bytes | None]:
    """The values of all fetched records."""
    found: list[bytes | None] = []
    position = 0
    for header in kernel.read_headers(records):
        found += [record.value for record in kernel.iterate_records(records, position)]
        position += header.size_bytes
    return found


def rewritten(sent: bytes, *, crc: int | None = None, **fields: int) -> bytes:
    """A batch with other numbers in its header, with a matching checksum unless one is given."""
    header = kernel.read_header(sent)._replace(size_bytes=len(sent))._replace(**fields)
    header = header._replace(size_bytes=header.size_bytes - LENGTH_BYTES)
    lying = bytearray(sent)
    HEADER.pack_into(lying, 0, *header)
    checksum = crc32c.crc32c(bytes(lying[CRC_START:])) if crc is None else crc
    HEADER.pack_into(lying, 0, *header._replace(crc=checksum))
    return bytes(lying)
