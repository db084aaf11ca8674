"""InitProducerId: the producer id and epoch that a transactional id has from now on.

The new producer gets a higher epoch, which fences all earlier producers. When the epochs of a producer id are
exhausted, it gets a new producer id. A producer that sends its id and epoch can go on after a failure (KIP-360): it is
fenced if another producer has started since, and a retry gets the same response again.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.coordinator.txn.transaction import ProducerIdAndEpoch, State, Transaction
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP

NewProducerId = Callable[[], int]
"""Returns a producer id that was never used."""


def first(*, timeout_ms: int, now_ms: int, new_producer_id: NewProducerId) -> Transaction:
    """For a new or expired transactional id. The id and epoch in the request are ignored."""
    producer_id = new_producer_id()
    return Transaction(
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
        previous_producer_id=producer_id,  # as in Kafka's log
    )


def next_producer(
    transaction: Transaction,
    *,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: NewProducerId,
) -> Transaction:
    """For a transactional id without an open transaction. `expected` is the id and epoch in the request."""
    client, last_epoch = transaction.client, NO_PRODUCER_EPOCH
    if expected is None:
        client = bumped(client, new_producer_id)
    else:
        _check_known(transaction, expected)
        if expected.epoch == client.epoch:
            client, last_epoch = bumped(client, new_producer_id), client.epoch
        elif expected.epoch == transaction.last_epoch:
            last_epoch = transaction.last_epoch  # a retry, because the response was lost
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
        next_producer_epoch=NO_PRODUCER_EPOCH,
        last_epoch=last_epoch,
    )


def keep_prepared(
    transaction: Transaction,
    *,
    expected: ProducerIdAndEpoch | None,
    timeout_ms: int,
    now_ms: int,
    new_producer_id: NewProducerId,
) -> Transaction:
    """For a prepared transaction that its producer resumes, maybe repeatedly (KIP-939). It stays open; the producer
    gets a new epoch with which only it can end the transaction."""
    client, last_epoch = transaction.client, NO_PRODUCER_EPOCH
    if expected is not None:
        if transaction.is_kept and expected.epoch == transaction.last_epoch:
            _check_known(transaction, expected)
            return transaction  # a retry, because the response was lost
        check_current(transaction, expected)
        last_epoch = client.epoch
    bumped_client = bumped(client, new_producer_id)
    return transaction._replace(
        timeout_ms=timeout_ms,
        update_ms=now_ms,
        previous_producer_id=client.producer_id,
        next_producer_id=bumped_client.producer_id,
        next_producer_epoch=bumped_client.epoch,
        last_epoch=last_epoch,
    )


def bumped(client: ProducerIdAndEpoch, new_producer_id: NewProducerId) -> ProducerIdAndEpoch:
    """The next epoch of a client, or its next producer id if the epochs are exhausted."""
    if client.is_exhausted:
        return ProducerIdAndEpoch(new_producer_id(), 0)
    return ProducerIdAndEpoch(client.producer_id, client.epoch + 1)


def check_current(transaction: Transaction, expected: ProducerIdAndEpoch) -> None:
    """Only the current producer may refer to an open transaction. Kafka only checks the id, so a fenced producer can
    abort the transaction of its successor."""
    if expected != transaction.client:
        raise _fenced(expected, transaction.client)


def _check_known(transaction: Transaction, expected: ProducerIdAndEpoch) -> None:
    """The producer sends its current id, or its previous one if it may have missed the response with the new one."""
    client = transaction.client
    if expected.producer_id == client.producer_id:
        return
    if expected.producer_id == transaction.previous_producer_id and expected.is_exhausted:
        return
    raise _fenced(expected, client)


def _fenced(expected: ProducerIdAndEpoch, client: ProducerIdAndEpoch) -> Refused:
    return Refused(
        ErrorCode.PRODUCER_FENCED,
        f"the producer with id {expected.producer_id} and epoch {expected.epoch} was fenced by id "
        f"{client.producer_id} and epoch {client.epoch}",
    )
