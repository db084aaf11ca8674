"""The consumer of a read-process-write loop: the transaction commits its offsets together with the records.

    while True:
        messages = consumer.poll(timeout=1)
        with producer.transaction(consumer=consumer):
            ...

- After a commit the consumer continues after the messages that were processed.
- After an abort it is rewound. Otherwise a loop that catches the error and continues would skip the messages of the
  aborted transaction.
- If a commit was requested and its outcome is not known, the consumer keeps its position until `commit()` gives the
  outcome. To rewind it would be wrong: if the commit succeeds, the same messages would be processed twice.

The sync and the async producer do the I/O; every decision is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from penstock.client import errors
from penstock.client.argument_types import shown
from penstock.client.cluster import TopicPartition
from penstock.client.group.types import GroupMetadata, Offset
from penstock.client.producer.offsets import offsets_and_group
from penstock.client.producer.transactions import State, Transactions


class RewindableConsumer(Protocol):
    """A sync or an async consumer."""

    @property
    def settings(self) -> Any: ...
    def positions(self) -> dict[TopicPartition, int]: ...
    def group_metadata(self) -> GroupMetadata: ...
    def rewind(self) -> None: ...
    def _note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None: ...


class TransactionConsumer:
    """The consumer whose offsets the open transaction commits, if there is one."""

    def __init__(self, transactions: Transactions | None) -> None:
        self._transactions = transactions
        self._consumer: RewindableConsumer | None = None
        self._offsets: dict[TopicPartition, Offset] = {}
        self._is_committing = False
        self._is_uncertain = False

    # -- the steps of a transaction() block

    @contextmanager
    def beginning(self, consumer: RewindableConsumer | None) -> Iterator[None]:
        """Around `begin`. If that fails, no transaction will contain the messages that the consumer has just
        returned."""
        try:
            yield
        except BaseException:
            if consumer is not None and not self._is_uncertain:
                _rewind(consumer)
            raise
        if self._is_uncertain:  # it was committed after all, or no other transaction could begin
            self._note_committed()
        self._consumer, self._offsets = consumer, {}
        self._is_committing = self._is_uncertain = False

    def offsets(self) -> tuple[dict[TopicPartition, Offset], GroupMetadata] | None:
        """The offsets to commit with the transaction."""
        if self._consumer is None:
            return None
        self._offsets, group = offsets_and_group(self._consumer, None)
        return self._offsets, group

    def committing(self) -> None:
        """The block is done: an error from now on is an error of the commit."""
        self._is_committing = True

    def must_abort(self, error: BaseException) -> bool:
        """Whether to abort the transaction because of an error, a cancellation or Ctrl-C."""
        assert self._transactions is not None, "only a transactional producer gets here"
        if self._transactions.is_commit_unanswered:
            self._is_uncertain = True
            return False
        if self._is_committing and isinstance(
            error, errors.TimedOut
        ):  # the caller may commit again, or abort
            self._is_uncertain = True
            return False
        if self._is_committing and self._transactions.state is State.READY:  # Ctrl-C came after the response
            self.committed()
            return False
        return True

    @contextmanager
    def aborting(self) -> Iterator[None]:
        """Around the abort after an error. The caller needs to see that error, so a failed abort is not raised: the
        coordinator aborts the transaction after `transaction.timeout.ms`."""
        try:
            with suppress(errors.PenstockError):
                yield
        finally:
            assert self._transactions is not None
            if not self._transactions.can_commit:  # it can if Ctrl-C came before the abort began
                self.aborted()

    # -- outcomes

    def committed(self) -> None:
        self._note_committed()
        consumer, self._consumer = self._consumer, None
        is_uncertain, self._is_uncertain = self._is_uncertain, False
        if consumer is not None and is_uncertain:  # it may have returned more messages since
            _rewind(consumer)

    def aborted(self) -> None:
        consumer, self._consumer, self._is_uncertain = self._consumer, None, False
        if consumer is not None:
            _rewind(consumer)

    def _note_committed(self) -> None:
        if self._consumer is not None:
            with suppress(errors.ClientClosed):
                self._consumer._note_committed(self._offsets)


def check_consumer(consumer: object) -> None:
    """Reject an object that cannot be rewound, and a consumer that commits its offsets itself."""
    if consumer is None:
        return
    if not hasattr(consumer, "rewind") or not hasattr(consumer, "group_metadata"):
        raise errors.BadArgumentType(f"consumer must be a Consumer, not {shown(consumer)}")
    settings: Any = consumer.settings  # type: ignore[attr-defined]
    if settings.get("group.id") is None:
        raise errors.BadArgument("the consumer needs a group.id to commit its offsets")
    if settings.get("enable.auto.commit"):
        raise errors.BadArgument("the consumer has auto-commit on; create it with enable_auto_commit=False")


def _rewind(consumer: RewindableConsumer) -> None:
    """Other errors are raised: without the rewind, messages would be skipped."""
    with suppress(errors.ClientClosed):
        consumer.rewind()
