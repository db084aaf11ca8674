"""Online migration between classic and consumer groups (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import CLIENT, GROUP, REBALANCE_MS, ConsumerHarness, HonestMember, settle
from harness.mixed_groups import CLASSIC_SESSION_MS, ClassicConsumer, Phase
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest

WATER = {("water", index) for index in range(6)}
QUICK = {"group.initial.rebalance.delay.ms": "0"}


def make_harness(**properties: str) -> ConsumerHarness:
    harness = ConsumerHarness(
        {**QUICK, **{name.replace("_", "."): value for name, value in properties.items()}}
    )
    harness.create_topic("water", 6)
    return harness


@pytest.fixture
def harness() -> ConsumerHarness:
    return make_harness()


def go_on(harness: ConsumerHarness, *members: HonestMember | ClassicConsumer, rounds: int = 12) -> None:
    """All members take their next steps, and no two of them read the same partition."""
    for _ in range(rounds):
        for member in members:
            member.heartbeat() if isinstance(member, HonestMember) else member.step()
            owned = [one for other in members for one in other.owned]
            assert len(owned) == len(set(owned))
        harness.advance(1_000)


def classic_pair(harness: ConsumerHarness, **options: Any) -> list[ClassicConsumer]:
    members = [ClassicConsumer(harness, name, **options) for name in ("old one", "old two")]
    go_on(harness, *members)
    assert [len(member.owned) for member in members] == [3, 3]
    assert isinstance(harness.context.groups[GROUP], ClassicGroup)
    return members


# -- upgrade


@pytest.mark.parametrize("is_eager", [True, False])
def test_a_consumer_member_joins_classic_members_and_all_get_partitions(
    harness: ConsumerHarness, is_eager: bool
) -> None:
    old = classic_pair(harness, is_eager=is_eager)
    generation = old[0].generation
    had = [set(member.owned) for member in old]
    new = HonestMember(harness, "new")

    response = new.heartbeat()

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, generation + 1)
    assert [harness.group.members[member.member_id].is_classic for member in old] == [True, True]
    assert harness.group.classic_protocols["any"] == harness.group.classic_count == 2
    go_on(harness, *old, new)
    assert [len(member.owned) for member in (*old, new)] == [2, 2, 2]
    assert all(member.owned < before for member, before in zip(old, had, strict=True))
    assert {member.generation for member in old} == {new.epoch}


def test_members_with_the_current_metadata_hash_get_no_new_epoch(harness: ConsumerHarness) -> None:
    old = classic_pair(harness)
    new = HonestMember(harness, "new", topics=["elsewhere"])
    new.heartbeat()
    go_on(harness, *old, new)
    written = len(harness.log)

    for member in old:
        member.heartbeat()

    assert [member.last_error for member in old] == [ErrorCode.NONE] * 2
    assert len(harness.log) == written


def test_a_member_that_waits_for_a_rebalance_has_to_rejoin_the_upgraded_group(
    harness: ConsumerHarness,
) -> None:
    old = classic_pair(harness)
    late = ClassicConsumer(harness, "late")
    for _ in range(3):
        late.step()
    assert late.phase is Phase.JOINING

    new = HonestMember(harness, "new")
    new.heartbeat()
    late.step()

    assert late.last_error is ErrorCode.REBALANCE_IN_PROGRESS
    go_on(harness, *old, late, new, rounds=16)
    assert sorted(len(member.owned) for member in (*old, late, new)) == [1, 1, 2, 2]


def test_partitions_of_cooperative_members_in_an_unfinished_rebalance_are_not_reassigned(
    harness: ConsumerHarness,
) -> None:
    old = classic_pair(harness)
    # Two rebalances in a row: the second discards the assignment of the first.
    third, fourth = ClassicConsumer(harness, "third"), ClassicConsumer(harness, "fourth")
    for _ in range(3):  # gets an id and joins with it
        third.step()
    for member in old:
        member.heartbeat()
        member.step()  # rejoins and reports its partitions
    harness.advance(0)
    for _ in range(3):
        fourth.step()
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    assert not any(member.assignment for member in group.members.values())

    new = HonestMember(harness, "new")
    new.heartbeat()

    assert new.owned == set()
    go_on(harness, *old, third, fourth, new, rounds=25)
    assert set().union(*(member.owned for member in (*old, third, fourth, new))) == WATER


@pytest.mark.parametrize("has_joined_again", [False, True])
def test_partitions_of_a_member_that_missed_its_last_assignment_are_not_reassigned(
    harness: ConsumerHarness, monkeypatch: pytest.MonkeyPatch, has_joined_again: bool
) -> None:
    leader, unaware = classic_pair(harness)
    third = ClassicConsumer(harness, "third")
    for _ in range(3):  # gets an id and joins with it
        third.step()
    for member in (leader, unaware):
        member.heartbeat()
        member.step()  # rejoins and reports its partitions
    harness.advance(0)
    withheld = set(unaware.owned)
    assign = ClassicConsumer._assign
    monkeypatch.setattr(
        ClassicConsumer,
        "_assign",
        lambda member: {each: given - withheld for each, given in assign(member).items()},
    )
    for member in (leader, unaware, third):
        member.step()
    for member in (leader, third):
        member.step()
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.STABLE
    unaware.lose_answer()
    if has_joined_again:
        unaware.step()

    new = HonestMember(harness, "new")
    for _ in range(4):
        go_on(harness, new, leader, third, rounds=1)
        assert not unaware.owned & (leader.owned | third.owned | new.owned)

    go_on(harness, leader, unaware, third, new, rounds=25)
    assert set().union(*(member.owned for member in (leader, unaware, third, new))) == WATER


def test_partitions_that_a_classic_leader_has_missed_are_assigned(harness: ConsumerHarness) -> None:
    old = classic_pair(harness)
    harness.grow_topic("water", 8)
    new = HonestMember(harness, "new", topics=[], regex="nothing")

    go_on(harness, *old, new)

    assert [len(member.owned) for member in old] == [4, 4]


def test_an_empty_classic_group_becomes_a_consumer_group(harness: ConsumerHarness) -> None:
    old = ClassicConsumer(harness, "old")
    go_on(harness, old)
    old.leave()
    assert isinstance(harness.context.groups[GROUP], ClassicGroup)

    response = harness.heartbeat("new", topics=["water"])

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert isinstance(harness.reloaded().context.groups[GROUP], ConsumerGroup)


def test_an_upgraded_group_is_loaded_as_it_is(harness: ConsumerHarness) -> None:
    old = classic_pair(harness)
    harness.heartbeat("new", topics=["water"])

    other = harness.reloaded()

    assert dict(other.group.members.items()) == dict(harness.group.members.items())
    assert other.group.classic_count == 2
    assert other.group.members[old[0].member_id].classic is not None


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"group_consumer_migration_policy": "disabled"}, "migration.policy"),
        ({"group_consumer_migration_policy": "DOWNGRADE"}, "migration.policy"),
        ({"group_consumer_max_size": "1"}, "max.size"),
    ],
)
def test_a_group_stays_classic_if_the_policy_does_not_allow_an_upgrade(
    properties: dict[str, str], words: str
) -> None:
    harness = make_harness(**properties)
    old = classic_pair(harness)
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)

    response = harness.heartbeat("new", topics=["water"])

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert words in (response.error_message or "")
    assert not harness.consumer.can_upgrade(group)
    old[0].heartbeat()
    assert old[0].last_error is ErrorCode.NONE


def test_groups_with_another_protocol_type_stay_classic(harness: ConsumerHarness) -> None:
    request = join_request(protocol_type="connect", metadata=b"whatever", instance_id="worker")
    harness.play(harness.classic.join(request, client=CLIENT, version=9))

    response = harness.heartbeat("new", topics=["water"])

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "not consumers" in (response.error_message or "")


def test_a_group_with_malformed_subscriptions_stays_classic(harness: ConsumerHarness) -> None:
    request = join_request(metadata=b"\x00\x01rubbish", instance_id="worker")
    harness.play(harness.classic.join(request, client=CLIENT, version=9))

    response = harness.heartbeat("new", topics=["water"])

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "malformed" in (response.error_message or "")


# -- classic members of a consumer group


@pytest.fixture
def mixed(harness: ConsumerHarness) -> tuple[ConsumerHarness, ClassicConsumer, HonestMember]:
    old, new = ClassicConsumer(harness, "old"), HonestMember(harness, "new")
    go_on(harness, old, new)
    assert isinstance(harness.context.groups[GROUP], ConsumerGroup)
    assert [len(old.owned), len(new.owned)] == [3, 3]
    return harness, old, new


def test_a_heartbeat_says_when_partitions_have_to_be_revoked(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    third = HonestMember(harness, "third")
    third.heartbeat()

    old.heartbeat()

    assert old.last_error is ErrorCode.REBALANCE_IN_PROGRESS
    go_on(harness, old, new, third)
    assert [len(member.owned) for member in (old, new, third)] == [2, 2, 2]


def test_a_member_that_does_not_rejoin_in_time_is_removed(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    third = HonestMember(harness, "third")
    third.heartbeat()
    for _ in range(12):
        old.phase = Phase.IN  # it ignores the response
        old.heartbeat()
        new.heartbeat()
        third.heartbeat()
        harness.advance(5_000)

    assert old.member_id not in harness.group.members


def test_a_member_that_rejoins_is_not_removed_while_its_records_are_written(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    old.heartbeat()
    harness.advance(CLASSIC_SESSION_MS - 1_000)
    new.heartbeat()
    HonestMember(harness, "third").heartbeat()
    harness.is_committing = False
    old.join()

    harness.advance(CLASSIC_SESSION_MS - 1_000)

    assert old.member_id in harness.group.members


@pytest.mark.parametrize("does_sync", [False, True])
def test_a_member_that_rejoins_or_syncs_is_not_late_while_its_records_are_written(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember], does_sync: bool
) -> None:
    harness, old, new = mixed
    old.join()
    for left_ms in range(REBALANCE_MS, 0, -5_000):
        harness.answer(harness.consumer.classic_heartbeat(harness.group, heartbeat_request(old), version=4))
        new.heartbeat()
        harness.advance(min(5_000, left_ms - 1))
    harness.is_committing = False
    harness.heartbeat("third", topics=["water"])
    old.step()
    old.step() if does_sync else old.join()

    harness.advance(1_000)

    assert old.member_id in harness.group.members


def test_a_member_that_joins_and_does_not_sync_is_removed(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    old.join()
    for _ in range(12):
        harness.answer(harness.consumer.classic_heartbeat(harness.group, heartbeat_request(old), version=4))
        new.heartbeat()
        harness.advance(5_000)

    assert list(harness.group.members) == ["new"]


def test_a_silent_classic_member_is_removed_after_its_own_session_timeout(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    harness.advance(CLASSIC_SESSION_MS - 1_000 - 1)
    new.heartbeat()
    assert old.member_id in harness.group.members
    harness.advance(1)

    assert list(harness.group.members) == ["new"]
    settle(harness, new)
    assert new.owned == WATER


def test_a_removed_member_that_reports_owned_partitions_gets_unknown_member_id(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    for _ in range(4):  # it pauses for longer than its session
        harness.advance(CLASSIC_SESSION_MS // 3)
        new.heartbeat()
    settle(harness, new)
    assert new.owned == WATER

    old.join()
    old.step()

    assert old.last_error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(harness.group.members) == ["new"]
    go_on(harness, old, new)
    assert [len(old.owned), len(new.owned)] == [3, 3]


def test_a_removed_member_that_sends_its_identity_gets_a_new_id(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    """Some clients revoke partitions only when the response says so."""
    harness, old, _ = mixed
    had = set(old.owned)
    harness.answer(harness.consumer.leave(harness.group, leave_request(old), version=5))
    old.member_id = ""

    old.join()
    old.step()
    assert (old.last_error, old.owned) == (ErrorCode.MEMBER_ID_REQUIRED, had)
    old.join()
    old.step()

    assert old.last_error is ErrorCode.NONE
    assert old.member_id in harness.group.members


def test_a_pending_member_id_expires(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    before = len(harness.context.timers)
    ClassicConsumer(harness, "late").join()
    assert len(harness.context.timers) == before + 1

    for _ in range(3):
        harness.advance(CLASSIC_SESSION_MS // 3)
        old.heartbeat()
        new.heartbeat()

    assert len(harness.context.timers) == before


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "unknown-member"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 99}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "shelf-9"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_requests_of_other_members_are_refused(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember], fields: dict[str, Any], error: ErrorCode
) -> None:
    harness, old, _ = mixed
    asked = {"group_id": GROUP, "member_id": old.member_id, "generation_id": old.generation, **fields}

    with pytest.raises(Refused) as refused:
        harness.consumer.classic_heartbeat(harness.group, HeartbeatRequest(**asked), version=4)
    assert refused.value.error is error
    with pytest.raises(Refused) as refused:
        harness.consumer.sync(harness.group, SyncGroupRequest(**asked, assignments=[]), version=5)
    assert refused.value.error is error


def test_a_protocol_that_was_not_agreed_on_is_refused(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, _ = mixed
    asked = {
        "group_id": GROUP,
        "member_id": old.member_id,
        "generation_id": old.generation,
        "assignments": [],
    }

    for fields in ({"protocol_name": "sticky"}, {"protocol_type": "connect"}):
        with pytest.raises(Refused) as refused:
            harness.consumer.sync(harness.group, SyncGroupRequest(**asked, **fields), version=5)
        assert refused.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_that_joined_with_another_protocol_before_the_upgrade_has_to_rejoin() -> None:
    harness = make_harness()
    harness.heartbeat("new", topics=["water"])
    joining = join_request(member_id="old")
    joining.protocols = [
        JoinGroupRequestProtocol(name=name, metadata=joining.protocols[0].metadata)
        for name in ("one", "other")
    ]
    joined = harness.answer(harness.consumer.join(harness.group, joining, client=CLIENT, version=3))
    asked = {
        "group_id": GROUP,
        "member_id": joined.member_id,
        "generation_id": joined.generation_id,
        "assignments": [],
    }

    with pytest.raises(Refused) as refused:
        harness.consumer.sync(harness.group, SyncGroupRequest(**asked, protocol_name="other"), version=5)

    assert joined.protocol_name == "one"
    assert refused.value.error is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "unheard of"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "with an id", "metadata": b"\x00\x01rubbish"}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_member_without_a_common_protocol_cannot_join(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember], fields: dict[str, Any], error: ErrorCode
) -> None:
    harness, _, _ = mixed

    with pytest.raises(Refused) as refused:
        harness.consumer.join(harness.group, join_request(**fields), client=CLIENT, version=9)

    assert refused.value.error is error
    assert len(harness.group.members) == 2


def test_no_classic_member_joins_if_migration_is_disabled() -> None:
    harness = make_harness(group_consumer_migration_policy="disabled")
    harness.heartbeat("new", topics=["water"])

    with pytest.raises(Refused) as refused:
        harness.consumer.join(harness.group, join_request(), client=CLIENT, version=9)

    assert refused.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_response_to_a_leave_has_each_member(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=[
            MemberIdentity(member_id=old.member_id),
            MemberIdentity(member_id="unknown-member"),
            MemberIdentity(member_id="", group_instance_id="shelf-9"),
        ],
    )

    response = harness.answer(harness.consumer.leave(harness.group, request, version=5))

    assert [member.error_code for member in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    settle(harness, new)
    assert new.owned == WATER


# -- downgrade


def test_timeouts_of_an_earlier_consumer_group_are_cancelled_by_an_upgrade(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    old.join()  # it has to sync within a minute
    new.leave()
    go_on(harness, old, rounds=4)
    again = HonestMember(harness, "again")

    go_on(harness, old, again, rounds=70)

    assert [len(old.owned), len(again.owned)] == [3, 3]
    assert old.generation == again.epoch


def test_when_the_last_consumer_member_leaves_the_group_is_downgraded(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    epoch = harness.group.epoch

    assert new.leave().error_code is ErrorCode.NONE
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (State.PREPARING_REBALANCE, epoch)
    go_on(harness, old)

    assert old.owned == WATER
    assert old.generation == epoch + 1
    loaded = harness.reloaded().context.groups[GROUP]
    assert isinstance(loaded, ClassicGroup)
    assert list(loaded.members) == [old.member_id]


def test_when_the_session_of_the_last_consumer_member_expires_the_group_is_downgraded(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, _ = mixed

    go_on(harness, old, rounds=60)

    assert isinstance(harness.context.groups[GROUP], ClassicGroup)
    assert old.owned == WATER


def test_owned_partitions_survive_loading_a_downgraded_group_before_all_have_rejoined(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    new.leave()
    loaded = harness.reloaded()
    old.harness = loaded

    go_on(loaded, old)

    assert old.owned == WATER


def test_a_downgrade_followed_by_an_upgrade_reassigns_no_owned_partition(
    mixed: tuple[ConsumerHarness, ClassicConsumer, HonestMember],
) -> None:
    harness, old, new = mixed
    third = ClassicConsumer(harness, "third")
    go_on(harness, third, new, rounds=4)
    promised = harness.group.targets[third.member_id][harness.id_of("water")]
    assert {("water", index) for index in promised} & old.owned  # which has not received it yet

    new.leave()
    assert isinstance(harness.context.groups[GROUP], ClassicGroup)
    another = HonestMember(harness, "another")
    another.heartbeat()
    assert isinstance(harness.context.groups[GROUP], ConsumerGroup)

    for _ in range(4):
        go_on(harness, third, another, rounds=1)
        assert not (third.owned | another.owned) & old.owned
    go_on(harness, old, third, another, rounds=20)
    assert [len(member.owned) for member in (old, third, another)] == [2, 2, 2]


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_group_stays_a_consumer_group_if_the_policy_does_not_allow_a_downgrade(policy: str) -> None:
    harness = make_harness()
    old, new = ClassicConsumer(harness, "old"), HonestMember(harness, "new")
    go_on(harness, old, new)
    harness.settings = make_harness(group_consumer_migration_policy=policy).settings

    new.leave()

    assert isinstance(harness.context.groups[GROUP], ConsumerGroup)
    assert list(harness.group.members) == [old.member_id]


def test_a_group_above_the_classic_maximum_size_is_not_downgraded() -> None:
    harness = make_harness(group_max_size="1")
    new = HonestMember(harness, "new")
    new.heartbeat()
    old = [ClassicConsumer(harness, name) for name in ("old one", "old two")]
    go_on(harness, *old, new)

    new.leave()

    assert len(harness.group.members) == 2


@pytest.mark.parametrize("is_settled", [True, False])
def test_the_last_consumer_member_may_rejoin_as_a_classic_member(is_settled: bool) -> None:
    harness = make_harness()
    old = ClassicConsumer(harness, "old", instance_id="shelf-1")
    new = HonestMember(harness, "new", instance_id="shelf-2")
    go_on(harness, old, new)
    if not is_settled:
        harness.grow_topic("water", 8)
    had = new.owned
    harness.heartbeat("new", -2, instance_id="shelf-2")
    again = ClassicConsumer(harness, "again", instance_id="shelf-2")
    again.step()

    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is (State.STABLE if is_settled else State.PREPARING_REBALANCE)
    go_on(harness, old, again)
    assert len(old.owned | again.owned) == (6 if is_settled else 8)
    if is_settled:
        assert again.owned == had


def test_a_downgrade_during_revocation_makes_all_members_rejoin(harness: ConsumerHarness) -> None:
    old = ClassicConsumer(harness, "old", instance_id="shelf-1")
    third = ClassicConsumer(harness, "third", instance_id="shelf-3")
    go_on(harness, old, third)
    new = HonestMember(harness, "new", instance_id="shelf-2")
    new.heartbeat()  # the others have not revoked anything yet
    harness.heartbeat("new", -2, instance_id="shelf-2")

    again = ClassicConsumer(harness, "again", instance_id="shelf-2")
    again.step()

    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    go_on(harness, old, third, again, rounds=25)
    assert old.owned | third.owned | again.owned == WATER


def test_an_empty_consumer_group_becomes_a_classic_group(harness: ConsumerHarness) -> None:
    harness.heartbeat("new", topics=["water"])
    harness.heartbeat("new", -1)
    old = ClassicConsumer(harness, "old")

    go_on(harness, old)

    assert old.owned == WATER
    assert isinstance(harness.reloaded().context.groups[GROUP], ClassicGroup)


def join_request(
    *,
    member_id: str = "",
    protocol_type: str = "consumer",
    protocol: str = "any",
    metadata: bytes = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff",
    instance_id: str | None = None,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=CLASSIC_SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=protocol, metadata=metadata)],
    )


def leave_request(member: ClassicConsumer) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member.member_id)])


def heartbeat_request(member: ClassicConsumer) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=GROUP,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
