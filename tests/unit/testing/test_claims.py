"""The books about who owns what: they must complain about a broken promise, and about nothing else."""

from __future__ import annotations

import pytest

from penstock.protocol.types import Uuid
from penstock.testing.groups.claims import Claims, Partition, Tenure
from penstock.testing.simulation import BrokenPromise

PARTITION: Partition = (Uuid(bytes(16)), 0)
SESSION_S, REBALANCE_S = 10.0, 30.0


def begin(claims: Claims, name: str, *, instance_id: str | None = None) -> Tenure:
    return claims.begin(name, session_s=SESSION_S, rebalance_s=REBALANCE_S, instance_id=instance_id)


def own(claims: Claims, tenure: Tenure, generation: int, *, now: float) -> None:
    """The member asked and is told, at once, that it owns the partition."""
    claims.told_generation(tenure, generation, known_when_asked=claims.known, now=now)
    claims.accepted(tenure, "a sync", sent_at=now, now=now, is_settled=True)
    claims.take(tenure, [PARTITION], now=now)


@pytest.fixture
def claims() -> Claims:
    return Claims("readers")


def test_a_partition_that_was_let_go_may_be_given_to_another(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 1, now=0)

    claims.let_go(one)
    own(claims, two, 2, now=1)

    assert (one.held, two.held) == ({}, {PARTITION: 2})


def test_two_members_of_one_generation_must_not_own_the_same(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 1, now=0)

    with pytest.raises(BrokenPromise, match=r"is given to \w+ and to \w+, both in 1"):
        own(claims, two, 1, now=100)


def test_a_partition_must_not_be_taken_before_its_owner_had_time_to_let_go(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 1, now=0)

    with pytest.raises(BrokenPromise, match=r"though one holds it from 1 and has until 10\.000"):
        own(claims, two, 2, now=9.9)


def test_a_silent_owner_loses_its_partition_after_its_session(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 1, now=0)

    own(claims, two, 2, now=10)

    assert one.superseded_at == 10


def test_heartbeats_protect_an_owner_only_until_it_should_have_followed_the_rebalance(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 1, now=0)
    for now in range(1, 29):
        claims.accepted(one, "a heartbeat", sent_at=now, now=now)

    with pytest.raises(BrokenPromise):
        own(claims, two, 2, now=29)
    own(claims, two, 3, now=30)


def test_nothing_of_a_zombie_is_accepted_once_another_has_its_partition(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 1, now=0)
    own(claims, two, 2, now=20)

    claims.accepted(one, "a commit", sent_at=19, now=19)
    claims.accepted(one, "a heartbeat", sent_at=21, now=21, is_proof=False)
    with pytest.raises(BrokenPromise, match="a commit of one was accepted"):
        claims.accepted(one, "a commit", sent_at=21, now=21)


