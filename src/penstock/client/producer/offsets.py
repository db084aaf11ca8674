"""The arguments of `send_offsets`: a consumer, or offsets and their group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.group.types import GroupMetadata, Offset


class Reader(Protocol):
    """A sync or async consumer."""

    def positions(self) -> dict[TopicPartition, int]: ...
    def group_metadata(self) -> GroupMetadata: ...


Consumed = Reader | Mapping[TopicPartition, int] | Mapping[TopicPartition, Offset]


def offsets_and_group(
    what: Consumed, group: GroupMetadata | str | None
) -> tuple[dict[TopicPartition, Offset], GroupMetadata]:
    """The offset of each partition, and the group metadata."""
    if isinstance(what, Mapping):
        if group is None:
            raise errors.BadArgument("no group: give the group with the offsets, or give the consumer")
        return {TopicPartition(*partition): _offset(offset) for partition, offset in what.items()}, _metadata(
            group
        )
    if not hasattr(what, "group_metadata") or not hasattr(what, "positions"):
        raise errors.BadArgument(f"offsets must be a consumer or a mapping, not {type(what).__name__}")
    metadata = what.group_metadata() if group is None else _metadata(group)
    return {partition: _offset(offset) for partition, offset in what.positions().items()}, metadata


def _metadata(group: GroupMetadata | str) -> GroupMetadata:
    return GroupMetadata(group) if isinstance(group, str) else group


def _offset(offset: Any) -> Offset:
    if isinstance(offset, Offset):
        return offset
    if isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0:
        return Offset(offset)
    raise errors.BadArgument(f"an offset must be an integer or an Offset, not {offset!r}")
