"""A raw client: prepared requests on a blocking socket, and responses that are only counted.

Every broker gets the same bytes. The broker is measured, so the client does as little as possible: no decoding in a
timed loop, one buffer, one thread.
"""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from penstock.config.alter import Operation
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import kernel

VERSIONS = {  # versions that both brokers serve, with topic names rather than ids, so that requests can be built once
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
}
VALUE_BYTES = 100
TOPIC = 2  # the type of a resource with settings
TIMEOUT_S = 120.0
PROBES = 1000  # enough groups to reach each of the 50 partitions of `__consumer_offsets`


@dataclass(frozen=True)
class Produce:
    """One produce request, ready to be sent again and again."""

    frame: bytes
    record_count: int


def batch(batch_bytes: int, *, value_bytes: int = VALUE_BYTES) -> tuple[bytes, int]:
    """A record batch of at most `batch_bytes`, but at least one record, and its number of records."""
    now_ms = time.time_ns() // 1_000_000
    value = bytes(index % 256 for index in range(value_bytes))
    count = max(1, batch_bytes // value_bytes)
    while True:
        built = kernel.build_batch([(now_ms, None, value, ())] * count)
        if len(built) <= batch_bytes or count == 1:
            return built, count
        count -= max(1, count // 100)


def request_frame(request: Any, key: ApiKey, *, version: int | None = None, correlation_id: int = 1) -> bytes:
    version = VERSIONS[key] if version is None else version
    head = struct.pack(">hhih", key, version, correlation_id, 5) + b"bench"
    if api(key).request_header_version(version) >= 2:
        head += b"\x00"
    body = head + codec(type(request), version).encode(request)
    return struct.pack(">i", len(body)) + body


def produce(topic: str, batch_bytes: int, *, acks: int = 1, partition: int = 0) -> Produce:
    records, count = batch(batch_bytes)
    return Produce(produce_frame(topic, records, acks=acks, partition=partition), count)


def produce_frame(topic: str, records: bytes, *, acks: int = 1, partition: int = 0) -> bytes:
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
            )
        ],
    )
    return request_frame(request, ApiKey.PRODUCE)


def fetch_frame(
    topic: str,
    offset: int,
    *,
    partition_bytes: int = 1 << 20,
    max_wait_ms: int = 500,
    isolation_level: int = 0,
) -> bytes:
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=100 << 20,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=partition_bytes)
                ],
            )
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    return request_frame(request, ApiKey.FETCH)


