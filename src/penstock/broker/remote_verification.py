"""Asks transaction coordinators on other brokers to verify or add partitions (AddPartitionsToTxn, from v4 on).

The transactions of one iteration of the event loop share a request. A request has a transactional id only once, because
its response has one result for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.broker_requests import NodeQueues, OtherBrokers
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.image import NO_LEADER
from penstock.metadata.names import TRANSACTIONS_TOPIC
from penstock.net.request_errors import UnsupportedVersion
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from penstock.metadata.image import MetadataImage

TRANSACTIONS_MAX = 500  # in one request; each takes some tens of microseconds at the coordinator

Errors = dict[TopicPartition, ErrorCode]


class _Question(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    partitions: Sequence[TopicPartition]
    answer: asyncio.Future[Errors]


class RemoteCoordinators:
    def __init__(
        self, *, node_id: int, image: Callable[[], MetadataImage], brokers: OtherBrokers, timeout_s: float
    ) -> None:
        """`timeout_s` is short (`request.timeout.ms`): a producer waits for the result."""
        self._node_id = node_id
        self._image = image
        self._brokers = brokers
        self._timeout_s = timeout_s
        self._queues: NodeQueues[_Question] = NodeQueues(
            "verification of transactions", self._send, _failed, items_max=TRANSACTIONS_MAX
        )

    def find(self, partition: int) -> int | None:
        """The broker that leads this partition of `__transaction_state`; None if it is this one. `Refused` if it has no
        leader."""
        found = self._image().topics.partition(TRANSACTIONS_TOPIC, partition)
        if found is None or found.leader == NO_LEADER:
            raise Refused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the partition {TRANSACTIONS_TOPIC}-{partition} has no leader; try again",
            )
        return None if found.leader == self._node_id else found.leader

    def add_partitions(
        self,
        coordinator: int,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> asyncio.Future[Errors]:
        topics: dict[str, list[int]] = {}
        for each in partitions:
            topics.setdefault(each.topic, []).append(each.partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=verify_only,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )
        answer: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        self._queues.add(coordinator, _Question(transaction, partitions, answer))
        return answer

    async def close(self) -> None:
        await self._queues.close()

    async def _send(self, node_id: int, questions: list[_Question]) -> None:
        waiting = questions
        while waiting:
            first: dict[str, _Question] = {}
            for question in waiting:
                first.setdefault(question.transaction.transactional_id, question)
            waiting = [each for each in waiting if first[each.transaction.transactional_id] is not each]
            await self._ask(node_id, first)

    async def _ask(self, node_id: int, questions: dict[str, _Question]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[each.transaction for each in questions.values()])
        response: AddPartitionsToTxnResponse = await self._brokers.ask(
            node_id, request, timeout_s=self._timeout_s
        )
        results = {each.transactional_id: each.topic_results for each in response.results_by_transaction}
        for transactional_id, question in questions.items():
            if response.error_code is not ErrorCode.NONE:
                _answer(question, dict.fromkeys(question.partitions, response.error_code))
                continue
            errors = {
                TopicPartition(topic.name, result.partition_index): result.partition_error_code
                for topic in results.get(transactional_id, ())
                for result in topic.results_by_partition
            }
            _answer(
                question,
                {each: errors.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in question.partitions},
            )


def _answer(question: _Question, errors: Errors) -> None:
    if not question.answer.done():  # the producer may have disconnected
        question.answer.set_result(errors)


def _failed(questions: list[_Question], error: Exception) -> None:
    for question in questions:
        result = ErrorCode.NETWORK_EXCEPTION
        if isinstance(error, UnsupportedVersion):
            # An older broker cannot verify: as in Kafka, the batch is accepted without it.
            is_only_verified = question.transaction.verify_only
            result = ErrorCode.NONE if is_only_verified else ErrorCode.UNSUPPORTED_VERSION
        _answer(question, dict.fromkeys(question.partitions, result))
