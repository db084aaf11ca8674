"""The state machine of a transactional producer: which call is allowed when, and what an error means. No I/O.

    UNINITIALIZED --init--> READY --begin--> OPEN --commit--> FLUSHING --all written--> ENDING --ended--> READY
                                              |                  +--prepare--> PREPARED --end--+
                                              |                  |                             |
                                              +----- error ------+--> ABORTABLE_ERROR --abort--+
    from any state, if a newer producer has the transactional id or the broker forbids it: FATAL_ERROR

`abort` also leads from OPEN and FLUSHING to ENDING. Only `abort` leaves ABORTABLE_ERROR; nothing leaves FATAL_ERROR.
In transactions of version 2 (KIP-890) the first batch written to a partition adds it, and every end bumps the epoch. In
older ones a partition must be added before (`partitions_to_add`), and InitProducerId bumps the epoch if sequence
numbers were lost.

A PREPARED transaction is written and may be ended by another process, so closing the producer leaves it open.
`init_transactions` leads from PREPARED to READY, and with `keep_prepared` from UNINITIALIZED to PREPARED.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from penstock.client import errors
from penstock.client.prepared_transaction import RecordPlace
from penstock.protocol.errors import ErrorCode

FATAL = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)
FENCED_BY_COORDINATOR = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""From a coordinator both mean fenced; from a partition leader the first one may be resolved by an abort (KIP-588)."""
LOST_IDENTITY = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class State(enum.Enum):
    UNINITIALIZED = "has not begun a transaction yet"
    READY = "has no open transaction"
    OPEN = "is in a transaction"
    FLUSHING = "is about to commit its transaction"
    PREPARED = "has prepared its transaction, which can only be ended now"
    ENDING = "is ending its transaction"
    ABORTABLE_ERROR = "has a transaction that can only be aborted"
    FATAL_ERROR = "cannot go on"


ABORTABLE = frozenset({State.OPEN, State.FLUSHING, State.PREPARED, State.ABORTABLE_ERROR, State.ENDING})


