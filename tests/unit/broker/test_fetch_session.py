"""Fetch sessions: stored partitions, incremental responses, and eviction (KIP-227)."""

from __future__ import annotations

import random

import pytest

from penstock.broker import fetch_session, replica_session
from penstock.broker.fetch_session import (
    EPOCH_MAX,
    EVICTION_MS,
    FetchPlan,
    FetchSessions,
    next_epoch,
)
from penstock.broker.replica_session import ReplicaPlan
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from penstock.protocol.types import Uuid

ORDERS = Uuid(b"orders".ljust(16))


def ask(
    *offsets: tuple[str, int, int],
    session_id: int = 0,
    epoch: int = 0,
    forget: tuple[tuple[str, int], ...] = (),
) -> FetchRequest:
    """A request for (topic, partition, offset)s."""
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)],
            )
            for topic, index, offset in offsets
        ],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[index]) for topic, index in forget],
    )


def plan(sessions: FetchSessions, request: FetchRequest, *, now: int = 0) -> FetchPlan:
    return sessions.plan(request, uses_topic_ids=False, now_ms=now)


def plan_of_follower(sessions: FetchSessions, request: FetchRequest, *, now: int = 0) -> ReplicaPlan:
    return replica_session.plan(
        sessions,
        request,
        replica_id=2,
        broker_epoch=5,
        uses_topic_ids=False,
        wakes_on_change=False,
        now_ms=now,
    )


def data(
    index: int,
    *,
    high_watermark: int = 5,
    records: bytes = b"",
    error: ErrorCode = ErrorCode.NONE,
    log_start: int = 0,
) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=log_start,
        records=records,
    )


def open_session(sessions: FetchSessions, *partitions: str, is_follower: bool = False, now: int = 0) -> int:
    request = ask(*((name, 0, 0) for name in partitions))
    if is_follower:
        return plan_of_follower(sessions, request, now=now).finish([], now)[1]
    full = plan(sessions, request, now=now)
    _, session_id, _ = full.finish([(target, data(0)) for target in full.targets], now)
    return session_id


def names(found: FetchPlan) -> list[str]:
    return [target.topic for target in found.targets]


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(2, random.Random(1))


def test_a_request_of_epoch_minus_one_gets_no_session(sessions: FetchSessions) -> None:
    found = plan(sessions, ask(("a", 0, 7), epoch=-1))

    error, session_id, results = found.finish([(target, data(0)) for target in found.targets], 0)

    assert (error, session_id, len(results)) == (ErrorCode.NONE, 0, 1)
    assert len(sessions) == 0


def test_a_request_with_epoch_0_opens_a_session_and_gets_a_full_response(sessions: FetchSessions) -> None:
    found = plan(sessions, ask(("a", 0, 7), ("b", 0, 1)))

    error, session_id, results = found.finish([(target, data(0)) for target in found.targets], 0)

    assert error == ErrorCode.NONE
    assert session_id > 0
    assert len(results) == 2
    assert len(sessions) == 1


