"""Plans to reset the offsets of a group, for `penstock groups` and Kafka's own tool.

A plan is made and shown first. It is executed only on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.client.admin.groups import GroupState
from penstock.client.admin.lag import LagAdmin
from penstock.client.cluster import TopicPartition
from penstock.client.errors import BadArgument, GroupIdNotFound
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

Plan = dict[TopicPartition, int]


class Target(NamedTuple):
    """Where the group continues: exactly one of these is set."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    """The committed offset, moved into the log; without one, the end of the log."""
    to_offset: int | None = None
    shift_by: int | None = None
    to_time_ms: int | None = None
    """The first record at or after this time; without one, the end of the log."""


class Deviation(NamedTuple):
    """A partition gets another offset than requested."""

    partition: TopicPartition
    offset: int
    """The offset it gets: the start or the end of its log."""
    requested: int | None
    """None if a time was requested and no record is as recent."""
    is_empty: bool
    is_at_start: bool

    def __str__(self) -> str:
        if self.requested is not None:
            verb = "begins" if self.is_at_start else "ends"
            return f"{self.partition} {verb} at offset {self.offset}; its new offset is that, not {self.requested}"
        why = "is empty" if self.is_empty else "has no record at or after that time"
        return f"{self.partition} {why}; its new offset is its end, {self.offset}"


class CannotShift(BadArgument):
    """A partition has no committed offset to shift."""


async def select_partitions(
    admin: LagAdmin, group_id: str, topics: Iterable[str], *, all_topics: bool
) -> list[TopicPartition]:
    """The partitions of `topic`, `topic:0` or `topic:0,1`; or all with committed offsets."""
    if all_topics:
        return sorted(await admin.list_group_offsets(group_id))
    wanted: list[TopicPartition] = []
    whole: list[str] = []
    for text in topics:
        topic, separator, indexes = text.partition(":")
        if not separator:
            whole.append(topic)
            continue
        for index in indexes.split(","):
            if not index.isdecimal():
                raise BadArgument(f"Invalid partition '{index}' specified in topic arg '{text}'")
            wanted.append(TopicPartition(topic, int(index)))
    if whole:
        wanted += await admin.topic_offsets(whole, LATEST_TIMESTAMP)
    return wanted


async def check_group(admin: LagAdmin, group_id: str, *, advice: str) -> None:
    """Raise `GroupIdNotFound` for a group that does not exist: committing offsets would create it."""
    try:
        group = await admin.describe_group(group_id)
        if group.state == GroupState.DEAD:  # brokers before Kafka 4 describe an unknown group so
            raise GroupIdNotFound(about=group_id)
    except GroupIdNotFound as problem:
        problem.add_note(advice)
        raise


async def current_offsets(admin: LagAdmin, group_id: str, partitions: Iterable[TopicPartition]) -> Plan:
    """The committed offset of each partition that has one."""
    committed = await admin.list_group_offsets(group_id, list(partitions))
    return {each: offset.offset for each, offset in committed.items() if offset is not None}


async def plan_reset(
    admin: LagAdmin,
    group_id: str,
    partitions: Iterable[TopicPartition],
    target: Target,
    *,
    report: Callable[[Deviation], None],
) -> Plan:
    """The new offset of each partition, within its log. `report` gets each that differs from `target`."""
    wanted = list(partitions)
    ends = {
        each: listed.offset
        for each, listed in (await admin.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP))).items()
    }
    if target.to_latest:
        return ends
    starts = {
        each: listed.offset
        for each, listed in (await admin.list_offsets(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))).items()
    }
    if target.to_earliest:
        return starts
    if target.to_time_ms is not None:
        found = await admin.list_offsets(dict.fromkeys(wanted, target.to_time_ms))
        for each in wanted:
            if found[each].offset < 0:
                report(
                    Deviation(each, ends[each], None, is_empty=starts[each] == ends[each], is_at_start=False)
                )
        return {each: listed.offset if listed.offset >= 0 else ends[each] for each, listed in found.items()}
    if target.to_offset is not None:
        requested: Mapping[TopicPartition, int] = dict.fromkeys(wanted, target.to_offset)
    else:
        current = await current_offsets(admin, group_id, wanted)
        if target.shift_by is not None:
            for partition in wanted:
                if partition not in current:
                    raise CannotShift(
                        f"Cannot shift offset for partition {partition} since there is no current committed offset"
                    )
            requested = {each: current[each] + target.shift_by for each in wanted}
        else:
            requested = {each: current.get(each, ends[each]) for each in wanted}
    plan = {each: min(max(offset, starts[each]), ends[each]) for each, offset in requested.items()}
    for each, offset in plan.items():
        if offset != requested[each]:
            is_empty, is_at_start = starts[each] == ends[each], requested[each] < offset
            report(Deviation(each, offset, requested[each], is_empty=is_empty, is_at_start=is_at_start))
    return plan
