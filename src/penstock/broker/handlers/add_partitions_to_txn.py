"""AddPartitionsToTxn (key 24): take partitions into a transaction, or ask whether they are in it. Served: v0 to v5.

Up to v3 a producer asks, for its own transaction. From v4 on other brokers do, for many at once, and may only ask.
A transaction is taken as a whole: where one of the partitions does not exist, none is added. Before v2 producers do
not know PRODUCER_FENCED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.image import TopicsImage
from penstock.metadata.names import is_internal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_VERSION = 2
MANY_VERSION = 4

Errors = dict[TopicPartition, ErrorCode]


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    version = context.version
    asked = request.transactions if version >= MANY_VERSION else [_only_transaction(request)]
    answers = [_add(broker, transaction, version) for transaction in asked]
    if any(isinstance(errors, asyncio.Future) for errors in answers):
        return _answer_later(asked, answers, version)
    return _answer(asked, [errors for errors in answers if isinstance(errors, dict)], version)


def _only_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _add(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, version: int
) -> Errors | asyncio.Future[Errors]:
    partitions = [
        TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions
    ]
    errors = _check_partitions(partitions, broker.metadata.image.topics, is_client=version < MANY_VERSION)
    if errors:
        return {each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
    try:
        return broker.transactions.add_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            verify_only=transaction.verify_only,
            is_version_2=version >= MANY_VERSION and not transaction.verify_only,
        )
    except Refused as refusal:
        return dict.fromkeys(partitions, refusal.error)


def _check_partitions(partitions: list[TopicPartition], topics: TopicsImage, *, is_client: bool) -> Errors:
    errors: Errors = {}
    for each in partitions:
        if is_client and is_internal(each.topic):
            errors[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED  # as Kafka answers, with no authorizer either
        elif topics.partition(each.topic, each.partition) is None:
            errors[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


async def _answer_later(
    asked: list[AddPartitionsToTxnTransaction], answers: list[Errors | asyncio.Future[Errors]], version: int
) -> AddPartitionsToTxnResponse:
    known: list[Errors] = []
    for transaction, answer in zip(asked, answers, strict=True):
        try:
            known.append(answer if isinstance(answer, dict) else await answer)
        except Refused as refusal:
            known.append(
                {
                    TopicPartition(topic.name, index): refusal.error
                    for topic in transaction.topics
                    for index in topic.partitions
                }
            )
    return _answer(asked, known, version)


def _answer(
    asked: list[AddPartitionsToTxnTransaction], answers: list[Errors], version: int
) -> AddPartitionsToTxnResponse:
    told = [_tell(each.topics, errors, version) for each, errors in zip(asked, answers, strict=True)]
    if version < MANY_VERSION:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=told[0])
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=results)
            for each, results in zip(asked, told, strict=True)
        ]
    )


def _tell(
    topics: list[AddPartitionsToTxnTopic], errors: Errors, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=_as_known(errors[TopicPartition(topic.name, index)], version),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _as_known(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_VERSION:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
