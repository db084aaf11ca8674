"""Loading and unloading classic groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.classic_groups import CLIENT, GROUP, REBALANCE_MS, SESSION_MS, ClassicHarness, subscription
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.records import TYPES
from penstock.coordinator.group.records.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.coordinator.serde import RecordSerde
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def harness() -> ClassicHarness:
    return ClassicHarness()


def record(version: int = 3) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="two",
        current_state_timestamp=123 if version >= 2 else -1,
        members=[
            MemberMetadata(
                member_id=name,
                group_instance_id="shelf-1" if version >= 3 and name == "one" else None,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=REBALANCE_MS if version >= 1 else -1,
                session_timeout=SESSION_MS,
                subscription=subscription("topic"),
                assignment=name.encode(),
            )
            for name in ("one", "two")
        ],
    )
    return CoordinatorRecord(GroupMetadataKey(group=GROUP), value, version)


# -- loading


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_the_record_can_be_read(version: int) -> None:
    harness = ClassicHarness(is_loaded=False)
    harness.load([record(version)])

    group = harness.group()

    assert group.state is State.STABLE
    assert (group.generation, group.protocol_name, group.leader_id) == (7, "range", "two")
    assert group.state_since_ms == (123 if version >= 2 else None)
    assert group.static_ids == ({"shelf-1": "one"} if version >= 3 else {})
    assert group.members["one"].rebalance_timeout_ms == (REBALANCE_MS if version >= 1 else SESSION_MS)
    assert group.members["two"].assignment == b"two"


def test_members_continue_after_loading(harness: ClassicHarness) -> None:
    leader, follower = harness.stabilize({}, {})

    successor = harness.successor()

    assert successor.heartbeat(follower.member_id, 1) is ErrorCode.NONE
    assert successor.sync(follower).value.assignment == follower.member_id.encode()
    assert successor.join(leader.member_id).is_waiting


def test_members_that_do_not_send_heartbeats_after_loading_are_removed(harness: ClassicHarness) -> None:
    harness.stabilize({}, {})
    successor = harness.successor()

    successor.advance(SESSION_MS)

    assert successor.group().state is State.EMPTY
    assert not len(successor.context.timers)


def test_a_generation_without_assignments_is_lost_when_loading(harness: ClassicHarness) -> None:
    (one,) = harness.stabilize({})
    harness.enter()
    harness.join(one.member_id)
    assert harness.group().generation == 2

    successor = harness.successor()

    assert successor.group().generation == 1
    assert successor.heartbeat(one.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert successor.heartbeat(one.member_id, 1) is ErrorCode.NONE


def test_a_record_of_a_loaded_group_is_the_same_again(harness: ClassicHarness) -> None:
    harness.stabilize({}, {"instance_id": "shelf-1"})
    successor = harness.successor()
    framing = RecordSerde(TYPES)

    again = successor.classic.adopt(successor.group())

    assert framing.encode(again) == framing.encode(harness.compacted()[-1])


def test_a_group_that_is_loaded_above_its_maximum_size_is_rebalanced(harness: ClassicHarness) -> None:
    harness.stabilize({}, {}, {})

    assert harness.successor({"group.max.size": "2"}).group().state is State.PREPARING_REBALANCE
    assert harness.successor({"group.max.size": "3"}).group().state is State.STABLE


def test_a_tombstone_removes_the_group(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.leave(member.member_id)

    harness.play(CoordinatorResult(None, harness.group().tombstones()))

    assert GROUP not in harness.context.groups
    assert GROUP not in harness.successor().context.groups
    assert not len(harness.context.timers)


def test_a_tombstone_of_an_unknown_group_is_ignored() -> None:
    harness = ClassicHarness(is_loaded=False)

    harness.load([CoordinatorRecord(GroupMetadataKey(group=GROUP), None)])

    assert GROUP not in harness.context.groups


def test_the_record_of_a_group_replaces_a_simple_group() -> None:
    """Offsets may precede the group in the log."""
    harness = ClassicHarness(is_loaded=False)
    harness.context.groups[GROUP] = ClassicGroup(harness.context, GROUP)

    harness.load([record()])

    assert set(harness.group().members) == {"one", "two"}


# -- unloading


def test_all_waiting_members_are_sent_to_the_new_coordinator(harness: ClassicHarness) -> None:
    _, follower = harness.assemble({"group_id": "first"}, {"group_id": "first"})
    syncing = harness.sync(follower, group_id="first")
    joining = harness.enter(group_id="second")

    harness.classic.unloaded()

    assert joining.error is ErrorCode.NOT_COORDINATOR
    assert syncing.error is ErrorCode.NOT_COORDINATOR
    assert not len(harness.context.timers)


def test_a_commit_of_the_record_after_a_rebalance_is_ignored(harness: ClassicHarness) -> None:
    (leader,) = harness.assemble({})
    harness.is_committing = False
    waiting = harness.sync(leader)
    harness.classic.unloaded()

    harness.commit()

    assert waiting.error is ErrorCode.NOT_COORDINATOR
    assert harness.group().state is State.DEAD


# -- migration


def other_group(state: str) -> Any:
    """A group of another type: only its state and its tombstones matter to a join."""
    tombstone = CoordinatorRecord(GroupMetadataKey(group="its own record"), None)
    return SimpleNamespace(is_empty=state == "Empty", tombstones=lambda: [tombstone])


def test_an_empty_group_of_another_type_is_replaced(harness: ClassicHarness) -> None:
    harness.context.groups[GROUP] = other_group("Empty")

    reply = harness.join(version=3)

    assert reply.is_waiting
    assert [(record.key.group, record.value is None) for record in harness.log] == [
        ("its own record", True),
        (GROUP, False),
    ]
    assert list(harness.group().members)


def test_an_offset_stays_if_the_log_refuses_its_tombstone(harness: ClassicHarness) -> None:
    other = harness.context.groups[GROUP] = other_group("Empty")
    harness.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert harness.join(version=3).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.context.groups[GROUP] is other
    assert not len(harness.context.timers)


def test_a_group_of_another_type_with_members_is_inconsistent(harness: ClassicHarness) -> None:
    harness.context.groups[GROUP] = other_group("Stable")

    assert harness.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join("unknown-member").value.member_id == ""
    assert harness.heartbeat("unknown-member", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave("unknown-member").members[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID


def make_member(member_id: str) -> Member:
    return Member(
        member_id,
        instance_id=None,
        client=CLIENT,
        rebalance_timeout_ms=REBALANCE_MS,
        session_timeout_ms=SESSION_MS,
        protocols={"range": subscription("topic"), "sticky": subscription("topic")},
        assignment=member_id.encode(),
    )


def test_an_adopted_group_exists_once_its_record_is_replayed(harness: ClassicHarness) -> None:
    group = ClassicGroup.of_members(
        harness.context, GROUP, generation=12, members=[make_member("one"), make_member("two")]
    )
    to_write = harness.classic.adopt(group)
    assert GROUP not in harness.context.groups

    harness.play(CoordinatorResult(None, [to_write]))

    assert harness.group() is group
    assert group.protocol_name == "range"
    assert group.subscribed_topics == {"topic"}
    assert set(group.members["one"].protocols) == {"range", "sticky"}, "more than the record has"
    assert harness.heartbeat("one", 12) is ErrorCode.NONE
    harness.advance(SESSION_MS)
    assert group.state is State.EMPTY


def test_an_adopted_group_can_be_rebalanced_at_once(harness: ClassicHarness) -> None:
    group = ClassicGroup.of_members(harness.context, GROUP, generation=12, members=[make_member("one")])

    harness.play(CoordinatorResult(None, [harness.classic.adopt(group, rebalance_reason="downgraded")]))

    assert harness.heartbeat("one", 12) is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.join("one").value.generation_id == 13


def test_an_adopted_group_whose_record_is_refused_does_not_exist(harness: ClassicHarness) -> None:
    group = ClassicGroup.of_members(harness.context, GROUP, generation=12, members=[make_member("one")])
    harness.classic.adopt(group, rebalance_reason="downgraded")

    assert GROUP not in harness.context.groups
    assert not len(harness.context.timers)
    harness.join()
    assert not harness.group().members


def test_waiting_members_of_a_group_that_is_migrated_have_to_rejoin(harness: ClassicHarness) -> None:
    one, _ = harness.stabilize({}, {})
    joining = harness.join(one.member_id)

    harness.play(CoordinatorResult(None, harness.group().tombstones()))

    assert joining.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joining.value.member_id == one.member_id
    assert not len(harness.context.timers)
