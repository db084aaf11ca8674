"""Hanging transactions: open on a partition, but no coordinator will end them (KIP-664).

A partition knows the open transactions of its producers; coordinators know the transactions that they will end. A
transaction that is open and unknown to every coordinator hangs. It blocks consumers with read_committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.client.admin.topics import TopicsAdmin
from penstock.client.admin.transactions import ProducerState, TransactionDescription, TransactionsAdmin
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed, TransactionalIdNotFound


class HangingAdmin(TopicsAdmin, TransactionsAdmin):
    """The families of admin calls that the search needs."""


class Hanging(NamedTuple):
    partition: TopicPartition
    producer: ProducerState


async def find_hanging(
    admin: HangingAdmin,
    *,
    topic: str | None,
    partition: int | None,
    broker: int | None,
    older_than_ms: int,
    now_ms: int,
) -> list[Hanging]:
    partitions = await _partitions(admin, topic, partition, broker)
    states = await admin.describe_producers(partitions, broker=broker)
    candidates = [
        Hanging(where, producer)
        for where, producers in sorted(states.items())
        for producer in producers
        if producer.transaction_start_offset is not None
        and now_ms - (producer.last_timestamp_ms or 0) >= older_than_ms
    ]
    if not candidates:
        return []
    known = await _known(admin, {each.producer.producer_id for each in candidates})
    return [
        each
        for each in candidates
        if each.producer.producer_id not in known
        or each.partition not in known[each.producer.producer_id].partitions
    ]


async def _partitions(
    admin: HangingAdmin, topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    names = (
        [topic]
        if topic is not None
        else [each.name for each in await admin.list_topics(include_internal=True)]
    )
    described = await admin.describe_topics(names)
    return [
        TopicPartition(name, each.index)
        for name, description in described.items()
        for each in description.partitions
        if broker is None or broker in each.replicas
    ]


async def _known(admin: HangingAdmin, producer_ids: Iterable[int]) -> dict[int, TransactionDescription]:
    """The transactions of these producers that coordinators know, by producer id."""
    listed = await admin.list_transactions(producer_ids=producer_ids)
    ids: Sequence[str] = [each.transactional_id for each in listed]
    try:
        described = await admin.describe_transactions(ids)
    except ItemsFailed as failed:
        if not all(isinstance(error, TransactionalIdNotFound) for error in failed.exceptions):
            raise
        described = dict(failed.results)
    return {each.producer_id: each for each in described.values()}
