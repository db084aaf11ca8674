"""Groups that change their type while their members go on (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import CLIENT, GROUP, REBALANCE_MS, ConsumerStage, HonestMember, settle
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


def make_stage(**properties: str) -> ConsumerStage:
    stage = ConsumerStage({**QUICK, **{name.replace("_", "."): value for name, value in properties.items()}})
    stage.create_topic("water", 6)
    return stage


@pytest.fixture
def stage() -> ConsumerStage:
    return make_stage()


def go_on(stage: ConsumerStage, *members: HonestMember | ClassicConsumer, rounds: int = 12) -> None:
    """Everyone does what it would do next, time and again, and nobody reads what another one reads."""
    for _ in range(rounds):
        for member in members:
            member.heartbeat() if isinstance(member, HonestMember) else member.step()
            owned = [one for other in members for one in other.owned]
            assert len(owned) == len(set(owned))
        stage.advance(1_000)


def classic_pair(stage: ConsumerStage, **options: Any) -> list[ClassicConsumer]:
    members = [ClassicConsumer(stage, name, **options) for name in ("old one", "old two")]
    go_on(stage, *members)
    assert [len(member.owned) for member in members] == [3, 3]
    assert isinstance(stage.context.groups[GROUP], ClassicGroup)
    return members


# -- up


@pytest.mark.parametrize("is_eager", [True, False])
def test_a_new_member_joins_classic_ones_and_all_share(stage: ConsumerStage, is_eager: bool) -> None:
    old = classic_pair(stage, is_eager=is_eager)
    generation = old[0].generation
    had = [set(member.owned) for member in old]
    new = HonestMember(stage, "new")

    response = new.heartbeat()

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, generation + 1)
    assert [stage.group.members[member.member_id].is_classic for member in old] == [True, True]
    assert stage.group.classic_protocols["any"] == stage.group.classic_count == 2
    go_on(stage, *old, new)
    assert [len(member.owned) for member in (*old, new)] == [2, 2, 2]
    assert all(member.owned < before for member, before in zip(old, had, strict=True))
    assert {member.generation for member in old} == {new.epoch}


def test_members_that_are_up_to_date_are_left_alone(stage: ConsumerStage) -> None:
    old = classic_pair(stage)
    new = HonestMember(stage, "new", topics=["elsewhere"])
    new.heartbeat()
    go_on(stage, *old, new)
    written = len(stage.log)

    for member in old:
        member.heartbeat()

    assert [member.last_error for member in old] == [ErrorCode.NONE] * 2
    assert len(stage.log) == written


def test_who_waits_for_a_rebalance_is_sent_to_the_new_group(stage: ConsumerStage) -> None:
    old = classic_pair(stage)
    late = ClassicConsumer(stage, "late")
    for _ in range(3):
        late.step()
    assert late.phase is Phase.JOINING

    new = HonestMember(stage, "new")
    new.heartbeat()
    late.step()

    assert late.last_error is ErrorCode.REBALANCE_IN_PROGRESS
    go_on(stage, *old, late, new, rounds=16)
    assert sorted(len(member.owned) for member in (*old, late, new)) == [1, 1, 2, 2]


def test_what_cooperative_members_read_in_an_unfinished_rebalance_is_not_given_away(
    stage: ConsumerStage,
) -> None:
    old = classic_pair(stage)
    # Two rebalances in a row: the second takes away what the first had begun to assign.
    third, fourth = ClassicConsumer(stage, "third"), ClassicConsumer(stage, "fourth")
    for _ in range(3):  # asks, is given an id, and joins with it
        third.step()
    for member in old:
        member.heartbeat()
        member.step()  # joins again, and says what it has
    stage.advance(0)
    for _ in range(3):
        fourth.step()
    group = stage.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    assert not any(member.assignment for member in group.members.values())

    new = HonestMember(stage, "new")
    new.heartbeat()

    assert new.owned == set()
    go_on(stage, *old, third, fourth, new, rounds=25)
    assert set().union(*(member.owned for member in (*old, third, fourth, new))) == WATER


@pytest.mark.parametrize("has_joined_again", [False, True])
def test_what_a_member_reads_that_has_not_heard_of_its_last_assignment_is_not_given_away(
    stage: ConsumerStage, monkeypatch: pytest.MonkeyPatch, has_joined_again: bool
) -> None:
    leader, unaware = classic_pair(stage)
    third = ClassicConsumer(stage, "third")
    for _ in range(3):  # asks, is given an id, and joins with it
        third.step()
    for member in (leader, unaware):
        member.heartbeat()
        member.step()  # joins again, and says what it has
    stage.advance(0)
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
    group = stage.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.STABLE
    unaware.lose_answer()
    if has_joined_again:
        unaware.step()

    new = HonestMember(stage, "new")
    for _ in range(4):
        go_on(stage, new, leader, third, rounds=1)
        assert not unaware.owned & (leader.owned | third.owned | new.owned)

    go_on(stage, leader, unaware, third, new, rounds=25)
    assert set().union(*(member.owned for member in (leader, unaware, third, new))) == WATER


def test_what_a_classic_leader_has_not_noticed_is_assigned(stage: ConsumerStage) -> None:
    old = classic_pair(stage)
    stage.grow_topic("water", 8)
    new = HonestMember(stage, "new", topics=[], regex="nothing")

    go_on(stage, *old, new)

    assert [len(member.owned) for member in old] == [4, 4]


def test_an_empty_classic_group_becomes_a_new_one(stage: ConsumerStage) -> None:
    old = ClassicConsumer(stage, "old")
    go_on(stage, old)
    old.leave()
    assert isinstance(stage.context.groups[GROUP], ClassicGroup)

    response = stage.heartbeat("new", topics=["water"])

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert isinstance(stage.reloaded().context.groups[GROUP], ConsumerGroup)


def test_an_upgraded_group_is_loaded_as_it_is(stage: ConsumerStage) -> None:
    old = classic_pair(stage)
    stage.heartbeat("new", topics=["water"])

    other = stage.reloaded()

    assert dict(other.group.members.items()) == dict(stage.group.members.items())
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
def test_a_group_may_have_to_stay_classic(properties: dict[str, str], words: str) -> None:
    stage = make_stage(**properties)
    old = classic_pair(stage)
    group = stage.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)

    response = stage.heartbeat("new", topics=["water"])

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert words in (response.error_message or "")
    assert not stage.consumer.can_upgrade(group)
    old[0].heartbeat()
    assert old[0].last_error is ErrorCode.NONE


def test_groups_of_other_programs_stay_classic(stage: ConsumerStage) -> None:
    request = join_request(protocol_type="connect", metadata=b"whatever", instance_id="worker")
    stage.play(stage.classic.join(request, client=CLIENT, version=9))

    response = stage.heartbeat("new", topics=["water"])

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "no consumers" in (response.error_message or "")


def test_a_group_whose_members_cannot_be_understood_stays_classic(stage: ConsumerStage) -> None:
    request = join_request(metadata=b"\x00\x01rubbish", instance_id="worker")
    stage.play(stage.classic.join(request, client=CLIENT, version=9))

    response = stage.heartbeat("new", topics=["water"])

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "cannot be read" in (response.error_message or "")


# -- classic members in a group of the new type


@pytest.fixture
def mixed(stage: ConsumerStage) -> tuple[ConsumerStage, ClassicConsumer, HonestMember]:
    old, new = ClassicConsumer(stage, "old"), HonestMember(stage, "new")
    go_on(stage, old, new)
    assert isinstance(stage.context.groups[GROUP], ConsumerGroup)
    assert [len(old.owned), len(new.owned)] == [3, 3]
    return stage, old, new


def test_a_heartbeat_tells_when_there_is_something_to_give_up(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    third = HonestMember(stage, "third")
    third.heartbeat()

    old.heartbeat()

    assert old.last_error is ErrorCode.REBALANCE_IN_PROGRESS
    go_on(stage, old, new, third)
    assert [len(member.owned) for member in (old, new, third)] == [2, 2, 2]


def test_who_does_not_join_again_in_time_is_put_out(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    third = HonestMember(stage, "third")
    third.heartbeat()
    for _ in range(12):
        old.phase = Phase.IN  # it does not listen
        old.heartbeat()
        new.heartbeat()
        third.heartbeat()
        stage.advance(5_000)

    assert old.member_id not in stage.group.members


def test_who_joins_again_is_not_silent_while_that_is_written(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    old.heartbeat()
    stage.advance(CLASSIC_SESSION_MS - 1_000)
    new.heartbeat()
    HonestMember(stage, "third").heartbeat()
    stage.is_committing = False
    old.join()

    stage.advance(CLASSIC_SESSION_MS - 1_000)

    assert old.member_id in stage.group.members


@pytest.mark.parametrize("does_sync", [False, True])
def test_who_joins_again_or_syncs_is_not_late_while_that_is_written(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember], does_sync: bool
) -> None:
    stage, old, new = mixed
    old.join()
    for left_ms in range(REBALANCE_MS, 0, -5_000):
        stage.answer(stage.consumer.classic_heartbeat(stage.group, heartbeat_request(old), version=4))
        new.heartbeat()
        stage.advance(min(5_000, left_ms - 1))
    stage.is_committing = False
    stage.heartbeat("third", topics=["water"])
    old.step()
    old.step() if does_sync else old.join()

    stage.advance(1_000)

    assert old.member_id in stage.group.members


def test_who_joins_and_does_not_sync_is_put_out(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    old.join()
    for _ in range(12):
        stage.answer(stage.consumer.classic_heartbeat(stage.group, heartbeat_request(old), version=4))
        new.heartbeat()
        stage.advance(5_000)

    assert list(stage.group.members) == ["new"]


def test_a_silent_classic_member_is_put_out_by_its_own_session(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    stage.advance(CLASSIC_SESSION_MS - 1_000 - 1)
    new.heartbeat()
    assert old.member_id in stage.group.members
    stage.advance(1)

    assert list(stage.group.members) == ["new"]
    settle(stage, new)
    assert new.owned == WATER


def test_who_was_put_out_and_says_what_it_has_is_told_that_it_is_no_member(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    for _ in range(4):  # it stops for longer than its session
        stage.advance(CLASSIC_SESSION_MS // 3)
        new.heartbeat()
    settle(stage, new)
    assert new.owned == WATER

    old.join()
    old.step()

    assert old.last_error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(stage.group.members) == ["new"]
    go_on(stage, old, new)
    assert [len(old.owned), len(new.owned)] == [3, 3]


def test_who_goes_on_saying_what_it_had_comes_in_with_a_new_id(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    """Some clients give up what they have only when they are told what others have."""
    stage, old, _ = mixed
    had = set(old.owned)
    stage.answer(stage.consumer.leave(stage.group, leave_request(old), version=5))
    old.member_id = ""

    old.join()
    old.step()
    assert (old.last_error, old.owned) == (ErrorCode.MEMBER_ID_REQUIRED, had)
    old.join()
    old.step()

    assert old.last_error is ErrorCode.NONE
    assert old.member_id in stage.group.members


def test_an_id_that_was_given_out_is_forgotten_when_nobody_comes_with_it(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    before = len(stage.context.timers)
    ClassicConsumer(stage, "late").join()
    assert len(stage.context.timers) == before + 1

    for _ in range(3):
        stage.advance(CLASSIC_SESSION_MS // 3)
        old.heartbeat()
        new.heartbeat()

    assert len(stage.context.timers) == before


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 99}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_instance_id": "shelf-9"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_others_are_refused(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember], fields: dict[str, Any], error: ErrorCode
) -> None:
    stage, old, _ = mixed
    asked = {"group_id": GROUP, "member_id": old.member_id, "generation_id": old.generation, **fields}

    with pytest.raises(Refused) as refused:
        stage.consumer.classic_heartbeat(stage.group, HeartbeatRequest(**asked), version=4)
    assert refused.value.error is error
    with pytest.raises(Refused) as refused:
        stage.consumer.sync(stage.group, SyncGroupRequest(**asked, assignments=[]), version=5)
    assert refused.value.error is error


def test_a_protocol_that_was_not_agreed_on_is_refused(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, _ = mixed
    asked = {
        "group_id": GROUP,
        "member_id": old.member_id,
        "generation_id": old.generation,
        "assignments": [],
    }

    for told in ({"protocol_name": "sticky"}, {"protocol_type": "connect"}):
        with pytest.raises(Refused) as refused:
            stage.consumer.sync(stage.group, SyncGroupRequest(**asked, **told), version=5)
        assert refused.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_who_agreed_on_another_protocol_before_the_upgrade_joins_again() -> None:
    stage = make_stage()
    stage.heartbeat("new", topics=["water"])
    joining = join_request(member_id="old")
    joining.protocols = [
        JoinGroupRequestProtocol(name=name, metadata=joining.protocols[0].metadata)
        for name in ("one", "other")
    ]
    joined = stage.answer(stage.consumer.join(stage.group, joining, client=CLIENT, version=3))
    asked = {
        "group_id": GROUP,
        "member_id": joined.member_id,
        "generation_id": joined.generation_id,
        "assignments": [],
    }

    with pytest.raises(Refused) as refused:
        stage.consumer.sync(stage.group, SyncGroupRequest(**asked, protocol_name="other"), version=5)

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
def test_who_does_not_fit_may_not_join(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember], fields: dict[str, Any], error: ErrorCode
) -> None:
    stage, _, _ = mixed

    with pytest.raises(Refused) as refused:
        stage.consumer.join(stage.group, join_request(**fields), client=CLIENT, version=9)

    assert refused.value.error is error
    assert len(stage.group.members) == 2


def test_no_classic_member_joins_where_migration_is_disabled() -> None:
    stage = make_stage(group_consumer_migration_policy="disabled")
    stage.heartbeat("new", topics=["water"])

    with pytest.raises(Refused) as refused:
        stage.consumer.join(stage.group, join_request(), client=CLIENT, version=9)

    assert refused.value.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_leaving_names_each_member(mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember]) -> None:
    stage, old, new = mixed
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=[
            MemberIdentity(member_id=old.member_id),
            MemberIdentity(member_id="nobody"),
            MemberIdentity(member_id="", group_instance_id="shelf-9"),
        ],
    )

    response = stage.answer(stage.consumer.leave(stage.group, request, version=5))

    assert [member.error_code for member in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    settle(stage, new)
    assert new.owned == WATER


# -- down


def test_what_a_member_owed_in_an_earlier_life_of_the_group_is_forgotten(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    old.join()  # and it should sync within a minute
    new.leave()
    go_on(stage, old, rounds=4)
    again = HonestMember(stage, "again")

    go_on(stage, old, again, rounds=70)

    assert [len(old.owned), len(again.owned)] == [3, 3]
    assert old.generation == again.epoch


def test_when_the_last_new_member_leaves_the_group_is_classic_again(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    epoch = stage.group.epoch

    assert new.leave().error_code is ErrorCode.NONE
    group = stage.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (State.PREPARING_REBALANCE, epoch)
    go_on(stage, old)

    assert old.owned == WATER
    assert old.generation == epoch + 1
    loaded = stage.reloaded().context.groups[GROUP]
    assert isinstance(loaded, ClassicGroup)
    assert list(loaded.members) == [old.member_id]


def test_when_the_last_new_member_vanishes_too(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, _ = mixed

    go_on(stage, old, rounds=60)

    assert isinstance(stage.context.groups[GROUP], ClassicGroup)
    assert old.owned == WATER


def test_what_the_last_new_member_had_is_not_forgotten_when_the_group_is_loaded_before_all_have_joined(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    new.leave()
    loaded = stage.reloaded()
    old.stage = loaded

    go_on(loaded, old)

    assert old.owned == WATER


def test_a_downgrade_and_an_upgrade_at_once_give_away_nothing_that_is_still_read(
    mixed: tuple[ConsumerStage, ClassicConsumer, HonestMember],
) -> None:
    stage, old, new = mixed
    third = ClassicConsumer(stage, "third")
    go_on(stage, third, new, rounds=4)
    promised = stage.group.targets[third.member_id][stage.id_of("water")]
    assert {("water", index) for index in promised} & old.owned  # which has not heard of it

    new.leave()
    assert isinstance(stage.context.groups[GROUP], ClassicGroup)
    another = HonestMember(stage, "another")
    another.heartbeat()
    assert isinstance(stage.context.groups[GROUP], ConsumerGroup)

    for _ in range(4):
        go_on(stage, third, another, rounds=1)
        assert not (third.owned | another.owned) & old.owned
    go_on(stage, old, third, another, rounds=20)
    assert [len(member.owned) for member in (old, third, another)] == [2, 2, 2]


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_group_may_have_to_stay_new(policy: str) -> None:
    stage = make_stage()
    old, new = ClassicConsumer(stage, "old"), HonestMember(stage, "new")
    go_on(stage, old, new)
    stage.settings = make_stage(group_consumer_migration_policy=policy).settings

    new.leave()

    assert isinstance(stage.context.groups[GROUP], ConsumerGroup)
    assert list(stage.group.members) == [old.member_id]


def test_a_group_that_is_too_large_for_a_classic_one_stays_new() -> None:
    stage = make_stage(group_max_size="1")
    new = HonestMember(stage, "new")
    new.heartbeat()
    old = [ClassicConsumer(stage, name) for name in ("old one", "old two")]
    go_on(stage, *old, new)

    new.leave()

    assert len(stage.group.members) == 2


@pytest.mark.parametrize("is_settled", [True, False])
def test_the_last_new_member_may_come_back_as_a_classic_one(is_settled: bool) -> None:
    stage = make_stage()
    old = ClassicConsumer(stage, "old", instance_id="shelf-1")
    new = HonestMember(stage, "new", instance_id="shelf-2")
    go_on(stage, old, new)
    if not is_settled:
        stage.grow_topic("water", 8)
    had = new.owned
    stage.heartbeat("new", -2, instance_id="shelf-2")
    again = ClassicConsumer(stage, "again", instance_id="shelf-2")
    again.step()

    group = stage.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is (State.STABLE if is_settled else State.PREPARING_REBALANCE)
    go_on(stage, old, again)
    assert len(old.owned | again.owned) == (6 if is_settled else 8)
    if is_settled:
        assert again.owned == had


def test_a_downgrade_while_partitions_move_makes_everyone_join_again(stage: ConsumerStage) -> None:
    old = ClassicConsumer(stage, "old", instance_id="shelf-1")
    third = ClassicConsumer(stage, "third", instance_id="shelf-3")
    go_on(stage, old, third)
    new = HonestMember(stage, "new", instance_id="shelf-2")
    new.heartbeat()  # the others have not given up anything yet
    stage.heartbeat("new", -2, instance_id="shelf-2")

    again = ClassicConsumer(stage, "again", instance_id="shelf-2")
    again.step()

    group = stage.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    go_on(stage, old, third, again, rounds=25)
    assert old.owned | third.owned | again.owned == WATER


def test_an_empty_new_group_becomes_a_classic_one(stage: ConsumerStage) -> None:
    stage.heartbeat("new", topics=["water"])
    stage.heartbeat("new", -1)
    old = ClassicConsumer(stage, "old")

    go_on(stage, old)

    assert old.owned == WATER
    assert isinstance(stage.reloaded().context.groups[GROUP], ClassicGroup)


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
