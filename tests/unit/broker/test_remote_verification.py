"""Verification of transactional batches at a coordinator on another broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode
from harness.other_brokers import FakeBrokers, settle
from penstock.broker.remote_verification import RemoteCoordinators
from penstock.broker.transaction_verification import Errors, TransactionVerifier
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.image import NO_LEADER
from penstock.metadata.names import TRANSACTIONS_TOPIC
from penstock.net.request_errors import UnsupportedVersion
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

TWO = 2
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Coordinator:
    """The local transaction coordinator, which must not be asked about transactions of other brokers."""

    def __init__(self) -> None:
        self.asked = 0

    def partition_of(self, transactional_id: str) -> int:
        return int(transactional_id[-1])

    def add_partitions(self, *_: object, **__: object) -> Errors:
        self.asked += 1
        return {ORDERS_0: ErrorCode.NONE}


class World:
    def __init__(self, cluster: Cluster, node: DataNode) -> None:
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.brokers = FakeBrokers(self._answer)
        self.remote = RemoteCoordinators(
            node_id=NODE_ID, image=lambda: cluster.metadata.image, brokers=self.brokers, timeout_s=30
        )
        self.local = Coordinator()
        coordinator: Any = self.local
        self.verifier = TransactionVerifier(coordinator, lambda: node.broker.settings, self.remote)

    def verify(
        self, transactional_id: str, *partitions: TopicPartition, epoch: int = 0, adds: bool = False
    ) -> Errors | asyncio.Future[Errors]:
        return self.verifier.verify(transactional_id, 7, epoch, partitions or (ORDERS_0,), adds=adds)

    def _answer(self, node_id: int, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.errors.get(
                                        TopicPartition(topic.name, index), ErrorCode.NONE
                                    ),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in request.transactions
            ]
        )


@pytest.fixture
def world(cluster: Cluster, node: DataNode) -> World:
    """Node 1 leads partition 0 of the transactions, broker 2 leads partition 1, and partition 2 has no leader."""
    cluster.add_topic(TRANSACTIONS_TOPIC, partitions=3, replicas=[NODE_ID])
    cluster.move(TRANSACTIONS_TOPIC, 1, leader=TWO)
    cluster.move(TRANSACTIONS_TOPIC, 2, leader=NO_LEADER)
    return World(cluster, node)


async def test_a_transaction_of_this_broker_is_verified_without_a_request(world: World) -> None:
    assert world.verify("t-0") == {ORDERS_0: ErrorCode.NONE}
    assert world.local.asked == 1
    assert world.brokers.asked == []


async def test_a_transaction_of_another_broker_is_verified_there(world: World) -> None:
    world.errors[ORDERS_1] = ErrorCode.INVALID_TXN_STATE

    answer = world.verify("t-1", ORDERS_0, ORDERS_1, epoch=3)
    assert isinstance(answer, asyncio.Future)

    assert await answer == {ORDERS_0: ErrorCode.NONE, ORDERS_1: ErrorCode.INVALID_TXN_STATE}
    ((node_id, request),) = world.brokers.asked
    (transaction,) = request.transactions
    assert node_id == TWO
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (
        "t-1",
        7,
        3,
    )
    assert transaction.verify_only is True
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("orders", [0, 1])]
    assert world.local.asked == 0


async def test_newer_producers_let_the_broker_add_their_partitions(world: World) -> None:
    answer = world.verify("t-1", adds=True)
    assert isinstance(answer, asyncio.Future)
    await answer

    ((_, request),) = world.brokers.asked
    assert request.transactions[0].verify_only is False


async def test_transactions_of_one_moment_share_a_request_but_each_has_it_once(world: World) -> None:
    """A response has one result per transactional id."""
    answers = [world.verify(each) for each in ("a-1", "b-1", "a-1")]
    await settle()

    asked = [[each.transactional_id for each in request.transactions] for _, request in world.brokers.asked]
    assert asked == [["a-1", "b-1"], ["a-1"]]
    assert [await each for each in answers if isinstance(each, asyncio.Future)] == [
        {ORDERS_0: ErrorCode.NONE}
    ] * 3


async def test_a_coordinator_without_a_leader_is_not_available(world: World) -> None:
    assert world.verify("t-2") == {ORDERS_0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_a_lost_connection_is_a_network_error(world: World) -> None:
    world.brokers.down.add(TWO)
    answer = world.verify("t-1")
    assert isinstance(answer, asyncio.Future)

    assert await answer == {ORDERS_0: ErrorCode.NETWORK_EXCEPTION}


async def test_an_error_of_the_whole_request_is_one_of_every_partition(world: World) -> None:
    world.brokers.answer = lambda *_: AddPartitionsToTxnResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    answer = world.verify("t-1", ORDERS_0, ORDERS_1)
    assert isinstance(answer, asyncio.Future)

    assert await answer == dict.fromkeys((ORDERS_0, ORDERS_1), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(("adds", "error"), [(False, ErrorCode.NONE), (True, ErrorCode.UNSUPPORTED_VERSION)])
async def test_an_older_broker_that_cannot_verify_does_not_stop_producers(
    world: World, adds: bool, error: ErrorCode
) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedVersion("v3 is the newest")

    world.brokers.answer = refuse
    answer = world.verify("t-1", adds=adds)
    assert isinstance(answer, asyncio.Future)

    assert await answer == {ORDERS_0: error}


async def test_the_coordinator_is_looked_up_again_for_every_attempt(cluster: Cluster, world: World) -> None:
    """While the previous transaction completes, the broker retries. The coordinator may move meanwhile."""
    world.errors[ORDERS_0] = ErrorCode.CONCURRENT_TRANSACTIONS
    answer = world.verify("t-1", adds=True)
    assert isinstance(answer, asyncio.Future)
    await settle()
    cluster.move(TRANSACTIONS_TOPIC, 1, leader=NODE_ID)

    assert await answer == {ORDERS_0: ErrorCode.NONE}
    assert world.local.asked == 1


def test_a_partition_that_does_not_exist_has_no_coordinator(cluster: Cluster, world: World) -> None:
    with pytest.raises(Refused, match="has no leader") as refused:
        world.remote.find(99)
    assert refused.value.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