class Wire:
    def __init__(self, port: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(8 << 20)
        self._view = memoryview(self._buffer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    # -- single requests

    def ask(self, request: Any, key: ApiKey) -> Any:
        version = VERSIONS[key]
        self.socket.sendall(request_frame(request, key))
        received = self.receive()
        position = 4 + (1 if api(key).response_header_version(version) >= 1 else 0)
        response, _ = codec(api(key).response_class(), version).decode(received, position)
        return response

    def receive(self) -> memoryview:
        """One whole response without its length; valid until the next call."""
        self._fill(0, 4)
        size = struct.unpack_from(">i", self._buffer)[0]
        if size > len(self._buffer):
            self._buffer = bytearray(size)
            self._view = memoryview(self._buffer)
        self._fill(0, size)
        return self._view[:size]

    def _fill(self, start: int, end: int) -> None:
        view, receive = self._view, self.socket.recv_into
        while start < end:
            got = receive(view[start:end])
            if not got:
                raise ConnectionError("the broker closed the connection")
            start += got

    def metadata(self, topic: str | None = None) -> Any:
        topics = [] if topic is None else [MetadataRequestTopic(name=topic)]
        return self.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), ApiKey.METADATA)

    def create_topic(
        self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """One replica, so that the broker of this connection leads it if it is alone."""
        self.create_replicated_topic(name, partitions=partitions, replicas=1, configs=configs)
        self._until(lambda: self._is_led(name, partitions) and self._takes_records(name))

    def await_leaders(self, name: str, *, partitions: int) -> None:
        """Wait until every partition has taken a record; `create_topic` does that only for the first one."""
        for partition in range(partitions):
            self._until(partial(self._takes_records, name, partition))

    def create_replicated_topic(
        self, name: str, *, partitions: int, replicas: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Only that: its leaders may be other brokers."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key, value=value)
                for key, value in {"file.delete.delay.ms": "0", **(configs or {})}.items()
            ],
        )
        response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), ApiKey.CREATE_TOPICS)
        result = response.topics[0]
        # A broker may repeat a forwarded request whose outcome it does not know. The name is new, so the topic is ours.
        if result.error_code and result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise RuntimeError(f"cannot create {name}: {result.error_code!r} {result.error_message}")

    def alter_topic(self, name: str, configs: Mapping[str, str]) -> None:
        resource = AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[
                AlterableConfig(name=key, config_operation=Operation.SET, value=value)
                for key, value in configs.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        result = self.ask(request, ApiKey.INCREMENTAL_ALTER_CONFIGS).responses[0]
        if result.error_code:
            raise RuntimeError(f"cannot alter {name}: {result.error_code!r} {result.error_message}")

    def delete_topic(self, name: str) -> None:
        """Make room: unwritten pages of a deleted file need not reach the disk and slow the next round down."""
        self.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000), ApiKey.DELETE_TOPICS)

    def end_offset(self, topic: str) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
            ],
        )
        response = self.ask(request, ApiKey.LIST_OFFSETS)
        return int(response.topics[0].partitions[0].offset)

    def await_coordinator(self) -> None:
        """Wait until every partition of `__consumer_offsets` is served; the first request creates the topic."""
        names = [f"bench-probe-{number}" for number in range(PROBES)]
        where = FindCoordinatorRequest(key_type=0, coordinator_keys=names[:1])
        offsets = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=[]) for name in names]
        )

        def is_served() -> bool:
            found = self.ask(where, ApiKey.FIND_COORDINATOR).coordinators
            found += self.ask(offsets, ApiKey.OFFSET_FETCH).groups
            return all(each.error_code == ErrorCode.NONE for each in found)

        self._until(is_served)

    def _is_led(self, name: str, partitions: int) -> bool:
        topic = self.metadata(name).topics[0]
        return len(topic.partitions) == partitions and all(p.leader_id >= 0 for p in topic.partitions)

    def _takes_records(self, name: str, partition: int = 0) -> bool:
        """Kafka announces a leader shortly before that leader is ready."""
        self.socket.sendall(produce(name, 1, partition=partition).frame)
        return self.produce_error(self.receive()) == ErrorCode.NONE

    def _until(self, is_so: Callable[[], bool]) -> None:
        limit = time.perf_counter() + TIMEOUT_S
        while not is_so():
            if time.perf_counter() > limit:
                raise TimeoutError("the broker did not get there in time")
            time.sleep(0.01)

    # -- timed loops

    def pump(self, frame: bytes, *, requests: int, in_flight: int) -> float:
        """Send `frame` repeatedly with a number of requests in flight; return the seconds until the last response."""
        send, receive, buffer = self.socket.sendall, self.socket.recv_into, self._view
        per_send = max(1, in_flight // 4) if len(frame) < 4096 else 1
        frames = frame * per_send
        began = time.perf_counter()
        send(frame * in_flight)
        sent = in_flight
        # All responses to one frame have the same size, so they are counted by bytes.
        self._fill(0, 4)
        response_bytes = 4 + struct.unpack_from(">i", self._buffer)[0]
        self._check_produced(response_bytes)
        received_bytes, completed = 0, 1
        outstanding = 1
        wanted = requests - 1
        total_bytes = wanted * response_bytes
        while received_bytes < total_bytes:
            while outstanding >= per_send and sent + per_send <= requests:
                send(frames)
                sent += per_send
                outstanding -= per_send
            if outstanding and requests - sent < per_send and sent < requests:
                rest = min(outstanding, requests - sent)
                send(frame * rest)
                sent += rest
                outstanding -= rest
            got = receive(buffer)
            if not got:
                raise ConnectionError("the broker closed the connection")
            received_bytes += got
            now_completed = 1 + received_bytes // response_bytes
            outstanding += now_completed - completed
            completed = now_completed
        return time.perf_counter() - began

    def _check_produced(self, response_bytes: int) -> None:
        """Read the rest of the first response and check that it is not an error."""
        self._fill(0, response_bytes - 4)
        error = self.produce_error(self._view[: response_bytes - 4])
        if error:
            raise RuntimeError(f"produce was refused: {error!r}")

    def produce_error(self, received: memoryview) -> ErrorCode:
        response_codec = codec(api(ApiKey.PRODUCE).response_class(), VERSIONS[ApiKey.PRODUCE])
        response, _ = response_codec.decode(received, 5)
        error: ErrorCode = response.responses[0].partition_responses[0].error_code
        return error

    def round_trips(self, frame: bytes, *, requests: int) -> list[float]:
        """Microseconds of each request, with one request in flight."""
        send, receive, buffer = self.socket.sendall, self.socket.recv_into, self._view
        clock = time.perf_counter_ns
        times = []
        for _ in range(requests):
            began = clock()
            send(frame)
            got = receive(buffer)
            size = 4 + struct.unpack_from(">i", buffer)[0]
            while got < size:
                got += receive(buffer[got:])
            times.append((clock() - began) / 1000)
        return times

    def drain(self, topic: str, *, start_offset: int, total_bytes: int, per_response_bytes: int) -> float:
        """Fetch `total_bytes` from `start_offset` on, one request after the other; seconds."""
        frame = bytearray(fetch_frame(topic, start_offset))
        offset_at = frame.index(struct.pack(">q", start_offset), 20)
        header_at = first_batch_position(self, bytes(frame))
        got_bytes = 0
        offset = start_offset
        began = time.perf_counter()
        while got_bytes < total_bytes:
            struct.pack_into(">q", frame, offset_at, offset)
            self.socket.sendall(frame)
            response = self.receive()
            got_bytes += len(response)
            following = next_offset(response, header_at)
            if following is None:
                raise RuntimeError(f"no records at offset {offset} of {topic}")
            offset = following
        return time.perf_counter() - began


def first_batch_position(wire: Wire, frame: bytes) -> int:
    """The position of the records in a response: the header before them always has the same size here."""
    wire.socket.sendall(frame)
    received = wire.receive()
    response, _ = codec(api(ApiKey.FETCH).response_class(), VERSIONS[ApiKey.FETCH]).decode(received, 5)
    partition = response.responses[0].partitions[0]
    if partition.error_code or not partition.records:
        raise RuntimeError(f"nothing to fetch: {partition.error_code!r}")
    return bytes(received[:4096]).index(bytes(partition.records[:61]))


def next_offset(response: memoryview, position: int) -> int | None:
    """The offset after the last whole batch of a response, from the batch headers."""
    following = None
    end = len(response)
    while position + 61 <= end:
        base, length = struct.unpack_from(">qi", response, position)
        if length <= 0 or position + 12 + length > end:
            break
        following = base + struct.unpack_from(">i", response, position + 23)[0] + 1
        position += 12 + length
    return following


def new_name(purpose: str) -> str:
    """Of a topic, a group or a producer that no round before has used."""
    return f"bench-{purpose}-{uuid.uuid4().hex[:8]}"
