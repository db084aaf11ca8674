"""Shards of coordinators that fail by a bug: they are loaded again from their logs, and clients go on.

Whole nodes, on the simulated disk; the bug is one call that raises.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.nodes import simulate
from harness.transactions import TRANSACTION
from penstock.client.connection import ClientConnection
from penstock.coordinator.group.shard import GroupShard
from penstock.coordinator.txn.shard import TransactionShard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from simulator.simulation import Simulation

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
GROUP, WRITER = "readers", "writer"
BUSY = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


class FailsOnce:
    """A method that raises at its next call, and then works as before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.is_due = False
        method = getattr(owner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self.is_due:
                self.is_due = False
                raise KeyError("a bug")
            return method(*arguments, **named)

        monkeypatch.setattr(owner, name, call)


async def until_served(ask: Callable[[], Awaitable[ErrorCode]]) -> tuple[ErrorCode, int]:
    """The first response that is not retriable, and the number of responses before it."""
    for refusals in range(100):
        error = await ask()
        if error not in BUSY:
            return error, refusals
        await asyncio.sleep(0.1)
    raise AssertionError("it is never served")


async def find(client: ClientConnection, key: str, key_type: int) -> None:
    found = await client.ask(FindCoordinatorRequest(key=key, key_type=key_type), version=3)
    assert found.error_code is ErrorCode.NONE


async def create_orders(client: ClientConnection) -> None:
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    await client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))


def test_a_transaction_is_committed_after_its_coordinator_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The decision to commit is in the log, and the shard failed to replay it."""
    replay = FailsOnce(monkeypatch, TransactionShard, "replay")

    async def main(world: Simulation) -> None:
        client = await world.connect()
        await create_orders(client)
        await find(client, WRITER, TRANSACTION)
        begun = await client.ask(
            InitProducerIdRequest(transactional_id=WRITER, transaction_timeout_ms=60_000), version=4
        )
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=WRITER,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
        )
        await client.ask(adding, version=3)

        async def commit() -> ErrorCode:
            request = EndTxnRequest(
                transactional_id=WRITER, producer_id=begun.producer_id, producer_epoch=0, committed=True
            )
            return ErrorCode((await client.ask(request, version=4)).error_code)

        replay.is_due = True
        error, refusals = await until_served(commit)
        assert error is ErrorCode.NONE
        assert refusals >= 1
        partition = world.node.partitions.find("orders", 0)
        assert partition.high_watermark == 1, "the marker, once"
        assert partition.last_stable_offset == 1

    simulate(main, properties=SETTINGS)
    (logged,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "__transaction_state-0 failed to write" in logged.getMessage()


def test_members_are_expired_after_the_coordinator_of_their_group_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A change of the metadata made the shard fail. It used to take the whole node with it."""
    metadata_changed = FailsOnce(monkeypatch, GroupShard, "metadata_changed")

    async def main(world: Simulation) -> None:
        client = await world.connect()
        await find(client, GROUP, 0)

        async def join() -> ErrorCode:
            request = JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x00\x00\x00\x00\x00")],
            )
            return ErrorCode((await client.ask(request, version=3)).error_code)

        assert (await until_served(join))[0] is ErrorCode.NONE
        metadata_changed.is_due = True
        await create_orders(client)
        await asyncio.sleep(1)
        assert (await until_served(join))[0] is ErrorCode.NONE

        def members() -> list[str]:
            return [
                member_id
                for shard in world.node.groups.shards()
                for member_id in shard.context.groups[GROUP].members
            ]

        assert len(members()) == 1, "the first one had not been written yet, and comes back as another"
        await asyncio.sleep(30)
        assert members() == []

    simulate(main, properties=SETTINGS)
    assert "__consumer_offsets-0 failed to decide: 'a bug'" in caplog.text
