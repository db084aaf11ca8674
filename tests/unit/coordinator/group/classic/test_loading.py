"""A shard that was loaded from its records, and one that is given up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.classic_groups import CLIENT, GROUP, REBALANCE_MS, SESSION_MS, ClassicStage, subscription
from penstock.coordinator.framing import RecordFraming
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.member import Member
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.records import TYPES
from penstock.coordinator.group.records.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from penstock.coordinator.outcome import CoordinatorRecord, Outcome
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def stage() -> ClassicStage:
    return ClassicStage()


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
    stage = ClassicStage(is_loaded=False)
    stage.load([record(version)])

    group = stage.group()

    assert group.state is State.STABLE
    assert (group.generation, group.protocol_name, group.leader_id) == (7, "range", "two")
    assert group.state_since_ms == (123 if version >= 2 else None)
    assert group.static_ids == ({"shelf-1": "one"} if version >= 3 else {})
    assert group.members["one"].rebalance_timeout_ms == (REBALANCE_MS if version >= 1 else SESSION_MS)
    assert group.members["two"].assignment == b"two"


def test_members_go_on_where_they_were(stage: ClassicStage) -> None:
    leader, follower = stage.stabilize({}, {})

    successor = stage.successor()

    assert successor.heartbeat(follower.member_id, 1) is ErrorCode.NONE
    assert successor.sync(follower).value.assignment == follower.member_id.encode()
    assert successor.join(leader.member_id).is_waiting


def test_members_that_do_not_come_back_are_put_out(stage: ClassicStage) -> None:
    stage.stabilize({}, {})
    successor = stage.successor()

    successor.advance(SESSION_MS)

    assert successor.group().state is State.EMPTY
    assert not len(successor.context.timers)


def test_a_generation_that_nobody_synced_is_forgotten(stage: ClassicStage) -> None:
    (one,) = stage.stabilize({})
    stage.enter()
    stage.join(one.member_id)
    assert stage.group().generation == 2

    successor = stage.successor()

    assert successor.group().generation == 1
    assert successor.heartbeat(one.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert successor.heartbeat(one.member_id, 1) is ErrorCode.NONE


def test_a_record_of_a_loaded_group_is_the_same_again(stage: ClassicStage) -> None:
    stage.stabilize({}, {"instance_id": "shelf-1"})
    successor = stage.successor()
    framing = RecordFraming(TYPES)

    again = successor.classic.adopt(successor.group())

    assert framing.encode(again) == framing.encode(stage.compacted()[-1])


def test_a_group_that_is_larger_than_allowed_is_rebalanced(stage: ClassicStage) -> None:
    stage.stabilize({}, {}, {})

    assert stage.successor({"group.max.size": "2"}).group().state is State.PREPARING_REBALANCE
    assert stage.successor({"group.max.size": "3"}).group().state is State.STABLE


def test_a_tombstone_removes_the_group(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.leave(member.member_id)

    stage.play(Outcome(None, stage.group().tombstones()))

    assert GROUP not in stage.context.groups
    assert GROUP not in stage.successor().context.groups
    assert not len(stage.context.timers)


def test_a_tombstone_of_a_group_that_is_not_there_is_fine() -> None:
    stage = ClassicStage(is_loaded=False)

    stage.load([CoordinatorRecord(GroupMetadataKey(group=GROUP), None)])

    assert GROUP not in stage.context.groups


def test_a_simple_group_takes_its_members_when_its_record_is_read() -> None:
    """Offsets may stand before the group in the log."""
    stage = ClassicStage(is_loaded=False)
    stage.context.groups[GROUP] = ClassicGroup(stage.context, GROUP)

    stage.load([record()])

    assert set(stage.group().members) == {"one", "two"}


# -- giving up


def test_everyone_who_waits_is_sent_to_the_new_coordinator(stage: ClassicStage) -> None:
    _, follower = stage.assemble({"group_id": "first"}, {"group_id": "first"})
    syncing = stage.sync(follower, group_id="first")
    joining = stage.enter(group_id="second")

    stage.classic.unloaded()

    assert joining.error is ErrorCode.NOT_COORDINATOR
    assert syncing.error is ErrorCode.NOT_COORDINATOR
    assert not len(stage.context.timers)


def test_what_is_committed_after_that_matters_to_nobody(stage: ClassicStage) -> None:
    (leader,) = stage.assemble({})
    stage.is_committing = False
    waiting = stage.sync(leader)
    stage.classic.unloaded()

    stage.commit()

    assert waiting.error is ErrorCode.NOT_COORDINATOR
    assert stage.group().state is State.DEAD


# -- groups that change their type


def other_group(state: str) -> Any:
    """A group of another type: only its state and its tombstones matter to someone who joins."""
    tombstone = CoordinatorRecord(GroupMetadataKey(group="its own record"), None)
    return SimpleNamespace(is_empty=state == "Empty", tombstones=lambda: [tombstone])


def test_an_empty_group_of_another_type_gives_way(stage: ClassicStage) -> None:
    stage.context.groups[GROUP] = other_group("Empty")

    reply = stage.join(version=3)

    assert reply.is_waiting
    assert [(record.key.group, record.value is None) for record in stage.log] == [
        ("its own record", True),
        (GROUP, False),
    ]
    assert list(stage.group().members)


def test_if_that_can_not_be_written_it_stays(stage: ClassicStage) -> None:
    other = stage.context.groups[GROUP] = other_group("Empty")
    stage.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE

    assert stage.join(version=3).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.context.groups[GROUP] is other
    assert not len(stage.context.timers)


def test_a_group_of_another_type_with_members_is_inconsistent(stage: ClassicStage) -> None:
    stage.context.groups[GROUP] = other_group("Stable")

    assert stage.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.join("somebody").value.member_id == ""
    assert stage.heartbeat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.leave("somebody").members[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID


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


def test_a_group_made_of_given_members_takes_its_place_with_its_record(stage: ClassicStage) -> None:
    group = ClassicGroup.of_members(
        stage.context, GROUP, generation=12, members=[make_member("one"), make_member("two")]
    )
    to_write = stage.classic.adopt(group)
    assert GROUP not in stage.context.groups

    stage.play(Outcome(None, [to_write]))

    assert stage.group() is group
    assert group.protocol_name == "range"
    assert group.subscribed_topics == {"topic"}
    assert set(group.members["one"].protocols) == {"range", "sticky"}, "more than the record tells"
    assert stage.heartbeat("one", 12) is ErrorCode.NONE
    stage.advance(SESSION_MS)
    assert group.state is State.EMPTY


def test_it_can_be_rebalanced_at_once(stage: ClassicStage) -> None:
    group = ClassicGroup.of_members(stage.context, GROUP, generation=12, members=[make_member("one")])

    stage.play(Outcome(None, [stage.classic.adopt(group, rebalance_reason="downgraded")]))

    assert stage.heartbeat("one", 12) is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.join("one").value.generation_id == 13


def test_if_its_record_is_refused_it_never_was(stage: ClassicStage) -> None:
    group = ClassicGroup.of_members(stage.context, GROUP, generation=12, members=[make_member("one")])
    stage.classic.adopt(group, rebalance_reason="downgraded")

    assert GROUP not in stage.context.groups
    assert not len(stage.context.timers)
    stage.join()
    assert not stage.group().members


def test_members_that_wait_while_their_group_takes_another_type_shall_join_that(stage: ClassicStage) -> None:
    one, _ = stage.stabilize({}, {})
    joining = stage.join(one.member_id)

    stage.play(Outcome(None, stage.group().tombstones()))

    assert joining.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joining.value.member_id == one.member_id
    assert not len(stage.context.timers)


def test_a_rebalance_can_be_asked_for(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})

    assert stage.classic.prepare_rebalance(stage.group(), "somebody wants it") == []

    assert stage.heartbeat(member.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
