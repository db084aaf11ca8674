"""Where a group is to go on reading: plans to reset its offsets, for `penstock groups` and Kafka's own tool alike.

A plan is made first and told; only then, and only if that was asked for, is it carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.client.admin.groups import GroupState
from penstock.client.admin.lag import LagAdmin
from penstock.client.admin.offsets import EARLIEST, LATEST
from penstock.client.cluster import TopicPartition
from penstock.client.errors import BadArgument, GroupIdNotFound

Plan = dict[TopicPartition, int]


class Target(NamedTuple):
    """Where to go on: exactly one of these is said."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    """Where it is, within what the partition still has; the end where it is nowhere."""
    to_offset: int | None = None
    shift_by: int | None = None
    to_time_ms: int | None = None
    """The first record then or later; the end where there is none."""


class Deviation(NamedTuple):
    """A partition gets another offset than the one that was asked for."""

    partition: TopicPartition
    offset: int
    """What it gets: one of the ends of its log."""
    asked: int | None
    """None if a time was asked for and no record is as young."""
    is_empty: bool
    is_at_start: bool

    def __str__(self) -> str:
        if self.asked is not None:
            verb = "begins" if self.is_at_start else "ends"
            return f"{self.partition} {verb} at offset {self.offset}, which is its new offset instead of {self.asked}"
        why = "is empty" if self.is_empty else "has no record at or after that time"
        return f"{self.partition} {why}; its new offset is its end, {self.offset}"


class CannotShift(BadArgument):
    """A partition has no offset that could be shifted."""


async def partitions_meant(
    admin: LagAdmin, group_id: str, topics: Iterable[str], *, all_topics: bool
) -> list[TopicPartition]:
    """`topic`, `topic:0` or `topic:0,1`; or all that the group has committed."""
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
        wanted += await admin.topic_offsets(whole, LATEST)
    return wanted


async def check_group(admin: LagAdmin, group_id: str, *, advice: str) -> None:
    """Raise `GroupIdNotFound` for a group that does not exist: committing offsets would create it."""
    try:
        group = await admin.describe_group(group_id)
        if (
            group.state == GroupState.DEAD
        ):  # how a broker before Kafka 4 describes a group that it does not know
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
    tell: Callable[[Deviation], None],
) -> Plan:
    """The new offset of each partition, never outside of its log. `tell` gets each one that differs from `target`."""
    wanted = list(partitions)
    ends = {
        each: told.offset for each, told in (await admin.list_offsets(dict.fromkeys(wanted, LATEST))).items()
    }
    if target.to_latest:
        return ends
    starts = {
        each: told.offset
        for each, told in (await admin.list_offsets(dict.fromkeys(wanted, EARLIEST))).items()
    }
    if target.to_earliest:
        return starts
    if target.to_time_ms is not None:
        found = await admin.list_offsets(dict.fromkeys(wanted, target.to_time_ms))
        for each in wanted:
            if found[each].offset < 0:
                tell(
                    Deviation(each, ends[each], None, is_empty=starts[each] == ends[each], is_at_start=False)
                )
        return {each: told.offset if told.offset >= 0 else ends[each] for each, told in found.items()}
    if target.to_offset is not None:
        asked: Mapping[TopicPartition, int] = dict.fromkeys(wanted, target.to_offset)
    else:
        current = await current_offsets(admin, group_id, wanted)
        if target.shift_by is not None:
            for partition in wanted:
                if partition not in current:
                    raise CannotShift(
                        f"Cannot shift offset for partition {partition} since there is no current committed offset"
                    )
            asked = {each: current[each] + target.shift_by for each in wanted}
        else:
            asked = {each: current.get(each, ends[each]) for each in wanted}
    plan = {each: min(max(offset, starts[each]), ends[each]) for each, offset in asked.items()}
    for each, offset in plan.items():
        if offset != asked[each]:
            is_empty, is_at_start = starts[each] == ends[each], asked[each] < offset
            tell(Deviation(each, offset, asked[each], is_empty=is_empty, is_at_start=is_at_start))
    return plan
