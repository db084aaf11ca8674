"""Produce to several partitions while the log directory of one fails."""

from __future__ import annotations

import asyncio
import errno
import random
from typing import Any

from harness.datapath import (
    NODE_ID,
    Cluster,
    DataNode,
    make_batch,
    make_context,
    partition_record,
    topic_id_of,
)
from penstock.broker.handlers.produce import handle
from penstock.metadata.records.topics import TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from simulator.disk import SimulatedDisk
from simulator.workers import SimulatedWorkers

VERSION = 9


async def test_a_partition_in_a_working_directory_does_not_time_out() -> None:
    disk, rng = SimulatedDisk(), random.Random(1)
    nothing: Any = None
    runtime = Runtime(SystemClock(), rng, disk, nothing, SimulatedWorkers(rng))
    cluster = Cluster()
    cluster.add_broker(NODE_ID)
    node = DataNode(cluster, ["/bad", "/good"], runtime)
    await node.start()
    bad, good = (directory.directory_id for directory in node.logs.directories)
    cluster.publish(
        TopicRecord(name="orders", topic_id=topic_id_of("orders")),
        *[partition_record("orders", index, directory=[bad, bad, good][index]) for index in range(3)],
    )
    cluster.set("orders", "flush.messages", "1")
    disk.fail("/bad/orders-1/", errno.EIO, operations={"append"})

    answer = handle(
        node.broker,
        ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name="orders",
                    partition_data=[
                        PartitionProduceData(index=index, records=make_batch(b"x")) for index in range(3)
                    ],
                )
            ],
        ),
        make_context(VERSION),
    )

    assert isinstance(answer, asyncio.Future)
    partitions = (await answer).responses[0].partition_responses
    assert [partition.error_code for partition in partitions] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NONE,
    ]
    await node.stop()
