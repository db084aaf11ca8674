"""A log directory with partitions of coordinators fails: its groups and transactions are unavailable, all others work.

Whole nodes with two entries in `log.dirs`, on a simulated disk with injected faults.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.nodes import simulate
from harness.transactions import TRANSACTION, partition_of
from penstock.client.connection import ClientConnection
from penstock.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from simulator.simulation import Simulation

PARTITIONS = 4
SETTINGS = {
    "log.dirs": "/one,/two",
    "metadata.log.dir": "/one",
    "transaction.state.log.num.partitions": str(PARTITIONS),
}
NAMES = [f"writer-{number}" for number in range(2 * PARTITIONS)]
TIMEOUT_S = 60

Test = Callable[[Simulation, ClientConnection, dict[str, int]], Coroutine[Any, Any, None]]


def with_transactions(test: Test, **properties: str) -> None:
    """Run `test` with a node that has an open transaction for every transactional id, and pass the producer ids."""

    async def main(world: Simulation) -> None:
        client = await world.connect()
        topic = CreatableTopic(
            name="orders", num_partitions=2, replication_factor=1, assignments=[], configs=[]
        )
        await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        written = next(
            log.partition for log in world.node.logs.all() if (log.topic, log.directory) == ("orders", "/one")
        )
        producers = {}
        for name in NAMES:
            assert await find(client, name) is ErrorCode.NONE
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_S * 1000)
            begun = await client.ask(request, version=4)
            assert begun.error_code is ErrorCode.NONE
            producers[name] = begun.producer_id
            adding = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=begun.producer_id,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[written])],
            )
            (added,) = (await client.ask(adding, version=3)).results_by_topic_v3_and_below
            assert added.results_by_partition[0].partition_error_code is ErrorCode.NONE
        await test(world, client, producers)

    simulate(main, properties=SETTINGS | properties)


def names_in(world: Simulation, directory: str) -> list[str]:
    partitions = {
        log.partition
        for log in world.node.logs.all()
        if (log.topic, log.directory) == (TRANSACTIONS_TOPIC, directory)
    }
    return [name for name in NAMES if partition_of(name, partitions=PARTITIONS) in partitions]


async def find(client: ClientConnection, name: str) -> ErrorCode:
    found = await client.ask(FindCoordinatorRequest(key=name, key_type=TRANSACTION), version=3)
    return ErrorCode(found.error_code)


async def commit(client: ClientConnection, name: str, producers: dict[str, int]) -> ErrorCode:
    request = EndTxnRequest(
        transactional_id=name, producer_id=producers[name], producer_epoch=0, committed=True
    )
    return ErrorCode((await client.ask(request, version=4)).error_code)


@pytest.mark.parametrize("properties", [{}, {"log.flush.interval.messages": "1"}], ids=["written", "synced"])
def test_transactions_in_a_failed_directory_have_no_coordinator(
    properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """They time out meanwhile, which cannot be written: it is not retried forever."""

    async def test(world: Simulation, client: ClientConnection, producers: dict[str, int]) -> None:
        lost, kept = names_in(world, "/two"), names_in(world, "/one")
        assert lost
        assert kept
        world.disk.fail("/two", errno.EIO, operations=["sync"] if properties else None)
        first, *others = lost

        assert await commit(client, first, producers) is ErrorCode.NOT_COORDINATOR
        for name in kept:
            assert await commit(client, name, producers) is ErrorCode.NONE
        await asyncio.sleep(2 * TIMEOUT_S)
        for name in lost:
            assert await find(client, name) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await commit(client, name, producers) is ErrorCode.NOT_COORDINATOR

        logged = [record for record in caplog.records if record.name.startswith("penstock.coordinator.")]
        assert 0 < len([record for record in logged if record.levelno >= logging.WARNING]) <= 2 * PARTITIONS

        await world.stop()
        world.disk.heal()
        await world.start()
        client = await world.connect()
        await asyncio.sleep(1)
        for name in others:
            assert await find(client, name) is ErrorCode.NONE
            assert await commit(client, name, producers) is ErrorCode.PRODUCER_FENCED
        for partition in world.node.partitions.all():
            if partition.topic == "orders":
                assert partition.last_stable_offset == partition.high_watermark

    with_transactions(test, **properties)


@pytest.mark.parametrize("operations", [None, ["sync"]], ids=["broken", "not synced"])
def test_members_of_groups_in_a_failed_directory_are_sent_away(operations: list[str] | None) -> None:
    """Waiting members get an error too, because their generation could not be written."""

    async def main(world: Simulation) -> None:
        client = await world.connect()
        groups = [f"readers-{number}" for number in range(2 * PARTITIONS)]
        await client.ask(FindCoordinatorRequest(key=groups[0], key_type=0), version=3)
        lost = {
            log.partition
            for log in world.node.logs.all()
            if (log.topic, log.directory) == (OFFSETS_TOPIC, "/two")
        }
        assert lost
        members = {group: await join(client, group) for group in groups}
        world.disk.fail("/two", errno.EIO, operations=operations)

        for group, member in members.items():
            is_lost = partition_of(group, partitions=PARTITIONS) in lost
            expected = ErrorCode.NOT_COORDINATOR if is_lost else ErrorCode.NONE
            assignment = SyncGroupRequestAssignment(member_id=member, assignment=b"all")
            sync = SyncGroupRequest(
                group_id=group, generation_id=1, member_id=member, assignments=[assignment]
            )
            assert (await client.ask(sync, version=3)).error_code is expected
            heartbeat = HeartbeatRequest(group_id=group, generation_id=1, member_id=member)
            assert (await client.ask(heartbeat, version=3)).error_code is expected

    simulate(
        main,
        properties=SETTINGS
        | {
            "offsets.topic.num.partitions": str(PARTITIONS),
            "group.initial.rebalance.delay.ms": "0",
            "log.flush.interval.messages": "1",
        },
    )


async def join(client: ClientConnection, group: str) -> str:
    """The id of the group's only member."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = await client.ask(request, version=3)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
    return str(joined.member_id)
