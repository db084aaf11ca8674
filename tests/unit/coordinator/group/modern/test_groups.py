"""Finding and replaying groups, for both types of group that share the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.consumer_groups import ConsumerHarness
from harness.streams_groups import StreamsHarness
from penstock.coordinator.group.modern.group import ModernGroup
from penstock.coordinator.group.modern.groups import ModernGroups
from penstock.metadata.errors import Refused
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode

AnyGroup = ModernGroup[Any, Any, Any]
AnyGroups = ModernGroups[Any]


def join_consumer(harness: StreamsHarness, group_id: str = "readers") -> None:
    epoch = ConsumerHarness.heartbeat(harness, "one", topics=["in"], group_id=group_id).member_epoch
    ConsumerHarness.heartbeat(harness, "one", epoch, group_id=group_id)


def join_streams(harness: StreamsHarness, group_id: str = "readers") -> None:
    epoch = harness.heartbeat("one", group_id=group_id).member_epoch
    harness.heartbeat("one", epoch, group_id=group_id)


Join = Callable[..., None]


def groups_of(harness: StreamsHarness, join: Join) -> AnyGroups:
    return harness.consumer._groups if join is join_consumer else harness.streams._groups


def play(join: Join) -> tuple[StreamsHarness, AnyGroups, AnyGroup]:
    """A group with one member, which has its assignment."""
    harness = StreamsHarness()
    harness.create_topic("in", 2)
    join(harness)
    groups = groups_of(harness, join)
    return harness, groups, groups.require("readers")


both = pytest.mark.parametrize("join", [join_consumer, join_streams])


@both
def test_a_leader_change_does_not_make_a_group_stale_and_a_new_partition_does(join: Join) -> None:
    """Assignments do not depend on the leader. Streams groups used to look up their topics then, too."""
    harness, _, group = play(join)
    assert not group.is_stale

    for change in ({"leader": -1}, {"isr": [1], "leader": 1}):
        harness.change_metadata(PartitionChangeRecord(partition_id=0, topic_id=harness.id_of("in"), **change))
    assert not group.is_stale
    harness.create_topic("other", 1)
    assert not group.is_stale

    harness.grow_topic("in", 3)
    assert group.is_stale


@both
def test_new_replicas_make_a_group_stale(join: Join) -> None:
    """The hash of the topics contains the racks of their replicas."""
    harness, _, group = play(join)
    assert not group.is_stale

    harness.change_metadata(
        PartitionChangeRecord(partition_id=0, topic_id=harness.id_of("in"), replicas=[1, 2])
    )

    assert group.is_stale


@both
def test_tombstones_of_an_unknown_group_are_replayed_without_an_effect(join: Join) -> None:
    harness, groups, group = play(join)
    tombstones = group.tombstones()
    harness.load(tombstones)
    assert groups.find(group.group_id) is None

    for tombstone in (*tombstones, *reversed(tombstones)):
        harness.load([tombstone])

    assert groups.find(group.group_id) is None
    assert list(groups) == []


@both
def test_records_are_replayed_in_any_order(join: Join) -> None:
    harness, groups, group = play(join)
    records = [record for record in harness.compacted() if record.value is not None]
    member, epochs = group.members["one"], (group.metadata, group.target_epoch, dict(group.targets))
    harness.load(group.tombstones())

    harness.load(records[::-1])

    loaded = groups.require(group.group_id)
    assert loaded is not group
    assert loaded.members["one"] == member
    assert (loaded.metadata, loaded.target_epoch, dict(loaded.targets)) == epochs


@both
def test_a_group_of_another_type_is_not_found(join: Join) -> None:
    harness, groups, group = play(join)
    other_join = join_streams if join is join_consumer else join_consumer
    others = groups_of(harness, other_join)

    with pytest.raises(Refused, match="is not a") as caught:
        others.require(group.group_id)

    assert caught.value.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert others.find(group.group_id) is None
    assert (list(groups), list(others)) == ([group], [])


@both
def test_a_group_that_is_not_committed_cannot_be_described(join: Join) -> None:
    harness, groups, _ = play(join)
    harness.is_committing = False
    join(harness, "new")
    assert groups.require("new").group_id == "new"

    with pytest.raises(Refused, match="not found"):
        groups.require_committed("new")
    harness.commit()

    assert groups.require_committed("new").group_id == "new"
