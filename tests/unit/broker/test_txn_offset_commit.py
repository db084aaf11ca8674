"""TxnOffsetCommit: the partition of the group is verified first, like any other partition of a transaction.

Partitions, logs and groups are real; the transaction coordinator has a configurable result.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_context, partition_record
from harness.offsets import COMMIT_VERSION, GROUP, commit_request
from harness.transactional_offsets import errors_of, transactional_request
from penstock.broker.handlers.txn_offset_commit import handle
from penstock.broker.transaction_verification import PartitionGuard
from penstock.config.group import GroupSettings
from penstock.coordinator.group.service import GroupCoordinator
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.node.coordinator_log import PartitionCoordinatorLog
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from penstock.records.control import TxnMarkerEntry

WHERE = TopicPartition(OFFSETS_TOPIC, 0)
PRODUCER = 7


class FakeVerifier:
    """A `TransactionVerifier` with a configurable result, at once or later."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.asked: list[tuple[str, int, int, bool]] = []
        self.waiting: asyncio.Future[dict[TopicPartition, ErrorCode]] | None = None

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        guards: Iterable[PartitionGuard] = (),
        *,
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode] | asyncio.Future[dict[TopicPartition, ErrorCode]]:
        assert partitions == [WHERE]
        self.asked.append((transactional_id, producer_id, producer_epoch, adds))
        return {WHERE: self.error} if self.waiting is None else self.waiting


@pytest.fixture
async def groups(node: DataNode, cluster: Cluster) -> AsyncIterator[GroupCoordinator]:
    broker, runtime = node.broker, node.runtime
    groups = broker.groups = GroupCoordinator(
        log=PartitionCoordinatorLog(
            OFFSETS_TOPIC, node.partitions, clock=runtime.clock, workers=runtime.workers, read_bytes=1 << 20
        ),
        image=lambda: cluster.metadata.image,
        settings=lambda: broker.settings,
        group_settings=lambda group_id: GroupSettings.resolve(broker.settings, {}),
        wall_ms=runtime.clock.wall_ms,
        rng=random.Random(1),
    )
    cluster.metadata.subscribe(groups.metadata_changed)
    cluster.add_topic(OFFSETS_TOPIC)
    groups.elected(0, leader_epoch=0)
    yield groups
    await groups.close()


@pytest.fixture
def adds(node: DataNode, groups: GroupCoordinator) -> FakeVerifier:
    adds: Any = FakeVerifier()
    node.broker.transaction_verifier = adds
    return adds  # type: ignore[no-any-return]


async def ask(node: DataNode, request: TxnOffsetCommitRequest, *, version: int = 5) -> list[ErrorCode]:
    response: Any = handle(node.broker, request, make_context(version))
    return errors_of(await response if asyncio.iscoroutine(response) else response)


async def commit(node: DataNode, offset: int, *, version: int = 5, **fields: Any) -> ErrorCode:
    request = transactional_request({"orders": {0: offset}}, producer=PRODUCER, **fields)
    (error,) = await ask(node, request, version=version)
    return error


def end(
    groups: GroupCoordinator, *, epoch: int = 0, is_commit: bool = True, coordinator_epoch: int = 0
) -> None:
    marker = TxnMarkerEntry(PRODUCER, epoch, coordinator_epoch, is_commit, transaction_version=1)
    assert groups.end_transaction(0, marker) is None


def offset_of(groups: GroupCoordinator) -> int | None:
    stored = groups.read(GROUP, lambda shard: shard.offsets.table.committed(GROUP, "orders", 0))
    return None if stored is None else stored.offset


@pytest.mark.parametrize("version", range(6))
async def test_the_coordinator_is_asked_once_for_each_transaction(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier, version: int
) -> None:
    assert await commit(node, 1, version=version) is ErrorCode.NONE
    assert await commit(node, 2, version=version) is ErrorCode.NONE
    assert adds.asked == [("transformer", PRODUCER, 0, version >= 5)]
    assert offset_of(groups) is None

    end(groups)
    assert offset_of(groups) == 2
    assert await commit(node, 3, version=version) is ErrorCode.NONE
    assert len(adds.asked) == 2


