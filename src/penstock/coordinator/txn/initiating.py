"""Who writes under a transactional id from now on: what InitProducerId decides.

Whoever asks gets an epoch above all earlier ones, which fences those who had them; when an id's epochs are used up, a
new id. A producer that says who it is may go on after a failure (KIP-360): it is fenced itself if another one has come
since, and if it merely repeats its request it is told the same again.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordinator.txn.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Identity,
    State,
    Transaction,
)
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

NewProducerId = Callable[[], int]
"""A number that no producer has had yet."""


def first(*, timeout_ms: int, now_ms: int, new_producer_id: NewProducerId) -> Transaction:
    """For an id that nobody has used, or that has expired. What the producer says that it was before means nothing."""
    producer_id = new_producer_id()
    return Transaction(
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
        previous_producer_id=producer_id,  # as Kafka's log has it
    )


def next_producer(
    transaction: Transaction,
    *,
    expected: Identity | None,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: NewProducerId,
) -> Transaction:
    """For an id whose last transaction is complete. `expected` is who the producer says that it is."""
    client, last_epoch = transaction.client, NO_EPOCH
    if expected is None:
        client = raised(client, new_producer_id)
    else:
        _check_known(transaction, expected)
        if expected.epoch == client.epoch:
            client, last_epoch = raised(client, new_producer_id), client.epoch
        elif expected.epoch == transaction.last_epoch:
            last_epoch = transaction.last_epoch  # it asks again because the answer was lost
        else:
            raise _fenced(expected, client)
    return transaction._replace(
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        last_epoch=last_epoch,
    )


def keep_open(
    transaction: Transaction,
    *,
    expected: Identity | None,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: NewProducerId,
) -> Transaction:
    """For an open transaction that its producer had prepared and comes back to, perhaps not for the first time
    (KIP-939): it stays as it is, and the producer gets an identity with which it can end it, and nobody before it."""
    client, last_epoch = transaction.client, NO_EPOCH
    if expected is not None:
        if transaction.is_kept and expected.epoch == transaction.last_epoch:
            _check_known(transaction, expected)
            return transaction  # it asks again because the answer was lost
        check_current(transaction, expected)
        last_epoch = client.epoch
    raised_client = raised(client, new_producer_id)
    return transaction._replace(
        timeout_ms=timeout_ms,
        update_ms=now_ms,
        previous_producer_id=client.producer_id,
        next_producer_id=raised_client.producer_id,
        next_producer_epoch=raised_client.epoch,
        last_epoch=last_epoch,
    )


def raised(client: Identity, new_producer_id: NewProducerId) -> Identity:
    """The next identity of a client."""
    if client.is_exhausted:
        return Identity(new_producer_id(), 0)
    return Identity(client.producer_id, client.epoch + 1)


def check_current(transaction: Transaction, expected: Identity) -> None:
    """Of an open transaction: only its own producer may speak of it. Kafka looks at the id alone, and lets a producer
    that was replaced roll back what its successor has open."""
    if expected != transaction.client:
        raise _fenced(expected, transaction.client)


def _check_known(transaction: Transaction, expected: Identity) -> None:
    """A producer speaks of the id that it has, or of the one that it had, if it may not have heard of the new one."""
    client = transaction.client
    if expected.producer_id == client.producer_id:
        return
    if expected.producer_id == transaction.previous_producer_id and expected.is_exhausted:
        return
    raise _fenced(expected, client)


def _fenced(expected: Identity, client: Identity) -> Refused:
    return Refused(
        ErrorCode.PRODUCER_FENCED,
        f"the producer with id {expected.producer_id} and epoch {expected.epoch} was fenced by id "
        f"{client.producer_id} and epoch {client.epoch}",
    )
