"""Fuzzing of every supported API, in every version.

For any input, the node sends a response that decodes, or closes that one connection. No handler raises an unexpected
exception. Another client produces and consumes undisturbed. The logs stay readable, before and after a restart. The
suite runs the same examples every time; `PENSTOCK_FUZZ_EXAMPLES=3000` tries that many new ones per test.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.nodes import RawPeer, decode_response, simulate
from penstock.broker.handlers import TABLE
from penstock.client.connection import ClientConnection
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.plan import plan_message
from penstock.records import kernel
from penstock.records.message_set import read_message_set
from simulator.disk import WRITING
from simulator.simulation import Simulation
from strategies.requests import PARTITIONS, RECORDS, damage, requests_of, stand_in

EXAMPLES = os.environ.get("PENSTOCK_FUZZ_EXAMPLES")
EXAMPLES_IN_SUITE = 10
fuzzing = settings(
    max_examples=int(EXAMPLES or EXAMPLES_IN_SUITE),
    derandomize=EXAMPLES is None,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

TOPIC_CONFIGS: dict[str, dict[str, str]] = {
    "plain": {},
    "zipped": {"compression.type": "gzip"},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime", "compression.type": "uncompressed"},
}
CONTROL_TOPIC = "control"  # known only to the control client
PATIENCE_S = 40.0  # longer than requests wait here; a produce with acks=0 has no response


KEYS = [served.key for served in TABLE.apis]
Sent = tuple[int, int, bytes]  # API key, version, body


@st.composite
def bodies(draw: st.DrawFn, key: int) -> Sent:
    """A request of an API in any version, its bytes damaged now and then."""
    described = api(key)
    version = draw(st.integers(described.first_version, described.last_version))
    request = draw(requests_of(plan_message(described.request_class(), version)))
    body = codec(described.request_class(), version).encode(request)
    if draw(st.integers(0, 3)) == 0:
        body = draw(damage(body))
    return key, version, body


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ApiKey(key).name.lower())
def test_no_request_of_an_api_upsets_the_node(key: int, caplog: pytest.LogCaptureFixture) -> None:
    @fuzzing
    @given(st.lists(bodies(key), min_size=1, max_size=8), st.integers(0, 2**32))
    def check(sent: list[Sent], seed: int) -> None:
        run(sent, seed, caplog)

    check()


def test_no_sequence_of_requests_upsets_the_node(caplog: pytest.LogCaptureFixture) -> None:
    anything = st.sampled_from(KEYS).flatmap(bodies)

    @fuzzing
    @given(st.lists(anything | bodies(ApiKey.PRODUCE), min_size=2, max_size=12), st.integers(0, 2**32))
    def check(sent: list[Sent], seed: int) -> None:
        run(sent, seed, caplog)

    check()


def test_no_records_upset_the_log(caplog: pytest.LogCaptureFixture) -> None:
    produced = st.tuples(st.integers(0, 13), st.sampled_from(list(TOPIC_CONFIGS)), RECORDS)

    @fuzzing
    @given(st.lists(produced, min_size=1, max_size=10), st.integers(0, 2**32))
    def check(sent: list[tuple[int, str, bytes]], seed: int) -> None:
        run(
            [(ApiKey.PRODUCE, version, _produce(version, name, data)) for version, name, data in sent],
            seed,
            caplog,
        )

    check()


def test_no_request_upsets_a_node_whose_disk_fails(caplog: pytest.LogCaptureFixture) -> None:
    """One of two directories fails at any moment and in any way; the control client's is the other one."""
    anything = st.sampled_from(KEYS).flatmap(bodies)
    faults = st.tuples(
        st.sampled_from([errno.EIO, errno.ENOSPC, errno.EROFS]),
        st.none() | st.sets(st.sampled_from(sorted(WRITING | {"read", "open", "list"})), min_size=1),
        st.integers(0, 30),
    )

    @fuzzing
    @given(
        st.lists(anything | bodies(ApiKey.PRODUCE), min_size=2, max_size=10), faults, st.integers(0, 2**32)
    )
    def check(sent: list[Sent], fault: tuple[int, set[str] | None, int], seed: int) -> None:
        async def main(world: Simulation) -> None:
            control = await world.connect()
            ids = await create_topics(control)
            number, operations, skip = fault
            world.disk.fail("/two", number, operations=operations, skip=skip)
            await send_to(world, sent, ids)
            index = next(
                each.partition
                for each in world.node.logs.all()
                if each.topic == CONTROL_TOPIC and each.directory == "/one"
            )
            await check_serving(control, index)

        caplog.clear()
        simulate(main, seed=seed, properties={"log.dirs": "/one,/two", "metadata.log.dir": "/one"})
        assert_no_bug(caplog, but="log directory /two is offline")

    check()