@pytest.mark.parametrize(
    ("version", "error", "expected"),
    [
        (3, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (5, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (5, ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_offsets_that_the_coordinator_refuses_are_not_written(
    node: DataNode, adds: FakeVerifier, version: int, error: ErrorCode, expected: ErrorCode
) -> None:
    adds.error = error

    assert await commit(node, 1, version=version) is expected
    assert node.partition(OFFSETS_TOPIC).log.end_offset == 0


async def test_a_transaction_that_ends_during_the_verification_is_not_started_again(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    adds.waiting = asyncio.get_running_loop().create_future()
    answering = asyncio.ensure_future(commit(node, 1))
    await asyncio.sleep(0)

    end(groups)
    adds.waiting.set_result({WHERE: ErrorCode.NONE})

    assert await answering is ErrorCode.INVALID_TXN_STATE
    assert offset_of(groups) is None


async def test_a_late_verification_is_waited_for(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    adds.waiting = asyncio.get_running_loop().create_future()
    first, second = (asyncio.ensure_future(commit(node, offset)) for offset in (1, 2))
    await asyncio.sleep(0)
    assert not first.done()

    adds.waiting.set_result({WHERE: ErrorCode.NONE})

    assert (await first, await second) == (ErrorCode.NONE, ErrorCode.NONE)
    end(groups)
    assert offset_of(groups) == 2


async def test_the_connection_is_held_meanwhile_so_that_commits_stay_in_order(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    held: list[asyncio.Future[Any]] = []
    context: Any = make_context(5)
    context.connection = SimpleNamespace(hold=held.append)
    request = transactional_request({"orders": {0: 1}}, producer=PRODUCER)

    adds.waiting = asyncio.get_running_loop().create_future()
    answering: Any = handle(node.broker, request, context)
    adds.waiting.set_result({WHERE: ErrorCode.NONE})

    assert errors_of(await answering) == [ErrorCode.NONE]
    assert [future.done() for future in held] == [True]


async def test_a_late_refusal_is_returned(node: DataNode, adds: FakeVerifier) -> None:
    adds.waiting = asyncio.get_running_loop().create_future()
    answering = asyncio.ensure_future(commit(node, 1))
    await asyncio.sleep(0)

    adds.waiting.set_result({WHERE: ErrorCode.PRODUCER_FENCED})

    assert await answering is ErrorCode.INVALID_PRODUCER_EPOCH


async def test_an_empty_commit_needs_no_verification(node: DataNode, adds: FakeVerifier) -> None:
    request = transactional_request({"orders": {1: 7}, "nowhere": {0: 7}}, group="")

    assert await ask(node, request) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert not adds.asked


async def test_a_group_must_have_a_name(node: DataNode, adds: FakeVerifier) -> None:
    request = transactional_request({"orders": {0: 7, 1: 7}}, group="")

    assert await ask(node, request) == [ErrorCode.INVALID_GROUP_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not adds.asked


@pytest.mark.parametrize("producer", [(-1, 0), (-1, -1), (7, -1)])
async def test_a_commit_without_a_producer_is_refused(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier, producer: tuple[int, int]
) -> None:
    """Also without a verification: in the log, these values mean "no transaction"."""
    request = transactional_request({"orders": {0: 7}}, producer=producer[0], epoch=producer[1])

    assert await ask(node, request, version=3) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert not adds.asked
    assert node.partition(OFFSETS_TOPIC).log.end_offset == 0


async def test_an_older_epoch_of_the_producer_is_refused(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    assert await commit(node, 1, epoch=2) is ErrorCode.NONE
    assert await commit(node, 2, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(adds.asked) == 1

    end(groups, epoch=2)
    assert await commit(node, 3, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert offset_of(groups) == 1


async def test_a_marker_of_an_older_coordinator_or_producer_is_refused(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    await commit(node, 1, epoch=2)
    end(groups, epoch=2, coordinator_epoch=5)
    await commit(node, 2, epoch=2)

    with pytest.raises(Refused) as caught:
        end(groups, epoch=2, coordinator_epoch=4)
    assert caught.value.error is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(Refused) as caught:
        end(groups, epoch=1, coordinator_epoch=5)
    assert caught.value.error is ErrorCode.INVALID_PRODUCER_EPOCH

    assert offset_of(groups) == 1
    end(groups, epoch=2, is_commit=False, coordinator_epoch=5)
    assert offset_of(groups) == 1


async def test_a_group_that_another_node_coordinates_is_looked_for_there(
    node: DataNode, cluster: Cluster, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    cluster.publish(partition_record(OFFSETS_TOPIC, 0, replicas=(1, 2), leader=2, leader_epoch=1))

    assert await commit(node, 1) is ErrorCode.NOT_COORDINATOR
    assert not adds.asked


async def test_without_the_topic_of_groups_there_is_no_coordinator(
    node: DataNode, cluster: Cluster, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    cluster.delete_topic(OFFSETS_TOPIC)

    assert await commit(node, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_commit_that_is_too_large_for_one_batch_is_refused_as_a_whole(
    node: DataNode, cluster: Cluster, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    cluster.set(OFFSETS_TOPIC, "max.message.bytes", "1000")

    assert await commit(node, 1, metadata="x" * 2000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert node.partition(OFFSETS_TOPIC).log.end_offset == 0
    assert await commit(node, 2) is ErrorCode.NONE


async def test_plain_commits_continue_during_a_transaction(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    await commit(node, 5)
    request = commit_request({"orders": {0: 9}})
    groups.write(GROUP, lambda shard: shard.offsets.commit(request, version=COMMIT_VERSION))
    assert offset_of(groups) == 9

    end(groups)
    assert offset_of(groups) == 9


async def test_a_transaction_in_a_real_log_is_loaded_again(
    node: DataNode, groups: GroupCoordinator, adds: FakeVerifier
) -> None:
    await commit(node, 1)
    end(groups)
    await commit(node, 2)
    groups.resigned(0)
    groups.elected(0, leader_epoch=0)
    while groups.is_loading:
        await asyncio.sleep(0)

    assert offset_of(groups) == 1
    end(groups)
    assert offset_of(groups) == 2
