"""The tables of `kafka-consumer-groups.sh`, with the columns and widths that scripts rely on."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from penstock.cli.kafka.admin import message_of
from penstock.client.admin.groups import (
    ConsumerGroup,
    ConsumerMember,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupState,
)
from penstock.client.admin.lag import PartitionLag
from penstock.client.cluster import TopicPartition
from penstock.client.errors import GroupSubscribedToTopic, PenstockError

Cell = TypeVar("Cell")

MISSING = "-"
WIDTH = 15
REBALANCING = {
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
}


def print_listing(groups: Sequence[GroupListing], *, with_type: bool, with_state: bool) -> None:
    if not with_type and not with_state:
        for group in groups:
            print(group.group_id)
        return
    width = max([WIDTH, *(len(group.group_id) for group in groups)]) + 10
    rows = [("GROUP", "TYPE", "STATE"), *((group.group_id, group.type, group.state) for group in groups)]
    for group_id, kind, state in rows:
        cells = [f"{group_id:<{width}}"]
        cells += [f"{kind:<20}"] if with_type else []
        cells += [f"{state:<20}"] if with_state else []
        print(" ".join(cells))


def print_offsets(group: GroupDescription, lags: Sequence[PartitionLag], *, verbose: bool) -> None:
    print_note(group)
    rows = [_offset_row(group.group_id, lag) for lag in _as_kafka_sorts(group, lags)]
    if not rows:
        return
    head = [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "LEADER-EPOCH",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    widths = [
        _width(rows, 0),
        _width(rows, 1),
        10,
        WIDTH,
        WIDTH,
        WIDTH,
        WIDTH,
        _width(rows, 7),
        _width(rows, 8),
        0,
    ]
    for row in [head, *rows] if verbose else [_without_epoch(row) for row in (head, *rows)]:
        print("\n" + _line(row, widths if verbose else _without_epoch(widths)), end="")
    print()


def _offset_row(group_id: str, lag: PartitionLag) -> list[str]:
    member = lag.member
    return [
        group_id,
        lag.partition.topic,
        str(lag.partition.partition),
        _or_missing(lag.leader_epoch),
        _or_missing(lag.committed_offset),
        _or_missing(lag.end_offset),
        _or_missing(lag.lag),
        MISSING if member is None else member.member_id,
        MISSING if member is None else member.host,
        MISSING if member is None else member.client_id,
    ]


def _without_epoch(row: list[Cell]) -> list[Cell]:
    return [*row[:3], *row[4:]]


def _as_kafka_sorts(group: GroupDescription, lags: Sequence[PartitionLag]) -> list[PartitionLag]:
    """Members with many partitions first, partitions without a member last."""
    order = {member.member_id: place for place, member in enumerate(_by_size(group.members))}
    return sorted(lags, key=lambda lag: order[lag.member.member_id] if lag.member else len(order))


def _by_size(members: Iterable[GroupMember]) -> list[GroupMember]:
    return sorted(members, key=lambda member: -len(member.assignment))


def print_members(group: GroupDescription, *, verbose: bool) -> None:
    print_note(group)
    head = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"] if verbose else []
    rows = [_member_row(group, member, verbose=verbose) for member in group.members]
    widths = [
        _width(rows, 0),
        _width(rows, 1),
        max(17, _width(rows, 2)),
        _width(rows, 3),
        _width(rows, 4),
        WIDTH,
    ]
    if verbose:
        widths += [WIDTH, max(20, _width(rows, 7)), WIDTH, max(20, _width(rows, 9))]
    if not any(member.instance_id for member in group.members):
        rows, head, widths = [row[:2] + row[3:] for row in rows], head[:2] + head[3:], widths[:2] + widths[3:]
    print()
    for row in (head, *rows):
        print(_line(row, widths) + " ")


def _member_row(group: GroupDescription, member: GroupMember, *, verbose: bool) -> list[str]:
    row = [
        group.group_id,
        member.member_id,
        member.instance_id or "",
        member.host,
        member.client_id,
        str(len(member.assignment)),
    ]
    if not verbose:
        return row
    is_new = isinstance(member, ConsumerMember) and isinstance(group, ConsumerGroup)
    return [
        *row,
        str(member.epoch) if isinstance(member, ConsumerMember) else MISSING,
        _assignment(member.assignment),
        str(group.assignment_epoch) if isinstance(group, ConsumerGroup) and is_new else MISSING,
        _assignment(member.target) if isinstance(member, ConsumerMember) else MISSING,
    ]


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    """`orders:0,1;payments:2`."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    return (
        ";".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in by_topic.items()) or MISSING
    )


def print_state(group: GroupDescription, *, verbose: bool) -> None:
    print_note(group)
    node = group.coordinator
    coordinator = MISSING if node is None else f"{node.host}:{node.port}  ({node.id})"
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row = [group.group_id, coordinator, getattr(group, "assignor", "") or MISSING, str(group.state)]
    widths = [max(WIDTH, len(group.group_id)), max(25, len(coordinator)), 20, 20]
    if verbose:
        head += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [
            _or_missing(getattr(group, "epoch", None)),
            _or_missing(getattr(group, "assignment_epoch", None)),
        ]
        widths += [WIDTH, 25]
    for cells in ([*head, "#MEMBERS"], [*row, str(len(group.members))]):
        print("\n" + _line(cells, [*widths, 0]), end="")
    print()


def print_note(group: GroupDescription) -> None:
    if group.state is GroupState.EMPTY:
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)


def print_reset(plans: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    head = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    rows = [
        [group_id, partition.topic, str(partition.partition), str(offset)]
        for group_id, plan in plans.items()
        for partition, offset in plan.items()
    ]
    widths = [_width(rows, 0), _width(rows, 1), 10, WIDTH]
    for row in (head, *rows) if plans else ():
        print("\n" + _line(row, widths), end="")
    print()


def print_deleted_offsets(group_id: str, results: Mapping[TopicPartition, PenstockError | None]) -> None:
    failed = [error for partition, error in results.items() if error is not None and partition.partition >= 0]
    if not failed:
        print(f"Request succeeded for deleting offsets from group {group_id}.")
    elif any(isinstance(error, GroupSubscribedToTopic) for error in failed):
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"\nError: {message_of(failed[0])}")
    rows = [
        [
            partition.topic,
            MISSING if partition.partition < 0 else str(partition.partition),
            "Successful" if error is None else f"Error: {message_of(error)}",
        ]
        for partition, error in sorted(results.items(), key=lambda item: item[0])
    ]
    widths = [_width(rows, 0), 10, WIDTH]
    for row in (["TOPIC", "PARTITION", "STATUS"], *rows):
        print("\n" + _line(row, widths), end="")
    print()


def _or_missing(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _width(rows: Sequence[Sequence[str]], column: int) -> int:
    return max([WIDTH, *(len(row[column]) for row in rows)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(f"{cell:<{width}}" if width else cell for cell, width in zip(cells, widths, strict=True))
