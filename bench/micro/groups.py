"""The cost of group requests from frame to response, in microseconds: `python bench/micro/groups.py`.

A whole node handles them, with real logs in the temporary directory, but without the network. The budget is 25 us for a
commit of one offset, 12 us if it is pipelined, 1.2 us for each further offset, and 12 us for a heartbeat. The time is
that of this thread only, so that a busy machine disturbs less.
"""

from __future__ import annotations

import asyncio
import random
import struct
import tempfile
import time
from collections.abc import Callable
from typing import Any

from penstock.config.broker import BrokerSettings
from penstock.net.connection import Connection
from penstock.net.sockets import SocketNetwork
from penstock.node.node import Node
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import RealDisk
from penstock.runtime.network import Part
from penstock.runtime.workers import ThreadWorkers

GROUP = "readers"
PARTITIONS = 50
VERSIONS = {
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.JOIN_GROUP: 3,  # the last version in which a member joins with one request
    ApiKey.SYNC_GROUP: 5,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
}
ROUNDS = 15
RUN = 10


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = BrokerSettings.load(
            {
                "log.dirs": folder,
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "group.initial.rebalance.delay.ms": "0",
            }
        )
        workers = ThreadWorkers(2)
        node = Node(settings, Runtime(SystemClock(), random.Random(1), RealDisk(), SocketNetwork(), workers))
        await node.start()
        client = Client(node)
        await client.prepare()
        client.report("commit, 1 partition", commit("lonely", 1), 2000)
        client.report(f"commit, {PARTITIONS} partitions", commit("lonely", PARTITIONS), 100)
        client.report_run("commit, 1 partition, one of ten", commit("lonely", 1), 200)
        client.report_run(f"commit, {PARTITIONS} partitions, one of ten", commit("lonely", PARTITIONS), 10)
        member_id = await client.join()
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
        client.report("heartbeat", beat, 5000)
        client.report("commit of a member, 1 partition", commit(GROUP, 1, member_id), 2000)
        client.report("heartbeat of KIP-848", await client.join_consumers(100), 2000)
        await node.stop()
        workers.close()


class Client:
    """Asks the node's dispatcher, as a connection does."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connection = Connection(
            Sink(),  # type: ignore[arg-type]
            node.dispatcher,
            listener="PLAINTEXT",
            scratch=memoryview(bytearray(1 << 16)),
            frame_bytes_max=1 << 20,
            now=lambda: 0.0,  # so that no other task runs
        )

    async def prepare(self) -> None:
        topic = CreatableTopic(
            name="orders", num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
        )
        await self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        where = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        while (await self.ask(where)).coordinators[0].error_code:
            await asyncio.sleep(0.01)

    async def join(self) -> str:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        joined = await self.ask(
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol],
            )
        )
        await self.ask(
            SyncGroupRequest(
                group_id=GROUP, generation_id=1, member_id=joined.member_id, protocol_type="consumer",
                protocol_name="range", assignments=[],
            )
        )  # fmt: skip
        return str(joined.member_id)

    async def join_consumers(self, count: int) -> ConsumerGroupHeartbeatRequest:
        """A group with this many members; returns the heartbeat of the last one."""
        for number in range(count):
            joined = await self.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id="consumers", member_id=f"member-{number}", member_epoch=0,
                    rebalance_timeout_ms=300_000, subscribed_topic_names=["orders"], topic_partitions=[],
                )
            )  # fmt: skip
        return ConsumerGroupHeartbeatRequest(
            group_id="consumers", member_id=f"member-{count - 1}", member_epoch=joined.member_epoch
        )

    async def ask(self, request: Any) -> Any:
        key = key_of(request)
        answer = self._node.dispatcher.serve(frame(request), self._connection)
        parts = await answer if isinstance(answer, asyncio.Future) else answer
        assert parts is not None
        head = 9 if api(key).response_header_version(VERSIONS[key]) >= 1 else 8
        response, _ = codec(api(key).response_class(), VERSIONS[key]).decode(memoryview(parts[0]), head)  # type: ignore[arg-type]
        return response

    def report(self, name: str, request: Any, number: int) -> None:
        serve, connection, asked = self._node.dispatcher.serve, self._connection, frame(request)
        assert type(serve(asked, connection)) is list, "it should be answered at once"
        best = measure(lambda: serve(asked, connection), number)
        print(f"{name:<50} {best:>10.2f}")

    def report_run(self, name: str, request: Any, number: int) -> None:
        """Of pipelined requests, including the work of the connection."""
        asked = frame(request)
        arriving = (len(asked).to_bytes(4, "big") + asked) * RUN

        def arrive() -> None:
            self._connection.lend_buffer()[: len(arriving)] = arriving
            self._connection.received(len(arriving))

        best = measure(arrive, number) / RUN
        print(f"{name:<50} {best:>10.2f}")


class Sink:
    """Everything that is sent is received at once."""

    peer, peer_host = "127.0.0.1:1", "127.0.0.1"

    def send(self, parts: list[Part]) -> None: ...

    def backlog_bytes(self) -> int:
        return 0


def commit(group_id: str, count: int, member_id: str = "") -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1000, committed_metadata="")
        for index in range(count)
    ]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=1 if member_id else -1,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)],
    )


def frame(request: Any) -> memoryview:
    key = key_of(request)
    head = struct.pack(">hhih", key, VERSIONS[key], 1, 5) + b"bench"
    if api(key).request_header_version(VERSIONS[key]) >= 2:
        head += b"\x00"
    return memoryview(head + codec(type(request), VERSIONS[key]).encode(request))


def key_of(request: Any) -> ApiKey:
    return next(key for key in VERSIONS if api(key).request_class() is type(request))


def measure(work: Callable[[], object], number: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(number):
            work()
        best = min(best, time.thread_time() - began)
    return best / number * 1e6


if __name__ == "__main__":
    asyncio.run(main())
