"""The check of partition ownership: it raises for a broken promise and for nothing else."""

from __future__ import annotations

import pytest

from penstock.protocol.types import Uuid
from simulator.groups.ownership import Membership, Ownership, Partition
from simulator.simulation import BrokenPromise

PARTITION: Partition = (Uuid(bytes(16)), 0)
SESSION_S, REBALANCE_S = 10.0, 30.0


def begin(ownership: Ownership, name: str, *, instance_id: str | None = None) -> Membership:
    return ownership.begin(name, session_s=SESSION_S, rebalance_s=REBALANCE_S, instance_id=instance_id)


def own(ownership: Ownership, membership: Membership, generation: int, *, now: float) -> None:
    """The member is assigned the partition at once."""
    ownership.generation_received(membership, generation, known_when_asked=ownership.known, now=now)
    ownership.accepted(membership, "a sync", sent_at=now, now=now, is_settled=True)
    ownership.take(membership, [PARTITION], now=now)


@pytest.fixture
def ownership() -> Ownership:
    return Ownership("readers")


def test_a_released_partition_may_be_assigned_to_another_member(ownership: Ownership) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 1, now=0)

    ownership.release(one)
    own(ownership, two, 2, now=1)

    assert (one.held, two.held) == ({}, {PARTITION: 2})


def test_two_members_of_one_generation_must_not_own_the_same_partition(ownership: Ownership) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 1, now=0)

    with pytest.raises(BrokenPromise, match=r"is assigned to \w+ and to \w+, both in 1"):
        own(ownership, two, 1, now=100)


def test_a_partition_must_not_be_reassigned_before_its_owner_had_time_to_release_it(
    ownership: Ownership,
) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 1, now=0)

    with pytest.raises(BrokenPromise, match=r"though one owns it since 1 and has until 10\.000"):
        own(ownership, two, 2, now=9.9)


def test_a_silent_owner_loses_its_partition_after_its_session(ownership: Ownership) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 1, now=0)

    own(ownership, two, 2, now=10)

    assert one.superseded_at == 10


def test_heartbeats_protect_an_owner_only_until_it_should_have_followed_the_rebalance(
    ownership: Ownership,
) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 1, now=0)
    for now in range(1, 29):
        ownership.accepted(one, "a heartbeat", sent_at=now, now=now)

    with pytest.raises(BrokenPromise):
        own(ownership, two, 2, now=29)
    own(ownership, two, 3, now=30)


def test_a_zombie_is_rejected_once_another_member_owns_its_partition(ownership: Ownership) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 1, now=0)
    own(ownership, two, 2, now=20)

    ownership.accepted(one, "a commit", sent_at=19, now=19)
    ownership.accepted(one, "a heartbeat", sent_at=21, now=21, is_proof=False)
    with pytest.raises(BrokenPromise, match="a commit of one was accepted"):
        ownership.accepted(one, "a commit", sent_at=21, now=21)


def test_a_zombie_may_read_an_old_response_late(ownership: Ownership) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    ownership.generation_received(one, 1, known_when_asked=(0, -1), now=0)
    ownership.accepted(one, "a sync", sent_at=0, now=0, is_settled=True)
    own(ownership, two, 2, now=20)

    ownership.take(one, [PARTITION], now=21)

    assert (one.superseded_at, two.superseded_at) == (21, float("inf"))


def test_a_member_must_not_be_removed_before_its_timeout(ownership: Ownership) -> None:
    one = begin(ownership, "one")
    own(ownership, one, 1, now=0)

    with pytest.raises(BrokenPromise, match="answered with UNKNOWN_MEMBER_ID"):
        ownership.refused(one, "a heartbeat", "UNKNOWN_MEMBER_ID", now=9)
    ownership.refused(one, "a heartbeat", "UNKNOWN_MEMBER_ID", now=10)


def test_a_member_that_was_never_logged_may_be_forgotten(ownership: Ownership) -> None:
    one = begin(ownership, "one")
    ownership.accepted(one, "a join", sent_at=0, now=0, is_settled=True)

    ownership.refused(one, "a sync", "UNKNOWN_MEMBER_ID", now=1)


def test_a_member_replaced_under_its_instance_id_is_not_protected(ownership: Ownership) -> None:
    old = begin(ownership, "old", instance_id="instance")
    own(ownership, old, 1, now=0)

    ownership.replace("instance")
    own(ownership, begin(ownership, "new", instance_id="instance"), 1, now=1)
    ownership.refused(old, "a heartbeat", "FENCED_INSTANCE_ID", now=2)


def test_a_member_that_may_be_replaced_at_any_moment_is_not_protected(ownership: Ownership) -> None:
    old, new = (begin(ownership, name, instance_id="instance") for name in ("old", "new"))
    own(ownership, old, 1, now=0)

    with ownership.challenge("instance", by=new, now=lambda: 2):
        ownership.refused(old, "a heartbeat", "FENCED_INSTANCE_ID", now=1)
    own(ownership, new, 1, now=2)

    ownership.refused(old, "a heartbeat", "FENCED_INSTANCE_ID", now=3)


