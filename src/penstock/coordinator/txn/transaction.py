"""The state of one transactional id: its producer, and its current transaction.

    Empty ──add──> Ongoing ──end──> PrepareCommit ──all markers──> CompleteCommit ──add──> Ongoing ...
                                └─> PrepareAbort  ──all markers──> CompleteAbort

A `Transaction` is immutable: a decision creates the next one, which is written to the log (`records`) and replaces the
last one in `shard.replay`. Once a Prepare state is in the log, the result of the transaction cannot change.

A transaction may have two producer identities. `producer_id` and `producer_epoch` are those that the partitions know:
the records of the open transaction have them, and from Prepare on its markers. `next_producer_id` and
`next_producer_epoch`, if set, are those that the client uses since: after its epochs were exhausted (KIP-890), or after
it resumed a prepared transaction (KIP-939). When the transaction is complete, they replace the others.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, PRODUCER_EPOCH_MAX

LAST_EPOCH = PRODUCER_EPOCH_MAX - 1
"""The last epoch that a client may have: one more is needed to fence it."""

NEVER_MS = 2**31 - 1
"""The timeout of a transaction in a two-phase commit: an external coordinator ends it (KIP-939)."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class State(IntEnum):
    """The numbers are those of the log, the titles those of DescribeTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """Not used: an expired id is removed at once. Clients may filter by it."""
    PREPARE_EPOCH_FENCE = 7
    """Not used: an internal state of Kafka's coordinator. Clients may filter by it."""

    @property
    def title(self) -> str:
        return _TITLES[self]


_TITLES = {state: state.name.title().replace("_", "") for state in State}

STATES_BY_TITLE = {title: state for state, title in _TITLES.items()}

PREPARED = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
NOT_OPEN = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int

    @property
    def is_exhausted(self) -> bool:
        return self.epoch >= LAST_EPOCH


class Transaction(NamedTuple):
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: tuple[TopicPartition, ...]
    """In the order in which they were added; from Prepare on those that need a marker."""
    start_ms: int
    """When the first partition was added; -1: not yet."""
    update_ms: int
    client_version: int = 0
    """The transaction version of the client's last change."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change, usually the same; for retried requests."""
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    last_epoch: int = NO_PRODUCER_EPOCH
    """The previous epoch of the client, if it bumped the epoch itself. Not in the log: another coordinator refuses a
    retried InitProducerId, as in Kafka."""

    @property
    def client(self) -> ProducerIdAndEpoch:
        """The producer id and epoch that requests must have."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)
        return ProducerIdAndEpoch(self.next_producer_id, self.next_producer_epoch)

    def check_producer(self, producer: ProducerIdAndEpoch) -> None:
        """`Refused` if the request does not come from the current producer."""
        client = self.client
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

    def check_not_prepared(self) -> None:
        if self.state in PREPARED:
            raise Refused(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                "the previous transaction of this transactional id is still being completed; try again",
            )

    @property
    def is_kept(self) -> bool:
        """Whether the client has resumed this prepared transaction, and can only end it."""
        return self.state is State.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def has_deadline(self) -> bool:
        return self.timeout_ms != NEVER_MS

    @property
    def deadline_ms(self) -> int:
        """When it is aborted, if it is still open. Resuming a prepared transaction restarts its timeout."""
        return self.timeout_ms + (self.update_ms if self.is_kept else self.start_ms)


def unknown_transactional_id() -> Refused:
    return Refused(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id is unknown; call InitProducerId first"
    )
