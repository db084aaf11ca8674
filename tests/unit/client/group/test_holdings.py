"""What the application has, what it shall have, and the events between."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.cluster import TopicPartition
from penstock.client.group.holdings import Holdings
from penstock.client.group.nouns import Assigned, Lost, Revoked

ONE, TWO, THREE = (TopicPartition("orders", index) for index in range(3))


def take(holdings: Holdings) -> object:
    event = holdings.next_event()
    assert event is not None
    assert holdings.acknowledge(event)
    return event


def test_revocation_comes_before_assignment() -> None:
    holdings = Holdings()
    holdings.want([ONE, TWO])
    take(holdings)
    holdings.want([TWO, THREE])

    first, second = take(holdings), take(holdings)

    assert isinstance(first, Revoked)
    assert first.partitions == (ONE,)
    assert isinstance(second, Assigned)
    assert second.partitions == (THREE,)
    assert holdings.next_event() is None


def test_an_event_stays_the_same_until_it_is_acknowledged() -> None:
    holdings = Holdings()
    holdings.want([ONE])
    event = holdings.next_event()
    holdings.want([TWO])

    assert holdings.next_event() is event
    assert not holdings.acknowledge(Assigned((ONE,))), "another event of the same kind is not that one"
    take(holdings)
    assert isinstance(take(holdings), Revoked)
    assert holdings.held == frozenset()
    take(holdings)
    assert holdings.held == {TWO}


def test_what_is_lost_while_it_is_let_go_of_is_not_lost_once_more() -> None:
    holdings = Holdings()
    holdings.want([ONE])
    take(holdings)
    holdings.withdraw()
    revoked = holdings.next_event()
    holdings.lose("put out")

    assert revoked is not None
    holdings.acknowledge(revoked)

    assert holdings.next_event() is None
    assert not holdings.owes


def test_what_is_lost_is_told_once_and_then_the_next_assignment() -> None:
    holdings = Holdings()
    holdings.want([ONE])
    take(holdings)
    holdings.lose("put out")
    holdings.lose("put out again")
    holdings.want([ONE, TWO])

    lost, assigned = take(holdings), take(holdings)

    assert isinstance(lost, Lost)
    assert lost.reason == "put out"
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
def test_whatever_happens_the_application_ends_up_with_what_the_group_wants(
    steps: list[tuple[str, frozenset[TopicPartition]]],
) -> None:
    holdings = Holdings()
    mine: set[TopicPartition] = set()

    def handle() -> None:
        event = holdings.next_event()
        if event is None:
            return
        if isinstance(event, Assigned):
            assert not mine & set(event.partitions), "given twice"
            mine.update(event.partitions)
        else:
            assert set(event.partitions) <= mine, "taken away without having been given"
            mine.difference_update(event.partitions)
        holdings.acknowledge(event)

    for step, some in steps:
        match step:
            case "want":
                holdings.want(some)
            case "withdraw":
                holdings.withdraw(keep=some)
            case "lose":
                holdings.lose("put out")
            case "look":
                holdings.next_event()
            case "acknowledge":
                handle()
        assert holdings.held == mine
    for _ in range(4):
        handle()

    assert mine == holdings.target
    assert holdings.next_event() is None
    assert not holdings.has_event
