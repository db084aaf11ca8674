"""The consumer of a read-process-write loop: its offsets are committed with the records that came of them.

    for messages in ...:
        with producer.transaction(consumer=consumer):
            ...

After a commit the consumer goes on behind what was processed. After an abort it is rewound: without that, a loop that
catches the error and goes on would skip the messages of the aborted transaction. If it is not known whether a commit
went through, the consumer stays where it is until `commit()` or `abort()` has told.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from penstock.client import errors
from penstock.client.argument_types import shown
from penstock.client.cluster import TopicPartition
from penstock.client.group.nouns import GroupMetadata, Offset
from penstock.client.producer.offsets import offsets_and_group


class TransactionalReader(Protocol):
    """A consumer, of either face."""

    @property
    def settings(self) -> Any: ...
    def positions(self) -> dict[TopicPartition, int]: ...
    def group_metadata(self) -> GroupMetadata: ...
    def rewind(self) -> None: ...
    def _note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None: ...


class Reader:
    """Whose offsets belong to the open transaction of a producer, if anybody's do."""

    def __init__(self) -> None:
        self._consumer: TransactionalReader | None = None
        self._offsets: dict[TopicPartition, Offset] = {}
        self._is_uncertain = False

    def begin(self, consumer: TransactionalReader | None) -> None:
        self._consumer, self._offsets, self._is_uncertain = consumer, {}, False

    def not_begun(self, consumer: TransactionalReader | None) -> None:
        """There is no transaction for what the consumer was just given."""
        if consumer is not None and not self._is_uncertain:
            _rewind(consumer)

    def offsets(self) -> tuple[dict[TopicPartition, Offset], GroupMetadata] | None:
        """What to commit with the transaction."""
        if self._consumer is None:
            return None
        self._offsets, group = offsets_and_group(self._consumer, None)
        return self._offsets, group

    def uncertain(self) -> None:
        """Whether the commit went through is not known."""
        self._is_uncertain = True

    def committed(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        with suppress(errors.PenstockError):  # it was closed meanwhile
            consumer._note_committed(self._offsets)
        if self._is_uncertain:  # it may have been given more since
            self._is_uncertain = False
            _rewind(consumer)

    def aborted(self) -> None:
        consumer, self._consumer, self._is_uncertain = self._consumer, None, False
        if consumer is not None:
            _rewind(consumer)


def check_reader(consumer: object) -> None:
    """Reject what cannot be rewound, and a consumer that commits by itself what the transaction should commit."""
    if consumer is None:
        return
    if not hasattr(consumer, "rewind") or not hasattr(consumer, "group_metadata"):
        raise errors.BadArgumentType(f"consumer must be a Consumer, not {shown(consumer)}")
    settings: Any = consumer.settings  # type: ignore[attr-defined]
    if settings.get("group.id") is None:
        raise errors.BadArgument("the consumer needs a group.id, for which its offsets are committed")
    if settings.get("enable.auto.commit"):
        raise errors.BadArgument(
            "the consumer commits its offsets by itself; make it with enable_auto_commit=False"
        )


def _rewind(consumer: TransactionalReader) -> None:
    with suppress(errors.PenstockError):  # it was closed meanwhile
        consumer.rewind()