class Transactions:
    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self._state = State.UNINITIALIZED
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change of state."""
        self.error: Exception | None = None
        """Why it must abort, or cannot continue."""
        self.is_implicit = False
        """Whether writing to a partition adds it (version 2)."""
        self.must_bump_epoch = False
        """Sequence numbers were lost: older transactions need a new epoch when this one has ended."""
        self._is_started = False
        self._is_committing = False
        self.first_record: RecordPlace | None = None
        """The first record that was acknowledged in this transaction, in any partition."""
        self._added: set[tuple[str, int]] = set()
        self._wanted: dict[tuple[str, int], None] = {}

    @property
    def state(self) -> State:
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self.on_change()

    # -- calls of the application

    def check_initialize(self) -> None:
        """Raises unless the transactional id may be taken over now."""
        self.check_usable()
        if self.state not in (State.UNINITIALIZED, State.READY, State.PREPARED):
            raise errors.IllegalState(f"end the transaction first: the producer {self.state.value}")

    def initialized(self, *, is_implicit: bool, has_open: bool = False) -> None:
        """`has_open`: a prepared transaction exists, perhaps of another process."""
        self._forget()
        self.is_implicit = is_implicit
        self.must_bump_epoch = False
        self._is_started = has_open
        self.state = State.PREPARED if has_open else State.READY

    def begin(self) -> None:
        self.check_usable()
        if self.state is not State.READY:
            raise errors.IllegalState(f"cannot begin a transaction: the producer {self.state.value}")
        self.state = State.OPEN

    def check_send(self) -> None:
        """Raises unless a record may be sent now."""
        self.check_usable()
        if self.state is State.ABORTABLE_ERROR:
            raise self._must_abort()
        if self.state is not State.OPEN:
            raise errors.IllegalState(
                "a producer with a transactional.id sends between begin() and commit(), or inside transaction();"
                f" this one {self.state.value}"
            )

    @contextmanager
    def flushing(self) -> Iterator[None]:
        """Reject new records while a commit waits for those in flight: another thread may send, and a record that
        came later would be written after the end of the transaction. If the wait fails, the transaction stays open."""
        if self.state is not State.PREPARED and not self.is_commit_unanswered:
            self.check_send()
            self.state = State.FLUSHING
        try:
            yield
        finally:
            if self.state is State.FLUSHING:
                self.state = State.OPEN

    def prepared(self) -> None:
        """Everything is written: from now on it can only be ended."""
        if self.state not in (State.FLUSHING, State.PREPARED):
            self.check_send()
        self.state = State.PREPARED

    def begin_commit(self) -> None:
        """Also again, if the response to the first commit did not come in time."""
        if self.state not in (State.FLUSHING, State.PREPARED) and not self.is_commit_unanswered:
            self.check_send()
        self.state = State.ENDING
        self._is_committing = True

    def begin_abort(self) -> None:
        """Also after an error. A commit that may have arrived cannot be undone, only repeated."""
        self.check_usable()
        if self.is_commit_unanswered:
            raise errors.IllegalState("the outcome of the commit is unknown; call commit() again to learn it")
        if self.state not in ABORTABLE:
            raise errors.IllegalState(f"nothing to abort: the producer {self.state.value}")
        self.state = State.ENDING
        self._is_committing = False

    def ended(self) -> None:
        self._forget()
        self.state = State.READY

    def _forget(self) -> None:
        self.error = None
        self.first_record = None
        self._is_started = False
        self._added.clear()
        self._wanted.clear()

    @property
    def is_commit_unanswered(self) -> bool:
        """Whether a commit was requested and its outcome is not known: the coordinator may have committed."""
        return self.state is State.ENDING and self._is_committing

    @property
    def can_commit(self) -> bool:
        """Whether the transaction may still be committed, or may have been."""
        return self.is_commit_unanswered or self.state in (State.OPEN, State.FLUSHING, State.PREPARED)

    # -- contents of the transaction

    @property
    def is_started(self) -> bool:
        """Whether the coordinator knows of it, so that EndTxn must be sent."""
        return self._is_started

    def started(self) -> None:
        self._is_started = True

    def written(self, topic: str, partition: int, offset: int) -> None:
        """A batch was acknowledged; this is its first record."""
        if self.first_record is None and offset >= 0:
            self.first_record = RecordPlace(topic, partition, offset)

    def may_write(self, topic: str, partition: int) -> bool:
        """Whether a batch to this partition may be sent; if the partition must be added first, it is noted."""
        if self.is_implicit:
            self._is_started = True
            return True
        if (topic, partition) in self._added:
            return True
        self._wanted[topic, partition] = None
        return False

    def partitions_to_add(self) -> list[tuple[str, int]]:
        """Partitions that wait to be added."""
        return list(self._wanted)

    def partitions_added(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._is_started = True
        for each in partitions:
            self._wanted.pop(each, None)
            self._added.add(each)

    # -- errors

    def take_delivery_error(self, error: Exception) -> None:
        """A batch was rejected or has expired."""
        if isinstance(error, errors.PenstockError) and error.code in FATAL:
            self.fail_fatally(error)
        else:
            self.must_bump_epoch = True
            self.must_abort(error)

    def take_coordinator_error(self, error: errors.PenstockError) -> errors.PenstockError:
        """A coordinator returned an error; returns the exception to raise."""
        if error.code in FENCED_BY_COORDINATOR:
            error = errors.of(ErrorCode.PRODUCER_FENCED, about=self.transactional_id)
            self.fail_fatally(error)
        elif error.code in FATAL:
            self.fail_fatally(error)
        else:
            self.must_bump_epoch = self.must_bump_epoch or error.code in LOST_IDENTITY
            self.must_abort(error)
        return error

    def failure(self) -> Exception | None:
        """The error of records that will not be sent any more; None while they can be."""
        return self._must_abort() if self.state is State.ABORTABLE_ERROR else self.error

    def must_abort(self, error: Exception) -> None:
        if self.state in (State.OPEN, State.FLUSHING, State.ENDING):
            self.state = State.ABORTABLE_ERROR
            self.error = error

    def fail_fatally(self, error: Exception) -> None:
        if self.state is not State.FATAL_ERROR:
            self.state = State.FATAL_ERROR
            self.error = error

    def check_usable(self) -> None:
        """Raises the fatal error of this producer, from every later call."""
        if self.state is State.FATAL_ERROR:
            assert self.error is not None, "a fatal state has an error"
            raise self.error.with_traceback(None)

    def _must_abort(self) -> errors.PenstockError:
        failure = errors.TransactionAborted(f"the transaction failed and can only be aborted: {self.error}")
        failure.__cause__ = self.error
        return failure