def test_no_noise_upsets_the_node(caplog: pytest.LogCaptureFixture) -> None:
    async def make_noise(world: Simulation, pieces: list[bytes]) -> None:
        control = await world.connect()
        await create_topics(control)
        peer = await RawPeer.connect(world.network)
        for piece in pieces:
            if peer.is_closed:
                peer = await RawPeer.connect(world.network)
            peer.send(piece)
        await check_serving(control)

    @fuzzing
    @given(st.lists(st.binary(max_size=200), min_size=1, max_size=10), st.integers(0, 2**32))
    def check(pieces: list[bytes], seed: int) -> None:
        caplog.clear()
        simulate(lambda world: make_noise(world, pieces), seed=seed)
        assert_no_bug(caplog)

    check()


def run(sent: list[Sent], seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    simulate(lambda world: send_all(world, sent), seed=seed)
    assert_no_bug(caplog)


def assert_no_bug(caplog: pytest.LogCaptureFixture, *, but: str | None = None) -> None:
    """No error was logged, except lines that contain `but`."""
    bugs = [
        record
        for record in caplog.records
        if record.levelno >= logging.ERROR
        and (but is None or but not in record.getMessage() or record.exc_info)
    ]
    assert not bugs, "\n".join(
        f"{record.getMessage()}\n{record.exc_text or record.exc_info}" for record in bugs
    )


async def send_all(world: Simulation, sent: list[Sent]) -> None:
    control = await world.connect()
    await send_to(world, sent, await create_topics(control))
    await check_serving(control)
    read = await read_everything(control)
    await world.restart()
    assert await read_everything(await world.connect()) == read


async def send_to(world: Simulation, sent: list[Sent], ids: dict[str, bytes]) -> None:
    peer = await RawPeer.connect(world.network)
    for key, version, body in sent:
        for name, topic_id in ids.items():
            body = body.replace(stand_in(name), topic_id)
        if peer.is_closed:
            peer = await RawPeer.connect(world.network)
        peer = await send(world, peer, key, version, body)


async def send(world: Simulation, peer: RawPeer, key: int, version: int, body: bytes) -> RawPeer:
    """Send, and check the response if there is one; return the connection to continue with."""
    peer.send_request(key, version, body)
    try:
        frame = await peer.receive(within_s=PATIENCE_S)
    except TimeoutError:
        peer.stream.close()
        return await RawPeer.connect(world.network)
    if frame is not None:
        decode_response(frame, key, version)
    return peer


async def create_topics(control: ClientConnection) -> dict[str, bytes]:
    wanted = {**TOPIC_CONFIGS, CONTROL_TOPIC: {}}
    response = await control.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=PARTITIONS,
                    replication_factor=1,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
                )
                for name, configs in wanted.items()
            ],
            timeout_ms=10_000,
        )
    )
    assert all(topic.error_code == ErrorCode.NONE for topic in response.topics), response
    return {topic.name: topic.topic_id for topic in response.topics}


async def check_serving(control: ClientConnection, index: int = 0) -> None:
    """The control client writes and reads its records, and its topic contains nothing else."""
    batch = kernel.build_batch([(1_700_000_000_000, b"k", b"v", ())])
    topic_data = _topic_data(CONTROL_TOPIC, batch, index)
    response = await control.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topic_data), version=9)
    answer = response.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    data = await fetch(control, CONTROL_TOPIC, index, version=11)
    assert [record.value for record in kernel.iterate_records(data.records)] == [b"v"]


async def read_everything(control: ClientConnection) -> dict[tuple[str, int], bytes]:
    """Reads all partitions, checks every batch, and reads them in old formats and by time, too."""
    found = {}
    for topic in TOPIC_CONFIGS:
        for index in range(PARTITIONS):
            data = await fetch(control, topic, index, version=11)
            if data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue  # another request deleted it
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                data = await fetch(control, topic, index, version=11, offset=data.log_start_offset)
            records = bytes(data.records or b"")
            found[topic, index] = records
            for header in kernel.check_batches(records):
                assert header.magic == 2
            await read_in_old_ways(control, topic, index)
    return found


async def read_in_old_ways(control: ClientConnection, topic: str, index: int) -> None:
    for version in (0, 2):
        data = await fetch(control, topic, index, version=version)
        if data.error_code == ErrorCode.NONE and data.records:
            read_message_set(data.records)
        else:
            assert data.error_code in (
                ErrorCode.NONE,
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                ErrorCode.OFFSET_OUT_OF_RANGE,
            )
    wanted = ListOffsetsPartition(partition_index=index, timestamp=0)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    (answered,) = (await control.ask(request, version=7)).topics
    assert answered.partitions[0].error_code == ErrorCode.NONE


async def fetch(control: ClientConnection, topic: str, index: int, *, version: int, offset: int = 0) -> Any:
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
        ],
        forgotten_topics_data=[],
    )
    (answered,) = (await control.ask(request, version=version)).responses
    return answered.partitions[0]


def _produce(version: int, topic: str, records: bytes) -> bytes:
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=_topic_data(topic, records))
    if version >= 13:
        request.topic_data[0].name = ""
    else:
        request.topic_data[0].topic_id = bytes(16)
    return codec(ProduceRequest, version).encode(request)


def _topic_data(topic: str, records: bytes | bytearray, index: int = 0) -> list[TopicProduceData]:
    data = PartitionProduceData(index=index, records=bytes(records))
    return [TopicProduceData(name=topic, topic_id=stand_in(topic), partition_data=[data])]
