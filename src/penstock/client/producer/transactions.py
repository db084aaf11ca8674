"""What a transactional producer may do when, and what an error means for its transaction. No I/O.

    NOT_READY --init--> READY --begin--> OPEN --commit--> SETTLING --all is written--> ENDING --ended--> READY
                                          |                  +--prepare--> PREPARED --end--+
                                          |                  |                           |
                                          +----- an error ---+--> MUST_ABORT --abort-----+
    from anywhere, when somebody newer has the transactional id, or the broker forbids it: DEAD

`abort` leads to ENDING from OPEN and SETTLING too; from MUST_ABORT only it leads on, and from DEAD nothing does. With
transactions of version 2 (KIP-890) a partition joins by the first batch that is written to it and every end raises the
epoch; with older ones it has to be added before, which `unadded` lists, and the epoch is raised by asking where numbers
no longer fit.

A PREPARED transaction is written and waits for its end, which may come from another process; so closing the producer
leaves it open. `init_transactions` leads from there to READY again, and with `keep_prepared` from NOT_READY to there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable

from penstock.client import errors
from penstock.client.producer.prepared import RecordPlace
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
"""From a coordinator both mean the same; from a partition's leader the first may be cured by aborting (KIP-588)."""
LOST_IDENTITY = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class State(enum.Enum):
    NOT_READY = "has begun none yet"
    READY = "is between two transactions"
    OPEN = "is in a transaction"
    SETTLING = "is about to commit its transaction"
    PREPARED = "has prepared its transaction, which can only be ended now"
    ENDING = "is ending its transaction"
    MUST_ABORT = "has a transaction that can only be aborted"
    DEAD = "cannot go on"


ABORTABLE = frozenset({State.OPEN, State.SETTLING, State.PREPARED, State.MUST_ABORT, State.ENDING})


