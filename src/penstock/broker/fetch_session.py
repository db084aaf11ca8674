"""Incremental fetch sessions (KIP-227): a client sends its partitions once, not in every request.

A session stores the partitions of a client and the offsets that were sent last. A request contains only changes, and a
response only partitions with news. Both sides count the requests of a session (the session epoch). After a gap or a
repetition, the client starts again with a full request.

The number of sessions is limited, and so is the number of partitions in all of them. A new session can evict an idle
one, or an old one of lower rank: consumers rank below followers, few partitions below many. A client without a session
gets full responses.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.protocol.constants import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID, UNKNOWN_OFFSET
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from penstock.protocol.types import Uuid

EPOCH_MAX = 2**31 - 1
# An idle session can be evicted after this time. A new one cannot be evicted before it.
EVICTION_MS = 120_000
# In all sessions together: a thousand sessions of 500 partitions, at half a kilobyte each.
TARGETS_MAX = 500_000
NO_RECORDS = b""

TargetKey = tuple[str | Uuid, int]
T = TypeVar("T", bound="FetchTarget")
S = TypeVar("S", bound="FetchSession[Any]")


class FetchTarget:
    """A fetched partition: the request for it, and the offsets that were sent last."""

    __slots__ = ("sent_high_watermark", "sent_log_start_offset", "topic", "topic_id", "wanted")

    def __init__(self, topic: str, topic_id: Uuid, wanted: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.wanted = wanted
        self.sent_high_watermark = UNKNOWN_OFFSET
        self.sent_log_start_offset = UNKNOWN_OFFSET

    def record_sent(self, data: PartitionData) -> bool:
        """Store the offsets of a response; return whether the response contains news."""
        high_watermark, log_start_offset = data.high_watermark, data.log_start_offset
        has_error = data.error_code != ErrorCode.NONE
        is_news = (
            high_watermark != self.sent_high_watermark
            or len(data.records or NO_RECORDS) > 0
            or log_start_offset != self.sent_log_start_offset
            or has_error
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.epoch >= 0
        )
        # After an error, the partition is sent again once it has recovered.
        self.sent_high_watermark = UNKNOWN_OFFSET if has_error else high_watermark
        self.sent_log_start_offset = log_start_offset
        return is_news


class FetchSession(Generic[T]):
    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "is_old",
        "last_used_ms",
        "rank",
        "ranked_size",
        "targets",
        "uses_topic_ids",
    )

    is_follower = False

    def __init__(self, targets: dict[TargetKey, T], *, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = INVALID_SESSION_ID
        """Until it is stored."""
        self.targets = targets
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.is_old = False
        self.ranked_size = -1
        self.rank: Rank | None = None
        """Its rank among the sessions that can be evicted, or None."""

    def end(self) -> None:
        """It was removed or evicted."""


class ConsumerSession(FetchSession[FetchTarget]):
    __slots__ = ()

    def change(self, request: FetchRequest) -> None:
        """Apply the partitions that an incremental request adds, changes and forgets."""
        uses_topic_ids, targets = self.uses_topic_ids, self.targets
        for topic in request.topics:
            name = topic.topic_id if uses_topic_ids else topic.topic
            for wanted in topic.partitions:
                key = (name, wanted.partition)
                known = targets.get(key)
                if known is None:
                    targets[key] = FetchTarget(topic.topic, topic.topic_id, wanted)
                else:
                    known.wanted = wanted
        for forgotten in request.forgotten_topics_data:
            name = forgotten.topic_id if uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                targets.pop((name, index), None)

    def move_back(self, target: FetchTarget) -> None:
        """Read this partition last next time, so that a busy partition does not starve the others."""
        key = target_key(target, self.uses_topic_ids)
        if self.targets.pop(key, None) is not None:
            self.targets[key] = target


Rank = tuple[bool, int, int]
"""Followers above consumers, many partitions above few, then by id. The lowest is evicted first."""


class FetchPlan:
    """The partitions that one request reads, and the session to update."""

    __slots__ = ("_epoch", "_session", "_sessions", "_uses_topic_ids", "error", "targets")

    def __init__(
        self,
        targets: Collection[FetchTarget],
        *,
        error: ErrorCode = ErrorCode.NONE,
        session: ConsumerSession | None = None,
        epoch: int = FINAL_EPOCH,
        sessions: FetchSessions | None = None,
        uses_topic_ids: bool = False,
    ) -> None:
        self.targets = targets
        self.error = error
        self._session = session
        self._epoch = epoch
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids

    def finish(
        self, results: list[tuple[FetchTarget, PartitionData]], now_ms: int
    ) -> tuple[ErrorCode, int, list[tuple[FetchTarget, PartitionData]]]:
        """Update the session; return the error, session id and partitions of the response. Call it once, just before
        the response is sent."""
        session = self._session
        if session is not None:
            if session.epoch != self._epoch:
                # Another request of the session arrived while this one waited: the client has retried.
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
            news = []
            for result in results:
                target, data = result
                if target.record_sent(data):
                    news.append(result)
                    if len(data.records or NO_RECORDS) > 0:
                        session.move_back(target)
            return ErrorCode.NONE, session.id, news
        if self._sessions is None:
            return self.error, INVALID_SESSION_ID, results
        for target, data in results:
            target.record_sent(data)
        session = ConsumerSession(
            {target_key(target, self._uses_topic_ids): target for target in self.targets},
            uses_topic_ids=self._uses_topic_ids,
            now_ms=now_ms,
        )
        return ErrorCode.NONE, self._sessions.store(session, now_ms), results


class FetchSessions:
    """All fetch sessions of a broker, up to `max.incremental.fetch.session.cache.slots`."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._random = rng
        self._sessions: dict[int, FetchSession[Any]] = {}  # least recently used first
        self._evictable_by_all: list[Rank] = []
        self._evictable_by_followers: list[Rank] = []
        self.target_count = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession[Any]]:
        return iter(self._sessions.values())

    def plan(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> FetchPlan:
        """The plan of a consumer's request. `replica_session.plan` has those of followers."""
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.close(request.session_id)
            targets = read_targets(request, uses_topic_ids).values()
            if epoch == FINAL_EPOCH:
                return FetchPlan(targets)
            return FetchPlan(targets, sessions=self, uses_topic_ids=uses_topic_ids)
        session = self.find(request, ConsumerSession, uses_topic_ids=uses_topic_ids)
        if isinstance(session, ErrorCode):
            return FetchPlan((), error=session)
        if request.topics or request.forgotten_topics_data:
            change = partial(session.change, request)
            if not self.resize(session, change, now_ms):
                return FetchPlan((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if not session.targets:
                return FetchPlan(())
        self.advance(session, now_ms)
        return FetchPlan(list(session.targets.values()), session=session, epoch=session.epoch)

    def close(self, session_id: int) -> None:
        """End a session, if it exists."""
        ended = self._sessions.get(session_id)
        if ended is not None:
            self._remove(ended)

    def find(self, request: FetchRequest, kind: type[S], *, uses_topic_ids: bool) -> S | ErrorCode:
        """The session of an incremental request, or the reason why it must start again."""
        session = self._sessions.get(request.session_id)
        if not isinstance(session, kind):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def resize(self, session: FetchSession[Any], change: Callable[[], None], now_ms: int) -> bool:
        """Change the partitions of a session. An empty one is removed. If there are too many partitions, it is removed
        too, and the result is False: the client starts again, and gets no session."""
        self.target_count -= len(session.targets)
        change()
        self.target_count += len(session.targets)
        if not session.targets:
            self._remove(session)
        elif self.target_count > TARGETS_MAX:
            self._touch(session, now_ms)  # so that it is not idle itself
            if not self._has_room_for(0, now_ms):
                self._remove(session)
                return False
        return True

    def advance(self, session: FetchSession[Any], now_ms: int) -> None:
        """The request of the present epoch has arrived."""
        session.epoch = next_epoch(session.epoch)
        self._touch(session, now_ms)

    def store(self, session: FetchSession[Any], now_ms: int) -> int:
        """Store a new session and return its id, or INVALID_SESSION_ID if there is no space for it."""
        size = len(session.targets)
        if not self._has_room_for(size, now_ms):
            return INVALID_SESSION_ID
        rank = (session.is_follower, size, 0)
        if len(self._sessions) >= self._slots and not self._evict_for(rank, now_ms):
            return INVALID_SESSION_ID
        session_id = self._random.randrange(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, EPOCH_MAX)
        session.id = session_id
        self._sessions[session_id] = session
        self.target_count += size
        self._touch(session, now_ms)
        return session_id

    def _has_room_for(self, target_count: int, now_ms: int) -> bool:
        """Whether so many more partitions can be stored. Evicts idle sessions if necessary."""
        while self.target_count + target_count > TARGETS_MAX:
            idle = next(iter(self._sessions.values()), None)
            if idle is None or now_ms - idle.last_used_ms <= EVICTION_MS:
                return False
            self._remove(idle)
            self.evictions += 1
        return True

    def _evict_for(self, newcomer: Rank, now_ms: int) -> bool:
        """Evict a session for one of that rank, if possible."""
        idle = next(iter(self._sessions.values()), None)
        if idle is None:
            return False
        if now_ms - idle.last_used_ms > EVICTION_MS:
            victim = idle
        else:
            evictable = self._evictable_by_followers if newcomer[0] else self._evictable_by_all
            if not evictable or newcomer < evictable[0]:
                return False
            victim = self._sessions[evictable[0][2]]
        self._remove(victim)
        self.evictions += 1
        return True

    def _touch(self, session: FetchSession[Any], now_ms: int) -> None:
        session.last_used_ms = now_ms
        del self._sessions[session.id]
        self._sessions[session.id] = session
        is_old = now_ms - session.created_ms > EVICTION_MS
        if session.is_old == is_old and session.ranked_size == len(session.targets):
            return  # the usual case: the rank changes only with the size or the age
        self._unrank(session)
        session.is_old = is_old
        session.ranked_size = len(session.targets)
        if is_old or not session.is_follower:
            session.rank = (session.is_follower, session.ranked_size, session.id)
            insort(self._evictable_by_followers, session.rank)
            if is_old:
                insort(self._evictable_by_all, session.rank)

    def _unrank(self, session: FetchSession[Any]) -> None:
        if session.rank is not None:
            _discard(self._evictable_by_followers, session.rank)
            _discard(self._evictable_by_all, session.rank)
            session.rank = None

    def _remove(self, session: FetchSession[Any]) -> None:
        self._unrank(session)
        self.target_count -= len(session.targets)
        del self._sessions[session.id]
        session.end()


def read_targets(request: FetchRequest, uses_topic_ids: bool) -> dict[TargetKey, FetchTarget]:
    """The partitions of a request, in order. If one occurs twice, the last one counts."""
    return {
        (topic.topic_id if uses_topic_ids else topic.topic, wanted.partition): FetchTarget(
            topic.topic, topic.topic_id, wanted
        )
        for topic in request.topics
        for wanted in topic.partitions
    }


def target_key(target: FetchTarget, uses_topic_ids: bool) -> TargetKey:
    return (target.topic_id if uses_topic_ids else target.topic, target.wanted.partition)


def next_epoch(epoch: int) -> int:
    """The epoch wraps around to 1, because 0 means a new session."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _discard(ranks: list[Rank], rank: Rank) -> None:
    at = bisect_left(ranks, rank)
    if at < len(ranks) and ranks[at] == rank:
        del ranks[at]
