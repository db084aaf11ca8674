"""What a consumer commits: offsets in any form that a program gives, or the offsets of returned messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from penstock.client import errors
from penstock.client.argument_types import shown
from penstock.client.cluster import TopicPartition
from penstock.client.consumer.arguments import partition_of
from penstock.client.consumer.positions import Positions
from penstock.client.group.types import Offset
from penstock.client.importing import make
from penstock.records.batch import NO_LEADER_EPOCH
from penstock.records.consuming import Message

logger = logging.getLogger(__name__)

Committable = Mapping[TopicPartition, "int | Offset"] | Message | Iterable[Message]
"""Offsets by partition, a processed message, or several."""


class Interceptor(Protocol):
    """Sees messages before the application does, and commits. All methods are optional."""

    def on_consume(self, messages: list[Message]) -> list[Message]:
        """Returns the messages to pass on."""
        ...

    def on_commit(self, offsets: Mapping[TopicPartition, Offset]) -> None: ...

    def close(self) -> None: ...


def offsets_of(what: Committable) -> dict[TopicPartition, Offset]:
    """The next offset to read, by partition; a message counts as its offset + 1."""
    if isinstance(what, Message):
        what = (what,)
    if isinstance(what, Mapping):
        return {partition_of(partition): _offset(offset, partition) for partition, offset in what.items()}
    offsets: dict[TopicPartition, Offset] = {}
    given: object = what
    is_list = isinstance(given, Iterable) and not isinstance(given, str | bytes)
    for message in what if is_list else [given]:
        if not isinstance(message, Message):
            raise errors.BadArgumentType(
                f"what to commit must be messages, or a mapping of TopicPartition to offsets, not {shown(message)}"
            )
        partition = TopicPartition(message.topic, message.partition)
        if partition not in offsets or offsets[partition].offset <= message.offset:
            epoch = NO_LEADER_EPOCH if message.leader_epoch is None else message.leader_epoch
            offsets[partition] = Offset(message.offset + 1, epoch)
    return offsets


def consumed(positions: Positions) -> dict[TopicPartition, Offset]:
    """The positions of all partitions that have one."""
    return {state.partition: Offset(state.offset, state.epoch) for state in positions if state.has_position}


def _offset(offset: object, partition: object) -> Offset:
    if isinstance(offset, int) and not isinstance(offset, bool):
        offset = Offset(offset)
    if not isinstance(offset, Offset):
        raise errors.BadArgumentType(
            f"an offset must be an integer or an Offset, not {shown(offset)}", about=partition
        )
    if offset.offset < 0:
        raise errors.BadArgument(f"offset {offset.offset} is negative", about=partition)
    return offset


class Interceptors:
    """The interceptors of `interceptor.classes`, in order. An error in one is logged and otherwise ignored."""

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._interceptors = [make(each, what="interceptor") for each in interceptors]

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, messages: list[Message]) -> list[Message]:
        for interceptor in self._interceptors:
            on_consume = getattr(interceptor, "on_consume", None)
            if on_consume is not None:
                try:
                    messages = on_consume(messages)
                except Exception:
                    logger.warning("the interceptor %r failed", interceptor, exc_info=True)
        return messages

    def on_commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Called after a successful commit."""
        self._notify("on_commit", offsets)

    def close(self) -> None:
        self._notify("close")

    def _notify(self, what: str, *arguments: object) -> None:
        for interceptor in self._interceptors:
            method = getattr(interceptor, what, None)
            if method is not None:
                try:
                    method(*arguments)
                except Exception:
                    logger.warning("the interceptor %r failed", interceptor, exc_info=True)