def test_a_member_that_was_not_replaced_after_all_owns_its_new_assignment(ownership: Ownership) -> None:
    late, present = (begin(ownership, name, instance_id="instance") for name in ("late", "present"))

    with ownership.challenge("instance", by=late, now=lambda: 1):
        own(ownership, present, 1, now=1)
    ownership.accepted(present, "a heartbeat", sent_at=1.5, now=1.5, is_settled=True)
    ownership.refused(
        present, "a heartbeat", "UNKNOWN_MEMBER_ID", now=1.9
    )  # the other's join was still in flight
    ownership.accepted(present, "a heartbeat", sent_at=3, now=3, is_settled=True)

    assert present.held == {PARTITION: 1}
    with pytest.raises(BrokenPromise):
        ownership.refused(present, "a heartbeat", "UNKNOWN_MEMBER_ID", now=4)


def test_a_static_member_that_missed_a_rebalance_may_rejoin(ownership: Ownership) -> None:
    one, two = begin(ownership, "one", instance_id="instance"), begin(ownership, "two")
    own(ownership, one, 1, now=0)
    own(ownership, two, 2, now=30)

    with pytest.raises(BrokenPromise):
        ownership.accepted(one, "a heartbeat", sent_at=31, now=31)
    ownership.accepted(one, "a join", sent_at=31, now=31, is_settled=True, names_generation=False)
    ownership.generation_received(one, 3, known_when_asked=ownership.known, now=32)
    ownership.accepted(one, "a sync", sent_at=32, now=32, is_settled=True)


def test_a_dynamic_member_that_missed_a_rebalance_must_join_as_a_new_one(ownership: Ownership) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 1, now=0)
    own(ownership, two, 2, now=30)

    with pytest.raises(BrokenPromise):
        ownership.accepted(one, "a join", sent_at=31, now=31, is_settled=True, names_generation=False)


def test_generations_only_rise(ownership: Ownership) -> None:
    one, two = begin(ownership, "one"), begin(ownership, "two")
    own(ownership, one, 5, now=0)

    with pytest.raises(BrokenPromise, match="one was in 5, but now got 4"):
        ownership.generation_received(one, 4, known_when_asked=(0, 4), now=1)
    with pytest.raises(BrokenPromise, match="two got 4, after others were in 5"):
        ownership.generation_received(two, 4, known_when_asked=(0, 5), now=1)
    ownership.generation_received(two, 4, known_when_asked=(0, 5), now=1, may_lag=True)


def test_an_empty_group_that_changes_its_type_restarts_generations() -> None:
    ownership = Ownership("readers", may_restart_generations=True)
    one, two, three = begin(ownership, "one"), begin(ownership, "two"), begin(ownership, "three")
    own(ownership, one, 5, now=0)

    with pytest.raises(BrokenPromise):
        ownership.generation_received(two, 1, known_when_asked=(0, 5), now=9)
    ownership.generation_received(three, 1, known_when_asked=(0, 5), now=10)

    assert (ownership.generation, one.is_over) == (1, True)


def test_a_response_from_before_a_restart_of_generations_says_nothing_about_the_new_count() -> None:
    ownership = Ownership("readers", may_restart_generations=True)
    one, two, three = begin(ownership, "one"), begin(ownership, "two"), begin(ownership, "three")
    known = ownership.known
    own(ownership, one, 5, now=0)
    ownership.generation_received(two, 1, known_when_asked=(0, 5), now=10)
    assert ownership.generation == 1

    # It sent its request long ago and froze before it read the response.
    ownership.generation_received(three, 6, known_when_asked=known, now=11)
    ownership.accepted(three, "a join", sent_at=0, now=0)
    ownership.take(three, [PARTITION], now=11)
    own(ownership, two, 2, now=12)

    assert ownership.generation == 2
    with pytest.raises(BrokenPromise):
        ownership.accepted(three, "a heartbeat", sent_at=13, now=13)


def test_a_member_that_survived_a_power_cut_shows_the_current_generation() -> None:
    ownership = Ownership("readers", may_restart_generations=True)
    one = begin(ownership, "one")
    own(ownership, one, 7, now=0)
    ownership.power_lost()
    revived, two = ownership.revive(one), begin(ownership, "two")

    ownership.accepted(revived, "a heartbeat", sent_at=1, now=1, is_settled=True)
    with pytest.raises(BrokenPromise, match="two got 2, after others were in 7"):
        own(ownership, two, 2, now=10)
    own(ownership, two, 2, now=11)

    assert (ownership.generation, revived.is_over) == (2, True)


def test_a_response_read_late_after_a_power_cut_does_not_show_the_current_generation() -> None:
    ownership = Ownership("readers", may_restart_generations=True)
    one = begin(ownership, "one")
    own(ownership, one, 7, now=0)
    ownership.power_lost()
    revived, two, three = ownership.revive(one), begin(ownership, "two"), begin(ownership, "three")
    own(ownership, two, 2, now=11)

    # It froze before it read the response, was removed, and the group restarted with the other member.
    ownership.accepted(revived, "a heartbeat", sent_at=0, now=12, is_settled=True)
    ownership.release(two)
    own(ownership, three, 3, now=13)

    assert ownership.generation == 3


def test_after_a_power_cut_that_took_the_log_nothing_is_promised_until_the_next_response(
    ownership: Ownership,
) -> None:
    one = begin(ownership, "one")
    own(ownership, one, 5, now=0)

    ownership.power_lost()
    revived, two = ownership.revive(one), begin(ownership, "two")
    ownership.refused(revived, "a heartbeat", "UNKNOWN_MEMBER_ID", now=1)
    own(ownership, two, 1, now=1)
    ownership.release(two)
    ownership.accepted(revived, "a heartbeat", sent_at=2, now=2, is_settled=True)

    with pytest.raises(BrokenPromise):
        own(ownership, two, 6, now=3)
