"""The cost of replication in this thread, in microseconds: `python bench/micro/replication.py`.

A leader and its followers are in one process, connected by function calls, with real logs in the temporary directory.
So the figures have what both do for a batch, from the decoded request to the encoded response, but no sockets. The
second table shows costs that grow with the number of partitions. `--profile` prints where the time goes.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.context import ANONYMOUS, RequestContext
from penstock.broker.handlers import fetch, produce
from penstock.config.broker import BrokerSettings
from penstock.metadata.cache import MetadataCache
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.records.brokers import BrokerEndpoint, RegisterBrokerRecord
from penstock.metadata.records.topics import PartitionRecord, TopicRecord
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.codec import codec
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.primitives import join_parts
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.records import kernel
from penstock.replication.fetcher import FetcherCore, FetchSettings, Work
from penstock.replication.following import Following
from penstock.replication.isr_changes import IsrChanges
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import RealDisk
from penstock.runtime.loop import run
from penstock.runtime.network import FileSlice
from penstock.runtime.workers import ThreadWorkers
from penstock.storage.settings import LogSettings, StoreSettings
from penstock.storage.store import LogStore

NODES = (1, 2, 3)
VERSION = 18
PRODUCE = RequestContext(0, 13, 1, "bench", "127.0.0.1", "PLAINTEXT", ANONYMOUS, None)
FETCH = RequestContext(1, VERSION, 1, "bench", "127.0.0.1", "PLAINTEXT", ANONYMOUS, None)
ORDERS = Uuid(b"orders".ljust(16))
IDLE = Uuid(b"idle".ljust(16))


async def main() -> None:
    is_profiled = "--profile" in sys.argv
    for idle_count in (0, 5000):
        with tempfile.TemporaryDirectory() as folder:
            nodes = [await Node.start(node_id, f"{folder}/{node_id}", idle_count) for node_id in NODES]
            leader, followers = nodes[0], nodes[1:]
            started = time.thread_time()
            for follower in followers:
                while follower.core._changed:
                    await follower.fetch_from(leader)
            print(f"\n{idle_count} idle partitions: the first fetches of two followers took "
                  f"{(time.thread_time() - started) * 1000:.0f} ms")  # fmt: skip
            for follower in followers:
                follower.send_to(leader)
            for size, count in ((100, 2000), (16_000, 2000), (128_000, 500)):
                await cycles(leader, followers, size, count, is_profiled=is_profiled)
            await idle_fetch(leader, nodes)
            for node in nodes:
                await node.logs.close()
                node.runtime.workers.close()


async def cycles(leader: Node, followers: list[Node], size: int, count: int, *, is_profiled: bool) -> None:
    """Produce with acks=all until both followers have fetched."""
    for node in [leader, *followers]:
        node.spent_s = 0.0
    batch = kernel.build_batch([(1_700_000_000_000, None, b"x" * size, ())])
    profile = cProfile.Profile()
    if is_profiled:
        profile.enable()
    for _ in range(count):
        view = memoryview(bytearray(batch))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    topic_id=ORDERS, partition_data=[PartitionProduceData(index=0, records=view)]
                )
            ],
        )
        began = time.thread_time()
        answer = produce.handle(leader.broker, request, PRODUCE)
        await asyncio.sleep(0)  # the waiting fetches are woken and read again
        leader.spent_s += time.thread_time() - began
        assert isinstance(answer, asyncio.Future)
        for follower in followers:
            follower.receive_from(leader)
            follower.send_to(leader)
        assert answer.done(), "the last fetch must complete the request in the same turn"
    if is_profiled:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    follower_us = followers[0].spent_s / count * 1e6
    print(f"batch of {len(batch):6} bytes: leader {leader.spent_s / count * 1e6:6.1f} us (two followers), "
          f"follower {follower_us:6.1f} us")  # fmt: skip


async def idle_fetch(leader: Node, nodes: list[Node]) -> None:
    follower = nodes[1]
    await asyncio.sleep(0.6)  # the last fetch times out
    follower.receive_from(leader)
    leader.spent_s = follower.spent_s = 0.0
    for _ in range(2000):
        await follower.fetch_from(leader)
    print(f"fetch without news: leader {leader.spent_s / 2000 * 1e6:.1f} us, "
          f"follower {follower.spent_s / 2000 * 1e6:.1f} us")  # fmt: skip


class Node:
    def __init__(self, broker: Broker, logs: LogStore, runtime: Runtime) -> None:
        self.broker = broker
        self.logs = logs
        self.runtime = runtime
        self.core = FetcherCore(broker.node_id, FetchSettings())
        self.waiting: asyncio.Future[FetchResponse]
        self.spent_s = 0.0

    @classmethod
    async def start(cls, node_id: int, folder: str, idle_count: int) -> Node:
        nothing: Any = None
        runtime = Runtime(SystemClock(), random.Random(1), RealDisk(), nothing, ThreadWorkers(2))
        settings = BrokerSettings.load({})
        logs = LogStore(
            [folder],
            runtime=runtime,
            settings=StoreSettings(),
            topic_settings=lambda _: LogSettings(),
            node_id=node_id,
            cluster_id="bench",
        )
        await logs.start()
        cache = MetadataCache()
        isr = IsrChanges(
            node_id=node_id,
            broker_epoch=lambda: isr.image_epoch,
            image=lambda: cache.image,
            channel=nothing,
            supervisor=runtime.supervisor,
            lag_ms_max=30_000,
        )
        table = PartitionTable(
            node_id=node_id, logs=logs, topic_settings=DynamicSettings(settings).of_topic, isr_context=isr
        )
        cache.subscribe(table.apply)
        cache.publish(EMPTY_IMAGE.apply(metadata(idle_count), offset=1, epoch=1))
        broker = Broker(
            node_id=node_id,
            cluster_id="bench",
            runtime=runtime,
            settings=settings,
            metadata=cache,
            partitions=table,
            logs=logs,
            channel=nothing,
            groups=nothing,
            transactions=nothing,
            producer_ids=nothing,
        )
        node = cls(broker, logs, runtime)
        for partition in table.all():
            if not partition.is_leader:
                node.core.add(Following(partition))
        return node

    async def fetch_from(self, leader: Node) -> None:
        """One fetch that does not wait."""
        self.core.settings = replace(self.core.settings, wait_ms_max=0)
        self.send_to(leader)
        await asyncio.sleep(0)
        self.receive_from(leader)
        self.core.settings = replace(self.core.settings, wait_ms_max=500)

    def send_to(self, leader: Node) -> None:
        """From the request of the core to the response of the leader, or its wait."""
        began = time.thread_time()
        request = self.core.next_request(0, broker_epoch=self.broker.node_id)
        assert request is not None
        encoded = codec(FetchRequest, VERSION).encode(request)
        sent = time.thread_time()
        received, _ = codec(FetchRequest, VERSION).decode(encoded, 0)
        answer: Any = fetch.handle(leader.broker, received, FETCH)
        if isinstance(answer, asyncio.Future):
            self.waiting = answer
        else:
            self.waiting = asyncio.get_running_loop().create_future()
            self.waiting.set_result(answer)
        leader.spent_s += time.thread_time() - sent
        self.spent_s += sent - began

    def receive_from(self, leader: Node) -> None:
        """From the response of the leader to the applied response."""
        began = time.thread_time()
        parts = codec(FetchResponse, VERSION).encode_parts(self.waiting.result())
        answered = time.thread_time()
        data = join_parts([part.read() if isinstance(part, FileSlice) else part for part in parts])
        arrived = time.thread_time()
        response, _ = codec(FetchResponse, VERSION).decode(memoryview(data), 0)
        number, _ = self.core.begin_response(response)
        work = Work()
        wall_ms = self.runtime.clock.wall_ms()
        for topic in response.responses:
            for partition in topic.partitions:
                self.core.handle_partition(number, topic.topic_id, partition, work, now_ms=0, wall_ms=wall_ms)
        leader.spent_s += answered - began
        self.spent_s += time.thread_time() - arrived


def metadata(idle_count: int) -> Iterator[object]:
    for node_id in NODES:
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)
        yield RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=ZERO_UUID,
            broker_epoch=node_id,
            end_points=[endpoint],
            features=[],
            rack=None,
            fenced=False,
        )
    for name, topic_id, count in (("orders", ORDERS, 1), ("idle", IDLE, idle_count)):
        yield TopicRecord(name=name, topic_id=topic_id)
        for index in range(count):
            yield PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(NODES),
                isr=list(NODES),
                removing_replicas=[],
                adding_replicas=[],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[ZERO_UUID] * len(NODES),
            )


if __name__ == "__main__":
    run(main())
