"""The client side of fetch sessions (KIP-227)."""

from __future__ import annotations

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.fetch_session import EPOCH_MAX, FetchSession, Target, Wish
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.types import ZERO_UUID, Uuid

ID = Uuid(bytes(15) + b"\x01")
NEW_ID = Uuid(bytes(15) + b"\x02")
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def target(offset: int, topic_id: Uuid = ID) -> Target:
    return Target(topic_id, offset, 0, 100)


def named(wish: Wish) -> list[tuple[int, int]]:
    """Partitions and offsets of a request."""
    return [(each.partition, each.fetch_offset) for topic in wish.topics for each in topic.partitions]


def forgotten(wish: Wish) -> list[int]:
    return [each for topic in wish.forgotten for each in topic.partitions]


def opened(wanted: dict[TopicPartition, Target]) -> FetchSession:
    session = FetchSession()
    session.next(wanted)
    assert session.answered(FetchResponse(session_id=7, responses=[]))
    return session


def test_the_first_request_is_full_and_opens_a_session() -> None:
    wish = FetchSession().next({FIRST: target(0), SECOND: target(5)})

    assert (wish.session_id, wish.epoch, wish.version_max) == (0, 0, None)
    assert named(wish) == [(0, 0), (1, 5)]


def test_later_requests_have_changed_and_forgotten_partitions() -> None:
    session = opened({FIRST: target(0), SECOND: target(5)})

    wish = session.next({FIRST: target(3)})

    assert (wish.session_id, wish.epoch) == (7, 1)
    assert (named(wish), forgotten(wish)) == ([(0, 3)], [1])
    session.answered(FetchResponse(session_id=7, responses=[]))
    wish = session.next({FIRST: target(3), SECOND: target(5)})
    assert (wish.epoch, named(wish), forgotten(wish)) == (2, [(1, 5)], [])


def test_a_lost_session_is_reopened() -> None:
    session = opened({FIRST: target(0)})
    session.next({FIRST: target(1)})

    lost = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    assert not session.answered(lost)

    wish = session.next({FIRST: target(1)})
    assert (wish.session_id, wish.epoch, named(wish)) == (0, 0, [(0, 1)])


def test_after_a_request_without_a_response_a_full_request_replaces_the_session() -> None:
    session = opened({FIRST: target(0)})
    session.next({FIRST: target(1)})

    session.failed()

    wish = session.next({FIRST: target(1)})
    assert (wish.session_id, wish.epoch, named(wish)) == (7, 0, [(0, 1)])


def test_a_node_without_room_for_sessions_gets_full_requests() -> None:
    session = FetchSession()
    session.next({FIRST: target(0)})
    session.answered(FetchResponse(session_id=0, responses=[]))

    wish = session.next({FIRST: target(0)})

    assert (wish.epoch, named(wish)) == (0, [(0, 0)])
    assert not session.is_open


def test_a_recreated_topic_replaces_the_old_one() -> None:
    session = opened({FIRST: target(3)})

    wish = session.next({FIRST: target(0, NEW_ID)})

    assert [topic.topic_id for topic in wish.forgotten] == [ID]
    assert [topic.topic_id for topic in wish.topics] == [NEW_ID]
    assert session.name_of("", NEW_ID) == "orders"


def test_topics_go_by_name_in_a_new_session_if_an_id_is_unknown() -> None:
    session = opened({FIRST: target(0)})

    wish = session.next({FIRST: target(0, ZERO_UUID)})

    assert (wish.epoch, wish.version_max, named(wish)) == (0, 12, [(0, 0)])
    assert session.name_of("orders", ZERO_UUID) == "orders"


def test_old_brokers_have_no_topic_ids() -> None:
    assert FetchSession().next({FIRST: target(0)}, knows_ids=False).version_max == 12


def test_the_session_epoch_wraps() -> None:
    session = opened({FIRST: target(0)})
    session._epoch = EPOCH_MAX
    session.answered(FetchResponse(session_id=7, responses=[]))

    assert session.next({FIRST: target(0)}).epoch == 1


def test_the_last_request_closes_the_session() -> None:
    session = opened({FIRST: target(0)})

    wish = session.last()

    assert (wish.session_id, wish.epoch, wish.topics) == (7, -1, [])
    assert not session.is_open
