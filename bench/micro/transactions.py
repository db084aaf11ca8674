"""The cost of the steps of a transaction from frame to response, in microseconds: `python bench/micro/transactions.py`.

A whole node handles them, with real logs in the temporary directory, but without the network. The budget is 250 us in
all for a transaction of one batch, and 10 us more for a read_committed fetch than for a read_uncommitted one. The
figure is the 20th percentile, so that a busy machine disturbs less. `--profile` adds the most expensive calls.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import random
import struct
import sys
import tempfile
import time
from collections import defaultdict
from typing import Any

from penstock.config.broker import BrokerSettings
from penstock.net.connection import Connection
from penstock.net.sockets import SocketNetwork
from penstock.node.node import Node
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import kernel
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import RealDisk
from penstock.runtime.workers import ThreadWorkers

TOPIC = "orders"
PARTITIONS = 10
RECORDS = 10  # a batch
TRANSACTIONS = 2000
WARMING = 200
FETCHES = 500
ABORT_ONE_IN = 10
NAME = "transactor"
VERSIONS = {
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.PRODUCE: 12,  # the first that adds partitions by itself
    ApiKey.END_TXN: 5,
    ApiKey.FETCH: 12,
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = BrokerSettings.load({"log.dirs": folder, "listeners": "PLAINTEXT://127.0.0.1:0"})
        workers = ThreadWorkers(2)
        node = Node(settings, Runtime(SystemClock(), random.Random(1), RealDisk(), SocketNetwork(), workers))
        await node.start()
        producer = Producer(Client(node))
        await producer.prepare()
        profile = cProfile.Profile() if "--profile" in sys.argv else None
        for partitions in (1, PARTITIONS):
            await producer.report(partitions, profile if partitions == 1 else None)
        await producer.report_fetches()
        await node.stop()
        workers.close()
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)


class Producer:
    """Transactions of today (KIP-890), with their costs by step."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._producer_id, self._epoch = -1, -1
        self._number = 0

    async def prepare(self) -> None:
        topic = CreatableTopic(
            name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
        )
        await self._client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        where = FindCoordinatorRequest(key_type=1, coordinator_keys=[NAME])
        while (await self._client.ask(where)).coordinators[0].error_code:
            await asyncio.sleep(0.01)
        request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=60_000)
        while (answer := await self._client.ask(request)).error_code:
            await asyncio.sleep(0.01)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def report(self, partitions: int, profile: cProfile.Profile | None) -> None:
        costs: dict[str, list[float]] = defaultdict(list)
        for _ in range(WARMING):
            await self._transact(partitions, defaultdict(list))
        if profile is not None:
            profile.enable()
        for _ in range(TRANSACTIONS // partitions):
            began = time.perf_counter()
            await self._transact(partitions, costs)
            costs["all of it, with building the requests"].append(time.perf_counter() - began)
        if profile is not None:
            profile.disable()
        print(f"a transaction over {partitions} partitions" if partitions > 1 else "a transaction")
        for name, times in costs.items():
            tell(name, times)

    async def report_fetches(self) -> None:
        """Of the partition that all transactions wrote to, one of ten rolled back."""
        print("a fetch of 64 KiB")
        for name, isolation_level in (("all records", 0), ("committed records", 1)):
            asked = frame(fetch(isolation_level))
            times = []
            for _ in range(FETCHES):
                began = time.perf_counter()
                await self._client.serve(asked)
                times.append(time.perf_counter() - began)
            tell(name, times)

    async def _transact(self, partitions: int, costs: dict[str, list[float]]) -> None:
        for partition in range(partitions):
            await self._write(partition, 0, costs["first write to a partition"])
        await self._write(0, RECORDS, costs["another write"])
        self._number += 1
        request = EndTxnRequest(
            transactional_id=NAME,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=self._number % ABORT_ONE_IN != 0,
        )
        answer = await self._client.ask(request, costs["end"])
        assert answer.error_code == ErrorCode.NONE, answer
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def _write(self, partition: int, sequence: int, costs: list[float]) -> None:
        records = kernel.build_batch(
            [(int(time.time() * 1000), None, bytes(100), ())] * RECORDS,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(
            name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=records)]
        )
        request = ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=10_000, topic_data=[data])
        answer = await self._client.ask(request, costs)
        error = answer.responses[0].partition_responses[0].error_code
        assert error == ErrorCode.NONE, answer


class Client:
    """Asks the node's dispatcher, as a connection does."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connection = Connection(
            NoStream(),
            node.dispatcher,
            listener="PLAINTEXT",
            scratch=memoryview(bytearray(1 << 16)),
            frame_bytes_max=1 << 20,
            now=time.monotonic,
        )

    async def ask(self, request: Any, costs: list[float] | None = None) -> Any:
        key, asked = key_of(request), frame(request)
        began = time.perf_counter()
        parts = await self.serve(asked)
        if costs is not None:
            costs.append(time.perf_counter() - began)
        head = 9 if api(key).response_header_version(VERSIONS[key]) >= 1 else 8
        response, _ = codec(api(key).response_class(), VERSIONS[key]).decode(memoryview(parts[0]), head)
        return response

    async def serve(self, asked: memoryview) -> list[Any]:
        answer = self._node.dispatcher.serve(asked, self._connection)
        parts = await answer if isinstance(answer, asyncio.Future) else answer
        assert parts is not None
        return list(parts)


class NoStream:
    peer, peer_host = "127.0.0.1:1", "127.0.0.1"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nothing should be sent here, but {name} was called")


def tell(name: str, times: list[float]) -> None:
    times.sort()
    print(f"  {name:<48} {times[len(times) // 5] * 1e6:>10.1f}")


def fetch(isolation_level: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 16)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )


def frame(request: Any) -> memoryview:
    key = key_of(request)
    head = struct.pack(">hhih", key, VERSIONS[key], 1, 5) + b"bench"
    if api(key).request_header_version(VERSIONS[key]) >= 2:
        head += b"\x00"
    return memoryview(bytearray(head + codec(type(request), VERSIONS[key]).encode(request)))


def key_of(request: Any) -> ApiKey:
    return next(key for key in VERSIONS if api(key).request_class() is type(request))


if __name__ == "__main__":
    asyncio.run(main())