def test_an_incremental_request_reads_the_partitions_of_the_session(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a", "b")

    found = plan(sessions, ask(("b", 0, 3), session_id=session_id, epoch=1))

    assert [(target.topic, target.wanted.fetch_offset) for target in found.targets] == [("a", 0), ("b", 3)]


def test_partitions_without_news_are_omitted(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a", "b", "c", "d", "e")
    found = plan(sessions, ask(session_id=session_id, epoch=1))
    diverging = data(0)
    diverging.diverging_epoch = EpochEndOffset(epoch=1, end_offset=2)
    answers = [
        data(0),
        data(0, high_watermark=6),
        data(0, log_start=1),
        data(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        diverging,
    ]

    _, _, results = found.finish(list(zip(found.targets, answers, strict=True)), 0)

    assert [target.topic for target, _ in results] == ["b", "c", "d", "e"]


def test_after_an_error_an_unchanged_partition_is_sent_again(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a")
    broken = plan(sessions, ask(session_id=session_id, epoch=1))
    broken.finish([(target, data(0, error=ErrorCode.KAFKA_STORAGE_ERROR)) for target in broken.targets], 0)

    mended = plan(sessions, ask(session_id=session_id, epoch=2))
    _, _, results = mended.finish([(target, data(0)) for target in mended.targets], 0)

    assert len(results) == 1


def test_a_partition_that_returned_records_is_read_last_next_time(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a", "b", "c")
    found = plan(sessions, ask(session_id=session_id, epoch=1))
    answers = [data(0, records=b"xyz"), data(0), data(0)]
    found.finish(list(zip(found.targets, answers, strict=True)), 0)

    assert names(plan(sessions, ask(session_id=session_id, epoch=2))) == ["b", "c", "a"]


def test_forgotten_partitions_are_not_read_any_more(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a", "b")

    found = plan(sessions, ask(session_id=session_id, epoch=1, forget=(("a", 0), ("never", 3))))

    assert names(found) == ["b"]


def test_a_session_without_partitions_ends(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a")

    found = plan(sessions, ask(session_id=session_id, epoch=1, forget=(("a", 0),)))

    assert found.finish([], 0) == (ErrorCode.NONE, 0, [])
    assert len(sessions) == 0


def test_an_unknown_session_is_an_error(sessions: FetchSessions) -> None:
    assert plan(sessions, ask(session_id=9, epoch=1)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 3, 1000])
def test_a_gap_in_the_count_of_requests_is_an_error(sessions: FetchSessions, epoch: int) -> None:
    session_id = open_session(sessions, "a")

    found = plan(sessions, ask(session_id=session_id, epoch=epoch))

    assert found.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_repeated_request_is_an_error(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a")
    plan(sessions, ask(session_id=session_id, epoch=1))

    assert plan(sessions, ask(session_id=session_id, epoch=1)).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_request_that_waited_while_the_next_one_arrived_gets_no_records(
    sessions: FetchSessions,
) -> None:
    session_id = open_session(sessions, "a")
    waiting = plan(sessions, ask(session_id=session_id, epoch=1))
    plan(sessions, ask(session_id=session_id, epoch=2))

    error, answered_id, results = waiting.finish(
        [(target, data(0, records=b"x")) for target in waiting.targets], 0
    )

    assert (error, answered_id, results) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id, [])


def test_a_session_by_name_cannot_go_on_by_id(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a")

    found = sessions.plan(ask(session_id=session_id, epoch=1), uses_topic_ids=True, now_ms=0)

    assert found.error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_sessions_with_topic_ids_identify_topics_by_id_only() -> None:
    sessions = FetchSessions(2, random.Random(1))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[FetchTopic(topic_id=ORDERS, partitions=[wanted])]
    )
    full = sessions.plan(request, uses_topic_ids=True, now_ms=0)
    _, session_id, _ = full.finish([(target, data(0)) for target in full.targets], 0)

    forget = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=1,
        topics=[],
        forgotten_topics_data=[ForgottenTopic(topic_id=ORDERS, partitions=[0])],
    )
    sessions.plan(forget, uses_topic_ids=True, now_ms=0)

    assert len(sessions) == 0


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_ends_the_session_that_it_names(sessions: FetchSessions, epoch: int) -> None:
    session_id = open_session(sessions, "a")

    plan(sessions, ask(("a", 0, 0), session_id=session_id, epoch=epoch))

    assert plan(sessions, ask(session_id=session_id, epoch=1)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_partition_named_twice_counts_once_with_its_later_offset(sessions: FetchSessions) -> None:
    found = plan(sessions, ask(("a", 0, 1), ("a", 0, 2), epoch=-1))

    assert [target.wanted.fetch_offset for target in found.targets] == [2]


def test_the_count_starts_over_at_one() -> None:
    assert next_epoch(EPOCH_MAX) == 1
    assert next_epoch(0) == 1


# -- eviction


def is_open(sessions: FetchSessions, session_id: int) -> bool:
    return session_id in sessions._sessions


def test_without_room_a_client_is_served_without_a_session(sessions: FetchSessions) -> None:
    open_session(sessions, "a")
    open_session(sessions, "b")

    assert open_session(sessions, "c", "d", "e") == 0
    assert len(sessions) == 2


def test_an_idle_session_is_evicted(sessions: FetchSessions) -> None:
    idle = open_session(sessions, "a", "b", "c", now=0)
    busy = open_session(sessions, "a", now=0)
    plan(sessions, ask(session_id=busy, epoch=1), now=EVICTION_MS)

    newcomer = open_session(sessions, "a", now=EVICTION_MS + 1)

    assert newcomer != 0
    assert not is_open(sessions, idle)
    assert is_open(sessions, busy)
    assert sessions.evictions == 1


def test_an_old_session_is_evicted_for_one_with_more_partitions(sessions: FetchSessions) -> None:
    small = open_session(sessions, "a", now=0)
    large = open_session(sessions, "a", "b", "c", now=0)
    for session_id in (small, large):
        plan(sessions, ask(session_id=session_id, epoch=1), now=EVICTION_MS + 1)

    assert open_session(sessions, "x", "y", now=EVICTION_MS + 1) != 0

    assert not is_open(sessions, small)
    assert is_open(sessions, large)


def test_an_old_session_stays_if_the_newcomer_is_smaller(sessions: FetchSessions) -> None:
    for _ in range(2):
        session_id = open_session(sessions, "a", "b", now=0)
        plan(sessions, ask(session_id=session_id, epoch=1), now=EVICTION_MS + 1)

    assert open_session(sessions, "x", now=EVICTION_MS + 1) == 0


def test_a_follower_evicts_the_session_of_a_new_consumer(sessions: FetchSessions) -> None:
    consumer = open_session(sessions, "a", "b", "c")
    follower = open_session(sessions, "a", is_follower=True)

    assert open_session(sessions, "x", is_follower=True) != 0

    assert not is_open(sessions, consumer)
    assert is_open(sessions, follower)


def test_followers_do_not_evict_young_followers(sessions: FetchSessions) -> None:
    open_session(sessions, "a", is_follower=True)
    open_session(sessions, "b", is_follower=True)

    assert open_session(sessions, "x", "y", "z", is_follower=True) == 0


def test_a_session_that_grows_is_worth_more(sessions: FetchSessions) -> None:
    grows = open_session(sessions, "a", now=0)
    other = open_session(sessions, "a", "b", now=0)
    plan(sessions, ask(("b", 0, 0), ("c", 0, 0), session_id=grows, epoch=1), now=EVICTION_MS + 1)
    plan(sessions, ask(session_id=other, epoch=1), now=EVICTION_MS + 1)

    open_session(sessions, "x", "y", "z", now=EVICTION_MS + 1)

    assert is_open(sessions, grows)
    assert not is_open(sessions, other)


# -- very many partitions


def test_sessions_remember_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "TARGETS_MAX", 5)
    sessions = FetchSessions(100, random.Random(1))
    first = open_session(sessions, "a", "b", "c")
    assert first > 0

    assert open_session(sessions, "a", "b", "c") == 0
    assert open_session(sessions, "a", "b") > 0
    assert sessions.target_count == 5

    grown = plan(sessions, ask(("d", 0, 0), session_id=first, epoch=1))
    assert grown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.target_count == 2
    assert open_session(sessions, "a", "b", "c") > 0


def test_idle_sessions_are_evicted_if_there_are_too_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They used up the limit for ever: nobody closed the sessions that their clients had lost."""
    monkeypatch.setattr(fetch_session, "TARGETS_MAX", 5)
    sessions = FetchSessions(100, random.Random(1))
    lost = [open_session(sessions, "a", "b", now=number) for number in range(2)]

    newcomer = open_session(sessions, "a", "b", "c", now=EVICTION_MS + 1)

    assert newcomer > 0
    assert [is_open(sessions, each) for each in lost] == [False, True], "no more than necessary"
    assert (sessions.target_count, sessions.evictions) == (5, 1)
    assert open_session(sessions, "a", now=EVICTION_MS + 1) == 0, "the others are in use"


@pytest.mark.parametrize("is_follower", [False, True])
def test_a_session_that_grows_evicts_idle_ones(monkeypatch: pytest.MonkeyPatch, is_follower: bool) -> None:
    monkeypatch.setattr(fetch_session, "TARGETS_MAX", 5)
    sessions = FetchSessions(100, random.Random(1))
    grows = open_session(sessions, "a", "b", is_follower=is_follower, now=0)
    lost = open_session(sessions, "a", "b", now=1)
    request = ask(("c", 0, 0), ("d", 0, 0), session_id=grows, epoch=1)

    if is_follower:
        plan_of_follower(sessions, request, now=EVICTION_MS + 2)
    else:
        plan(sessions, request, now=EVICTION_MS + 2)

    assert [is_open(sessions, each) for each in (grows, lost)] == [True, False]
    assert sessions.target_count == 4


def test_a_followers_session_with_too_many_partitions_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "TARGETS_MAX", 2)
    sessions = FetchSessions(100, random.Random(1))
    grows = open_session(sessions, "a", "b", is_follower=True)

    grown = plan_of_follower(sessions, ask(("c", 0, 0), session_id=grows, epoch=1))

    assert grown.finish([], 0) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, [])
    assert (sessions.target_count, len(sessions)) == (0, 0)


def test_partitions_of_sessions_are_counted_as_they_come_and_go(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, "a", "b")

    plan(sessions, ask(("a", 0, 5), ("c", 0, 0), session_id=session_id, epoch=1, forget=(("b", 0),)))
    assert sessions.target_count == 2
    plan(sessions, ask(session_id=session_id, epoch=2, forget=(("a", 0), ("c", 0))))
    assert (sessions.target_count, len(sessions)) == (0, 0)