def test_a_zombie_that_reads_an_old_answer_late_harms_nobody(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    claims.told_generation(one, 1, known_when_asked=(0, -1), now=0)
    claims.accepted(one, "a sync", sent_at=0, now=0, is_settled=True)
    own(claims, two, 2, now=20)

    claims.take(one, [PARTITION], now=21)

    assert (one.superseded_at, two.superseded_at) == (21, float("inf"))


def test_a_member_must_not_be_put_out_before_its_time(claims: Claims) -> None:
    one = begin(claims, "one")
    own(claims, one, 1, now=0)

    with pytest.raises(BrokenPromise, match="answered with UNKNOWN_MEMBER_ID"):
        claims.refused(one, "a heartbeat", "UNKNOWN_MEMBER_ID", now=9)
    claims.refused(one, "a heartbeat", "UNKNOWN_MEMBER_ID", now=10)


def test_who_was_never_written_down_may_be_forgotten(claims: Claims) -> None:
    one = begin(claims, "one")
    claims.accepted(one, "a join", sent_at=0, now=0, is_settled=True)

    claims.refused(one, "a sync", "UNKNOWN_MEMBER_ID", now=1)


def test_who_is_replaced_by_a_process_of_the_same_instance_has_no_claim(claims: Claims) -> None:
    old = begin(claims, "old", instance_id="instance")
    own(claims, old, 1, now=0)

    claims.replace("instance")
    own(claims, begin(claims, "new", instance_id="instance"), 1, now=1)
    claims.refused(old, "a heartbeat", "FENCED_INSTANCE_ID", now=2)


def test_who_may_be_replaced_at_any_moment_has_no_claim(claims: Claims) -> None:
    old, new = (begin(claims, name, instance_id="instance") for name in ("old", "new"))
    own(claims, old, 1, now=0)

    with claims.challenge("instance", by=new, now=lambda: 2):
        claims.refused(old, "a heartbeat", "FENCED_INSTANCE_ID", now=1)
    own(claims, new, 1, now=2)

    claims.refused(old, "a heartbeat", "FENCED_INSTANCE_ID", now=3)


def test_who_was_not_replaced_after_all_owns_what_it_was_told_meanwhile(claims: Claims) -> None:
    late, present = (begin(claims, name, instance_id="instance") for name in ("late", "present"))

    with claims.challenge("instance", by=late, now=lambda: 1):
        own(claims, present, 1, now=1)
    claims.accepted(present, "a heartbeat", sent_at=1.5, now=1.5, is_settled=True)
    claims.refused(
        present, "a heartbeat", "UNKNOWN_MEMBER_ID", now=1.9
    )  # the other's join was still under way
    claims.accepted(present, "a heartbeat", sent_at=3, now=3, is_settled=True)

    assert present.held == {PARTITION: 1}
    with pytest.raises(BrokenPromise):
        claims.refused(present, "a heartbeat", "UNKNOWN_MEMBER_ID", now=4)


def test_a_static_member_that_missed_a_rebalance_may_join_again(claims: Claims) -> None:
    one, two = begin(claims, "one", instance_id="instance"), begin(claims, "two")
    own(claims, one, 1, now=0)
    own(claims, two, 2, now=30)

    with pytest.raises(BrokenPromise):
        claims.accepted(one, "a heartbeat", sent_at=31, now=31)
    claims.accepted(one, "a join", sent_at=31, now=31, is_settled=True, names_generation=False)
    claims.told_generation(one, 3, known_when_asked=claims.known, now=32)
    claims.accepted(one, "a sync", sent_at=32, now=32, is_settled=True)


def test_a_dynamic_member_that_missed_a_rebalance_has_to_come_anew(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 1, now=0)
    own(claims, two, 2, now=30)

    with pytest.raises(BrokenPromise):
        claims.accepted(one, "a join", sent_at=31, now=31, is_settled=True, names_generation=False)


def test_generations_only_rise(claims: Claims) -> None:
    one, two = begin(claims, "one"), begin(claims, "two")
    own(claims, one, 5, now=0)

    with pytest.raises(BrokenPromise, match="one was in 5, and is now told 4"):
        claims.told_generation(one, 4, known_when_asked=(0, 4), now=1)
    with pytest.raises(BrokenPromise, match="two came into 4, when others were in 5 already"):
        claims.told_generation(two, 4, known_when_asked=(0, 5), now=1)
    claims.told_generation(two, 4, known_when_asked=(0, 5), now=1, may_lag=True)


def test_an_empty_group_of_another_type_counts_anew() -> None:
    claims = Claims("readers", may_begin_anew=True)
    one, two, three = begin(claims, "one"), begin(claims, "two"), begin(claims, "three")
    own(claims, one, 5, now=0)

    with pytest.raises(BrokenPromise):
        claims.told_generation(two, 1, known_when_asked=(0, 5), now=9)
    claims.told_generation(three, 1, known_when_asked=(0, 5), now=10)

    assert (claims.generation, one.is_over) == (1, True)


def test_an_answer_from_before_a_group_counted_anew_says_nothing_about_the_new_count() -> None:
    claims = Claims("readers", may_begin_anew=True)
    one, two, three = begin(claims, "one"), begin(claims, "two"), begin(claims, "three")
    known = claims.known
    own(claims, one, 5, now=0)
    claims.told_generation(two, 1, known_when_asked=(0, 5), now=10)
    assert claims.generation == 1

    # It asked long ago, and stopped before it looked at the answer.
    claims.told_generation(three, 6, known_when_asked=known, now=11)
    claims.accepted(three, "a join", sent_at=0, now=0)
    claims.take(three, [PARTITION], now=11)
    own(claims, two, 2, now=12)

    assert claims.generation == 2
    with pytest.raises(BrokenPromise):
        claims.accepted(three, "a heartbeat", sent_at=13, now=13)


def test_a_member_that_outlived_a_power_cut_shows_how_far_its_group_has_counted() -> None:
    claims = Claims("readers", may_begin_anew=True)
    one = begin(claims, "one")
    own(claims, one, 7, now=0)
    claims.power_lost()
    revived, two = claims.revive(one), begin(claims, "two")

    claims.accepted(revived, "a heartbeat", sent_at=1, now=1, is_settled=True)
    with pytest.raises(BrokenPromise, match="two came into 2, when others were in 7 already"):
        own(claims, two, 2, now=10)
    own(claims, two, 2, now=11)

    assert (claims.generation, revived.is_over) == (2, True)


def test_an_answer_looked_at_late_after_a_power_cut_does_not_show_how_far_a_group_has_counted() -> None:
    claims = Claims("readers", may_begin_anew=True)
    one = begin(claims, "one")
    own(claims, one, 7, now=0)
    claims.power_lost()
    revived, two, three = claims.revive(one), begin(claims, "two"), begin(claims, "three")
    own(claims, two, 2, now=11)

    # It stopped before it looked, was put out, and the group began anew with the other.
    claims.accepted(revived, "a heartbeat", sent_at=0, now=12, is_settled=True)
    claims.let_go(two)
    own(claims, three, 3, now=13)

    assert claims.generation == 3


def test_after_a_power_cut_that_took_the_log_nothing_is_promised_until_the_next_answer(
    claims: Claims,
) -> None:
    one = begin(claims, "one")
    own(claims, one, 5, now=0)

    claims.power_lost()
    revived, two = claims.revive(one), begin(claims, "two")
    claims.refused(revived, "a heartbeat", "UNKNOWN_MEMBER_ID", now=1)
    own(claims, two, 1, now=1)
    claims.let_go(two)
    claims.accepted(revived, "a heartbeat", sent_at=2, now=2, is_settled=True)

    with pytest.raises(BrokenPromise):
        own(claims, two, 6, now=3)
