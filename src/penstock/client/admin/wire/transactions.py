"""ListTransactions, DescribeTransactions, DescribeProducers, WriteTxnMarkers, EndTxn, InitProducerId to fence a
producer, and Fetch to find the outcome of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.client import errors
from penstock.client.admin.results import Results
from penstock.client.admin.transactions import (
    FencedProducer,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from penstock.client.admin.wire.common import check, known, value_or_error
from penstock.client.cluster import TopicPartition, by_topic
from penstock.client.errors import PenstockError
from penstock.client.prepared_transaction import Outcome, PreparedTransaction, RecordPlace
from penstock.protocol.constants import READ_COMMITTED
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.records.kernel import read_headers


def list_request(
    *, states: list[str], producer_ids: list[int], longer_than_ms: int | None, pattern: str | None
) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        state_filters=states,
        producer_id_filters=producer_ids,
        duration_filter=-1 if longer_than_ms is None else longer_than_ms,
        transactional_id_pattern=pattern,
    )


def read_listed(responses: Mapping[int, ListTransactionsResponse]) -> list[TransactionListing]:
    listed = []
    for coordinator, response in responses.items():
        check(response.error_code)
        if response.unknown_state_filters:
            raise errors.BadArgument(
                f"brokers do not know the states {', '.join(response.unknown_state_filters)}"
            )
        listed += [
            TransactionListing(
                transactional_id=result.transactional_id,
                coordinator=coordinator,
                producer_id=result.producer_id,
                state=TransactionState(result.transaction_state),
            )
            for result in response.transaction_states
        ]
    return sorted(listed, key=lambda listing: listing.transactional_id)


def describe_request(transactional_ids: list[str]) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=transactional_ids)


def read_described(
    response: DescribeTransactionsResponse, coordinator: int
) -> Results[str, TransactionDescription]:
    return {
        result.transactional_id: value_or_error(
            result.error_code,
            None,
            result.transactional_id,
            TransactionDescription(
                transactional_id=result.transactional_id,
                coordinator=coordinator,
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
                state=TransactionState(result.transaction_state),
                timeout_ms=result.transaction_timeout_ms,
                started_ms=known(result.transaction_start_time_ms),
                partitions=frozenset(
                    TopicPartition(topic.topic, index)
                    for topic in result.topics
                    for index in topic.partitions
                ),
            ),
        )
        for result in response.transaction_states
    }


def producers_request(partitions: Sequence[TopicPartition]) -> DescribeProducersRequest:
    return DescribeProducersRequest(
        topics=[
            TopicRequest(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    )


def read_producers(response: DescribeProducersResponse) -> Results[TopicPartition, list[ProducerState]]:
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): value_or_error(
            result.error_code,
            result.error_message,
            partition,
            [
                ProducerState(
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    last_sequence=known(each.last_sequence),
                    last_timestamp_ms=known(each.last_timestamp),
                    coordinator_epoch=known(each.coordinator_epoch),
                    transaction_start_offset=known(each.current_txn_start_offset),
                )
                for each in result.active_producers
            ],
        )
        for topic in response.topics
        for result in topic.partitions
    }


def abort_request(
    partitions: Sequence[TopicPartition], *, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                transaction_result=False,
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
            )
        ]
    )


def read_aborted(response: WriteTxnMarkersResponse) -> Results[TopicPartition, None]:
    results: dict[TopicPartition, PenstockError | None] = {}
    for marker in response.markers:
        for topic in marker.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                results[partition] = value_or_error(result.error_code, None, partition, None)
    return results


def fence_request(transactional_id: str, *, timeout_ms: int) -> InitProducerIdRequest:
    """Initializes the transactional id again: the coordinator aborts the open transaction of the old producer."""
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=max(1, timeout_ms))


def read_fenced(transactional_id: str, response: InitProducerIdResponse) -> FencedProducer | PenstockError:
    fenced = FencedProducer(producer_id=response.producer_id, producer_epoch=response.producer_epoch)
    return value_or_error(response.error_code, None, transactional_id, fenced)


def end_request(prepared: PreparedTransaction, *, is_commit: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=prepared.transactional_id,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        committed=is_commit,
    )


def outcome_request(record: RecordPlace) -> FetchRequest:
    """A read_committed fetch at the record: the response lists the aborted transactions."""
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[
            FetchTopic(
                topic=record.topic,
                partitions=[
                    FetchPartition(
                        partition=record.partition, fetch_offset=record.offset, partition_max_bytes=1
                    )
                ],
            )
        ],
    )


def read_outcome(prepared: PreparedTransaction, response: FetchResponse) -> Outcome:
    """Transactions of one producer do not overlap: the one that began at or before the record and had not ended there
    is the record's. If another record has that offset, the topic was deleted and created again."""
    check(response.error_code)
    record = prepared.record
    assert record is not None, "the request was made for this record"
    for topic in response.responses:
        for result in topic.partitions:
            if result.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return Outcome.UNKNOWN  # it was deleted since
            check(result.error_code, about=TopicPartition(record.topic, record.partition))
            if result.last_stable_offset <= record.offset:
                # It is being aborted, or another process has taken it over and will end it.
                raise errors.ConcurrentTransactions(about=prepared.transactional_id)
            if not _holds(result.records, prepared, record.offset):
                return Outcome.UNKNOWN
            is_aborted = any(
                each.producer_id == prepared.producer_id and each.first_offset <= record.offset
                for each in result.aborted_transactions or ()
            )
            return Outcome.ABORTED if is_aborted else Outcome.COMMITTED
    return Outcome.UNKNOWN


def _holds(records: Any, prepared: PreparedTransaction, offset: int) -> bool:
    """Whether the first batch has this offset and was written by the producer of the transaction."""
    if not records:
        return False
    header = next(iter(read_headers(records)), None)
    return (
        header is not None
        and header.base_offset <= offset <= header.last_offset
        and (header.producer_id, header.producer_epoch) == (prepared.producer_id, prepared.producer_epoch)
    )
