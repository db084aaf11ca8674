"""The cost of a request between decoding and encoding, in microseconds: `python bench/micro/broker.py`.

The first table is only the handler and the partition, with a log that does nothing: the budget is 12 us for a produce
and 15 us for a fetch. The second has real logs in the temporary directory, with CRC, write and index. The third shows
costs that grow with the number of partitions. The time is that of this thread only, so that a busy machine disturbs
less.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.context import ANONYMOUS, RequestContext
from penstock.broker.handlers import fetch, metadata, produce
from penstock.config.broker import BrokerSettings
from penstock.metadata.cache import MetadataCache
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.records.brokers import BrokerEndpoint, RegisterBrokerRecord
from penstock.metadata.records.topics import PartitionRecord, TopicRecord
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.records import kernel
from penstock.records.batch import assign_offsets
from penstock.replication.partition import Partition
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import RealDisk
from penstock.runtime.network import FileSlice
from penstock.runtime.workers import ThreadWorkers
from penstock.storage.log import AppendInfo
from penstock.storage.settings import LogSettings, StoreSettings
from penstock.storage.store import LogStore

NODE_ID = 1
PARTITIONS = 2000
ROUNDS = 5


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = await start_broker(folder)
        partition = broker.partitions.find("orders", 0)
        print("handler and partition alone")
        with_null_log(broker, partition)
        print("\nwith a real log")
        with_real_log(broker, partition)
        await long_poll(broker, partition)
        print(f"\nwith {PARTITIONS} partitions")
        with_many_partitions(broker)
        await broker.logs.close()
        broker.runtime.workers.close()


async def start_broker(folder: str) -> Broker:
    nothing: Any = None
    runtime = Runtime(SystemClock(), random.Random(1), RealDisk(), nothing, ThreadWorkers(2))
    settings = BrokerSettings.load({})
    logs = LogStore(
        [folder],
        runtime=runtime,
        settings=StoreSettings(),
        topic_settings=lambda topic: LogSettings(),
        node_id=NODE_ID,
        cluster_id="bench",
    )
    await logs.start()
    table = PartitionTable(node_id=NODE_ID, logs=logs, topic_settings=DynamicSettings(settings).of_topic)
    cache = MetadataCache()
    cache.subscribe(table.apply)
    started = time.perf_counter()
    cache.publish(EMPTY_IMAGE.apply(records(), offset=1, epoch=1))
    print(f"{PARTITIONS} partitions created in {(time.perf_counter() - started) * 1000:.0f} ms\n")
    return Broker(
        node_id=NODE_ID,
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


def records() -> Iterator[object]:
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0)
    yield RegisterBrokerRecord(
        broker_id=NODE_ID,
        incarnation_id=ZERO_UUID,
        broker_epoch=1,
        end_points=[endpoint],
        features=[],
        rack=None,
        fenced=False,
    )
    for name, count in (("orders", 1), ("wide", PARTITIONS)):
        yield TopicRecord(name=name, topic_id=topic_id(name))
        for index in range(count):
            yield PartitionRecord(
                partition_id=index,
                topic_id=topic_id(name),
                replicas=[NODE_ID],
                isr=[NODE_ID],
                removing_replicas=[],
                adding_replicas=[],
                leader=NODE_ID,
                leader_epoch=0,
                partition_epoch=0,
                directories=[ZERO_UUID],
            )


class NullLog:
    """Accepts all appends and stores nothing; reads always return the same slice."""

    def __init__(self, real: Any) -> None:
        self.io = real.io
        self.epochs = real.epochs
        self.durability = SimpleNamespace(end_offset=0, on_advance=None)
        self.start_offset = self.end_offset = self.high_watermark = 0
        self.first_unstable_offset = None
        self._file = real.segments.active.file()

    def append(
        self, batches: Any, headers: Any, *, leader_epoch: int, now_ms: int, guard: object = None
    ) -> AppendInfo:
        first = self.end_offset
        self.end_offset = self.durability.end_offset = first + headers[0].last_offset_delta + 1
        return AppendInfo(first, self.end_offset - 1, -1, 0, False)

    def read(
        self, offset: int, *, max_bytes: int, end_offset: int, at_least_one: bool, aborted: object = None
    ) -> FileSlice:
        return FileSlice(self._file, 0, 1000)


def with_null_log(broker: Broker, real: Partition) -> None:
    log: Any = NullLog(real.log)
    partition = Partition("orders", 0, topic_id("orders"), node_id=NODE_ID, log=log, rules=real.rules)
    state = broker.metadata.image.topics.partition("orders", 0)
    assert state is not None
    partition.make_leader(state)
    held = broker.partitions._by_name["orders"]
    held[0] = partition
    small = batch(1, 100)
    report("check_batch of 168 bytes, part of the next two", lambda: kernel.check_batch(small))
    for version in (9, 13):
        report(
            f"produce v{version}", lambda v=version: produce.handle(broker, ask_produce(small), context(v))
        )
    fetches(broker)
    held[0] = real


def with_real_log(broker: Broker, partition: Partition) -> None:
    for count in (1, 150):
        view = batch(count, 100)
        report(
            f"produce v9, {len(view)} bytes",
            lambda view=view: produce.handle(broker, ask_produce(view), context(9)),
            number=5000,
        )
    fetches(broker)
    file = partition.log.segments.active.file()
    report("is_cached, a part of every large fetch", lambda: file.is_cached(position=0, size=1 << 20))


def fetches(broker: Broker) -> None:
    request = ask_fetch(epoch=-1)
    report("fetch v12 without a session", lambda: fetch.handle(broker, request, context(12)))
    report("fetch v16 without a session", lambda: fetch.handle(broker, request, context(16)))
    opened: Any = fetch.handle(broker, ask_fetch(epoch=0), context(12))
    request = ask_fetch(session_id=opened.session_id, epoch=0)

    def next_fetch() -> None:
        request.session_epoch += 1
        fetch.handle(broker, request, context(12))

    report("fetch v12 in a session, one partition named", next_fetch)


async def long_poll(broker: Broker, partition: Partition) -> None:
    """A consumer at the end of the log: its wait, the append that ends it, and the response."""
    view = batch(1, 100)
    request = ask_fetch(epoch=-1)
    wanted = request.topics[0].partitions[0]
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.thread_time()
        for _ in range(2000):
            wanted.fetch_offset = partition.high_watermark
            waiting: Any = fetch.handle(broker, request, context(12))
            produce.handle(broker, ask_produce(view), context(9))
            await waiting
        best = min(best, (time.thread_time() - started) / 2000)
    show("fetch that waits, append that wakes it, and answer", best)


def with_many_partitions(broker: Broker) -> None:
    everything = MetadataRequest(topics=None)
    report("metadata of all", lambda: metadata.handle(broker, everything, context(12)), number=10)
    wanted = [
        FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(PARTITIONS)
    ]
    full = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[FetchTopic(topic="wide", partitions=wanted)]
    )
    opened: Any = fetch.handle(broker, full, context(12))
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_id=opened.session_id, session_epoch=0, topics=[]
    )

    def next_fetch() -> None:
        request.session_epoch += 1
        fetch.handle(broker, request, context(12))

    report("fetch in a session of all, nothing new", next_fetch, number=20)


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))


def batch(count: int, size: int) -> memoryview:
    now = SystemClock().wall_ms()
    return memoryview(kernel.build_batch([(now, None, bytes(size), ()) for _ in range(count)]))


def context(version: int) -> RequestContext:
    return RequestContext(0, version, 1, "bench", "127.0.0.1", "PLAINTEXT", ANONYMOUS, None)


def ask_produce(view: memoryview) -> ProduceRequest:
    assign_offsets(view, 0, base_offset=0, leader_epoch=-1)  # the log wrote its own into them
    data = PartitionProduceData(index=0, records=view)
    topic = TopicProduceData(name="orders", topic_id=topic_id("orders"), partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def ask_fetch(*, session_id: int = 0, epoch: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="orders", topic_id=topic_id("orders"), partitions=[wanted])
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=[topic]
    )


def report(name: str, work: Callable[[], object], number: int = 20_000) -> None:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.thread_time()
        for _ in range(number):
            work()
        best = min(best, (time.thread_time() - started) / number)
    show(name, best)


def show(name: str, seconds: float) -> None:
    print(f"{name:52}{seconds * 1e6:10.2f}")


if __name__ == "__main__":
    asyncio.run(main())
