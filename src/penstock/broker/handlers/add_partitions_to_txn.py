"""AddPartitionsToTxn (key 24): add partitions to a transaction, or verify them. Served: v0 to v5.

Up to v3, producers send it for their own transaction. From v4 on, brokers send it for several transactions, and can
only verify. If one partition of a transaction does not exist, none is added. Before v2, producers do not know
PRODUCER_FENCED.
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
BROKER_VERSION = 4

Errors = dict[TopicPartition, ErrorCode]


def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    version = context.version
    transactions = request.transactions if version >= BROKER_VERSION else [_only_transaction(request)]
    pending = [_add(broker, transaction, version) for transaction in transactions]
    known = [errors for errors in pending if isinstance(errors, dict)]
    if len(known) < len(pending):
        return _respond_later(transactions, pending, version)
    return _respond(transactions, known, version)


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
    errors = _check_partitions(partitions, broker.metadata.image.topics, is_client=version < BROKER_VERSION)
    if errors:
        return {each: errors.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}
    try:
        return broker.transactions.add_partitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            partitions,
            verify_only=transaction.verify_only,
            is_version_2=version >= BROKER_VERSION and not transaction.verify_only,
        )
    except Refused as refusal:
        return dict.fromkeys(partitions, refusal.error)


def _check_partitions(partitions: list[TopicPartition], topics: TopicsImage, *, is_client: bool) -> Errors:
    errors: Errors = {}
    for each in partitions:
        if is_client and is_internal(each.topic):
            errors[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED  # as in Kafka, also without an authorizer
        elif topics.partition(each.topic, each.partition) is None:
            errors[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


async def _respond_later(
    transactions: list[AddPartitionsToTxnTransaction],
    pending: list[Errors | asyncio.Future[Errors]],
    version: int,
) -> AddPartitionsToTxnResponse:
    known: list[Errors] = []
    for transaction, errors in zip(transactions, pending, strict=True):
        try:
            known.append(errors if isinstance(errors, dict) else await errors)
        except Refused as refusal:
            known.append(
                {
                    TopicPartition(topic.name, index): refusal.error
                    for topic in transaction.topics
                    for index in topic.partitions
                }
            )
    return _respond(transactions, known, version)


def _respond(
    transactions: list[AddPartitionsToTxnTransaction], known: list[Errors], version: int
) -> AddPartitionsToTxnResponse:
    results = [
        _results(each.topics, errors, version) for each, errors in zip(transactions, known, strict=True)
    ]
    if version < BROKER_VERSION:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=topic_results)
            for each, topic_results in zip(transactions, results, strict=True)
        ]
    )


def _results(
    topics: list[AddPartitionsToTxnTopic], errors: Errors, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=_translate(errors[TopicPartition(topic.name, index)], version),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _translate(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_VERSION:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
