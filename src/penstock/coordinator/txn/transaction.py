"""What is known of one transactional id: who writes under it, and how far its transaction has come.

    Empty ──add──> Ongoing ──end──> PrepareCommit ──all markers──> CompleteCommit ──add──> Ongoing ...
                                └─> PrepareAbort  ──all markers──> CompleteAbort

A `Transaction` never changes: a decision makes the next one, which is what the log gets (`records`) and what
`shard.replay` puts in its place. Once a Prepare is in the log nothing can decide otherwise.

There may be two identities. `producer_id` and `producer_epoch` are those that the partitions know: what the records
of the open transaction carry, and from Prepare on its markers. `next_producer_id` and `next_producer_epoch`, where
they are set, are those that the client has been told since: after its epochs were used up (KIP-890), or after it came
back to a transaction that it had prepared (KIP-939). When the transaction is complete they become the only ones.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1

EPOCH_MAX = 32_767
LAST_EPOCH = EPOCH_MAX - 1
"""The last epoch that a client may have, so that there is always a higher one to fence it with."""

NEVER_MS = 2**31 - 1
"""The timeout of a transaction that somebody else decides over, and that therefore has none (KIP-939)."""


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
    """Never seen: whatever expires is removed at once. Clients may ask for it."""
    PREPARE_EPOCH_FENCE = 7
    """Never seen: a step inside Kafka's coordinator. Clients may ask for it."""

    @property
    def title(self) -> str:
        return _TITLES[self]


_TITLES = {state: state.name.title().replace("_", "") for state in State}

STATES_BY_TITLE = {title: state for state, title in _TITLES.items()}

PREPARED = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))
AT_REST = frozenset((State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT))


class Identity(NamedTuple):
    """Whom partitions and coordinators take a request for."""

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
    """In the order in which they were added; after Prepare those that need a marker."""
    start_ms: int
    """When the first partition was added; -1 before that."""
    update_ms: int
    client_version: int = 0
    """The transaction version that the client spoke when it last changed something."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The id that the client had before the last change, mostly the same; for requests that are repeated."""
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch that the client had before the one it has now, if it raised it itself. Not in the log: after a change
    of coordinator a repeated InitProducerId is refused, as in Kafka."""

    @property
    def client(self) -> Identity:
        """Whom requests must come from."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return Identity(self.producer_id, self.producer_epoch)
        return Identity(self.next_producer_id, self.next_producer_epoch)

    @property
    def is_kept(self) -> bool:
        """Whether the client came back to this open transaction, and can only end it."""
        return self.state is State.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def has_deadline(self) -> bool:
        return self.timeout_ms != NEVER_MS

    @property
    def deadline_ms(self) -> int:
        """When it is rolled back, if it is open then. Who comes back to it has all the time again."""
        return self.timeout_ms + (self.update_ms if self.is_kept else self.start_ms)