class Transactions:
    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self._state = State.NOT_READY
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change of state."""
        self.error: Exception | None = None
        """Why it must abort, or cannot go on."""
        self.is_implicit = False
        """Whether partitions join by being written to (version 2)."""
        self.must_raise_epoch = False
        """Numbers were lost: with older transactions, ask for a new epoch when this one has ended."""
        self._is_started = False
        self._is_committing = False
        self.first_record: RecordPlace | None = None
        """The first that was acknowledged in this transaction, in whatever partition."""
        self._added: set[tuple[str, int]] = set()
        self._wanted: dict[tuple[str, int], None] = {}

    @property
    def state(self) -> State:
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self.on_change()

    # -- what an application asks for

    def check_initialize(self) -> None:
        """Raises unless the transactional id may be taken over now."""
        self.check_alive()
        if self.state not in (State.NOT_READY, State.READY, State.PREPARED):
            raise errors.IllegalState(f"a producer that {self.state.value} has to end it first")

    def initialized(self, *, is_implicit: bool, has_open: bool = False) -> None:
        """`has_open`: there is one that was prepared before, perhaps by another process."""
        self._forget()
        self.is_implicit = is_implicit
        self.must_raise_epoch = False
        self._is_started = has_open
        self.state = State.PREPARED if has_open else State.READY

    def begin(self) -> None:
        self.check_alive()
        if self.state is not State.READY:
            raise errors.IllegalState(f"a producer that {self.state.value} cannot begin one")
        self.state = State.OPEN

    def check_send(self) -> None:
        """Raises unless a record may be sent now."""
        self.check_alive()
        if self.state is State.MUST_ABORT:
            raise self._must_abort()
        if self.state is not State.OPEN:
            raise errors.IllegalState(
                "a producer with a transactional.id sends between begin() and commit(), or in a block of transaction();"
                f" this one {self.state.value}"
            )

    def settle(self) -> None:
        """Take in no more records, because a commit waits for those that are under way: another thread may be sending,
        and what comes behind the last look would be written behind the end of the transaction."""
        if self.state is not State.PREPARED and not self.is_commit_unanswered:
            self.check_send()
            self.state = State.SETTLING

    def unsettle(self) -> None:
        """They did not come to rest in time, or nobody waits any longer: it goes on as it was."""
        if self.state is State.SETTLING:
            self.state = State.OPEN

    def prepared(self) -> None:
        """Everything is written: from now on it can only be ended."""
        if self.state not in (State.SETTLING, State.PREPARED):
            self.check_send()
        self.state = State.PREPARED

    def begin_commit(self) -> None:
        """Also again, where the answer to the first time did not come in time."""
        if self.state not in (State.SETTLING, State.PREPARED) and not self.is_commit_unanswered:
            self.check_send()
        self.state = State.ENDING
        self._is_committing = True

    def begin_abort(self) -> None:
        """Also from an error. A commit that may have been heard cannot be taken back, only asked for again."""
        self.check_alive()
        if self.is_commit_unanswered:
            raise errors.IllegalState(
                "it is not known whether the commit went through; commit again to learn it"
            )
        if self.state not in ABORTABLE:
            raise errors.IllegalState(f"there is nothing to abort: the producer {self.state.value}")
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
        return self.is_commit_unanswered or self.state in (State.OPEN, State.SETTLING, State.PREPARED)

    # -- what the transaction consists of

    @property
    def is_started(self) -> bool:
        """Whether the coordinator knows of it, so that it has to be told of the end."""
        return self._is_started

    def started(self) -> None:
        self._is_started = True

    def written(self, topic: str, partition: int, offset: int) -> None:
        """A batch was acknowledged, with its first record there."""
        if self.first_record is None and offset >= 0:
            self.first_record = RecordPlace(topic, partition, offset)

    def may_write(self, topic: str, partition: int) -> bool:
        """Whether a batch to this partition may go out; where it must be added first, it is noted."""
        if self.is_implicit:
            self._is_started = True
            return True
        if (topic, partition) in self._added:
            return True
        self._wanted[topic, partition] = None
        return False

    def unadded(self) -> list[tuple[str, int]]:
        """Partitions that wait to be added."""
        return list(self._wanted)

    def added(self, partitions: Iterable[tuple[str, int]]) -> None:
        self._is_started = True
        for each in partitions:
            self._wanted.pop(each, None)
            self._added.add(each)

    # -- what went wrong

    def take_delivery_error(self, error: Exception) -> None:
        """A batch was refused or given up."""
        if isinstance(error, errors.PenstockError) and error.code in FATAL:
            self.die(error)
        else:
            self.must_raise_epoch = True
            self.must_abort(error)

    def take_coordinator_error(self, error: errors.PenstockError) -> errors.PenstockError:
        """A coordinator refused; the exception that tells it."""
        if error.code in FENCED_BY_COORDINATOR:
            error = errors.of(ErrorCode.PRODUCER_FENCED, about=self.transactional_id)
            self.die(error)
        elif error.code in FATAL:
            self.die(error)
        else:
            self.must_raise_epoch = self.must_raise_epoch or error.code in LOST_IDENTITY
            self.must_abort(error)
        return error

    def failure(self) -> Exception | None:
        """What to tell of records that will not be sent any more; None while they can be."""
        return self._must_abort() if self.state is State.MUST_ABORT else self.error

    def must_abort(self, error: Exception) -> None:
        if self.state in (State.OPEN, State.SETTLING, State.ENDING):
            self.state = State.MUST_ABORT
            self.error = error

    def die(self, error: Exception) -> None:
        if self.state is not State.DEAD:
            self.state = State.DEAD
            self.error = error

    def check_alive(self) -> None:
        """Raises what ended this producer for good, from every call from then on."""
        if self.state is State.DEAD:
            assert self.error is not None, "whatever killed it was told"
            raise self.error.with_traceback(None)

    def _must_abort(self) -> errors.PenstockError:
        failure = errors.TransactionAborted(f"the transaction failed and can only be aborted: {self.error}")
        failure.__cause__ = self.error
        return failure
