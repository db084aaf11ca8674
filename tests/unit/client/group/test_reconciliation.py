"""Owned and target partitions, and the events between."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.cluster import TopicPartition
from penstock.client.group.reconciliation import Reconciliation
from penstock.client.group.types import Assigned, Lost, Revoked

ONE, TWO, THREE = (TopicPartition("orders", index) for index in range(3))


def take(reconciliation: Reconciliation) -> object:
    event = reconciliation.next_event()
    assert event is not None
    assert reconciliation.acknowledge(event)
    return event


def test_revocation_comes_before_assignment() -> None:
    reconciliation = Reconciliation()
    reconciliation.set_target([ONE, TWO])
    take(reconciliation)
    reconciliation.set_target([TWO, THREE])

    first, second = take(reconciliation), take(reconciliation)

    assert isinstance(first, Revoked)
    assert first.partitions == (ONE,)
    assert isinstance(second, Assigned)
    assert second.partitions == (THREE,)
    assert reconciliation.next_event() is None


def test_an_event_stays_the_same_until_it_is_acknowledged() -> None:
    reconciliation = Reconciliation()
    reconciliation.set_target([ONE])
    event = reconciliation.next_event()
    reconciliation.set_target([TWO])

    assert reconciliation.next_event() is event
    assert not reconciliation.acknowledge(Assigned((ONE,))), "another event of the same kind is not that one"
    take(reconciliation)
    assert isinstance(take(reconciliation), Revoked)
    assert reconciliation.owned == frozenset()
    take(reconciliation)
    assert reconciliation.owned == {TWO}


def test_a_partition_lost_during_revocation_is_not_lost_twice() -> None:
    reconciliation = Reconciliation()
    reconciliation.set_target([ONE])
    take(reconciliation)
    reconciliation.revoke()
    revoked = reconciliation.next_event()
    reconciliation.lose("fenced")

    assert revoked is not None
    reconciliation.acknowledge(revoked)

    assert reconciliation.next_event() is None
    assert not reconciliation.is_reconciling


def test_lost_partitions_are_reported_once_before_the_next_assignment() -> None:
    reconciliation = Reconciliation()
    reconciliation.set_target([ONE])
    take(reconciliation)
    reconciliation.lose("fenced")
    reconciliation.lose("fenced again")
    reconciliation.set_target([ONE, TWO])

    lost, assigned = take(reconciliation), take(reconciliation)

    assert isinstance(lost, Lost)
    assert lost.reason == "fenced"
    assert isinstance(assigned, Assigned)
    assert assigned.partitions == (ONE, TWO)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("want"), st.frozensets(st.sampled_from([ONE, TWO, THREE]))),
            st.tuples(st.just("withdraw"), st.frozensets(st.sampled_from([ONE, TWO, THREE]))),
            st.tuples(st.sampled_from(["lose", "look", "acknowledge"]), st.just(frozenset())),
        ),
        max_size=20,
    )
)
def test_the_application_always_ends_up_with_the_target_assignment(
    steps: list[tuple[str, frozenset[TopicPartition]]],
) -> None:
    reconciliation = Reconciliation()
    mine: set[TopicPartition] = set()

    def handle() -> None:
        event = reconciliation.next_event()
        if event is None:
            return
        if isinstance(event, Assigned):
            assert not mine & set(event.partitions), "given twice"
            mine.update(event.partitions)
        else:
            assert set(event.partitions) <= mine, "taken away without having been given"
            mine.difference_update(event.partitions)
        reconciliation.acknowledge(event)

    for step, some in steps:
        match step:
            case "want":
                reconciliation.set_target(some)
            case "withdraw":
                reconciliation.revoke(keep=some)
            case "lose":
                reconciliation.lose("fenced")
            case "look":
                reconciliation.next_event()
            case "acknowledge":
                handle()
        assert reconciliation.owned == mine
    for _ in range(4):
        handle()

    assert mine == reconciliation.target
    assert reconciliation.next_event() is None
    assert not reconciliation.has_event
