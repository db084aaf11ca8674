"""Which partitions belong to a transaction: what AddPartitionsToTxn and AddOffsetsToTxn decide.

The first partition opens the transaction. Adding goes on until the end is decided; a partition that is added twice
is no change.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.coordinator.txn.transaction import (
    PREPARED,
    Identity,
    State,
    TopicPartition,
    Transaction,
)
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode


def add(
    transaction: Transaction, partitions: Sequence[TopicPartition], *, client_version: int, now_ms: int
) -> Transaction | None:
    """The transaction with `partitions` in it; None where they are in it already."""
    if transaction.state is State.ONGOING:
        held = frozenset(transaction.partitions)
        new = tuple(dict.fromkeys(partition for partition in partitions if partition not in held))
        if not new:
            return None
        return transaction._replace(
            partitions=transaction.partitions + new,
            update_ms=now_ms,
            client_version=client_version,
            previous_producer_id=transaction.producer_id,
        )
    return transaction._replace(
        state=State.ONGOING,
        partitions=tuple(dict.fromkeys(partitions)),
        start_ms=now_ms,
        update_ms=now_ms,
        client_version=client_version,
        previous_producer_id=transaction.producer_id,
    )


def verify(transaction: Transaction, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the transaction. What is not there can be cured by rolling back (KIP-890)."""
    held = transaction.partitions if len(partitions) == 1 else frozenset(transaction.partitions)
    return {
        partition: ErrorCode.NONE if partition in held else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def check_producer(transaction: Transaction | None, producer: Identity) -> Transaction:
    """The transaction, if `producer` may add to it now."""
    if transaction is None:
        raise Refused(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "the transactional id is unknown; call InitProducerId first",
        )
    client = transaction.client
    if producer.producer_id != client.producer_id:
        raise Refused(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the transactional id is mapped to producer id {client.producer_id}",
        )
    if producer.epoch != client.epoch:
        raise Refused(
            ErrorCode.PRODUCER_FENCED,
            f"the producer was fenced: the current producer epoch is {client.epoch}",
        )
    if transaction.state in PREPARED:
        raise Refused(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            "the previous transaction of this transactional id is still being completed; try again",
        )
    if transaction.is_kept:
        raise Refused(ErrorCode.INVALID_TXN_STATE, "a prepared transaction can only be committed or aborted")
    return transaction
