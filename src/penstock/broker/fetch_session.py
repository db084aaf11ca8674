"""Incremental fetch sessions (KIP-227): a consumer of a thousand partitions names them once, not in every
request.

A session remembers what its owner wants and what it was told last. A request names only what changed, and the
answer holds only partitions with something new. Both sides count the requests of a session; a gap or a repeat
in the count means that one of them missed something, and the owner starts over with a full request.

The number of sessions is bounded, and so is that of all partitions in them. A new one may take the place of one
that has been idle, or that is old and worth less: a consumer's before a follower's, few partitions before many.
Who gets no session is served all the same, in full each time.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Collection

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from penstock.protocol.types import Uuid

NO_SESSION_ID = 0
INITIAL_EPOCH = 0  # a full request that asks for a session
FINAL_EPOCH = -1  # a full request that wants none, and ends the one it names
EPOCH_MAX = 2**31 - 1
# An idle session may go after this, and a busy one is safe for as long after its creation.
EVICTION_MS = 120_000
# Of all sessions together, at half a kilobyte each: a thousand sessions of 500 partitions.
TARGETS_MAX = 500_000
UNKNOWN_OFFSET = -1
NO_RECORDS = b""

TargetKey = tuple[str | Uuid, int]


class FetchTarget:
    """One partition that somebody fetches: where it is, what is wanted of it, and what was said about it
    last."""

    __slots__ = ("sent_high_watermark", "sent_log_start_offset", "topic", "topic_id", "wanted")

    def __init__(self, topic: str, topic_id: Uuid, wanted: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.wanted = wanted
        self.sent_high_watermark = UNKNOWN_OFFSET
        self.sent_log_start_offset = UNKNOWN_OFFSET

    def told(self, data: PartitionData) -> bool:
        """Remember what an answer says, and whether any of it is news."""
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
        # After an error nothing is taken as known, so that the partition is sent again once it is well.
        self.sent_high_watermark = UNKNOWN_OFFSET if has_error else high_watermark
        self.sent_log_start_offset = log_start_offset
        return is_news


class FetchSession:
    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "is_old",
        "last_used_ms",
        "rank",
        "ranked_size",
        "targets",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        targets: dict[TargetKey, FetchTarget],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.targets = targets
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.is_old = False
        self.ranked_size = -1
        self.rank: Rank | None = None
        """Its place among those that a newcomer may evict, or None while it is safe."""

    def change(self, request: FetchRequest) -> None:
        """Take over what an incremental request adds, changes and drops."""
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
        """Read this partition last next time, so that one with much to give does not starve the others."""
        key = target_key(target, self.uses_topic_ids)
        if self.targets.pop(key, None) is not None:
            self.targets[key] = target


Rank = tuple[bool, int, int]
"""Followers above consumers, many partitions above few, then by id; the least goes first."""


class FetchPlan:
    """What one request reads, and what its answer does to its session."""

    __slots__ = ("_epoch", "_is_follower", "_session", "_sessions", "_uses_topic_ids", "error", "targets")

    def __init__(
        self,
        targets: Collection[FetchTarget],
        *,
        error: ErrorCode = ErrorCode.NONE,
        session: FetchSession | None = None,
        epoch: int = FINAL_EPOCH,
        sessions: FetchSessions | None = None,
        uses_topic_ids: bool = False,
        is_follower: bool = False,
    ) -> None:
        self.targets = targets
        self.error = error
        self._session = session
        self._epoch = epoch
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids
        self._is_follower = is_follower

    def settle(
        self, results: list[tuple[FetchTarget, PartitionData]], now_ms: int
    ) -> tuple[ErrorCode, int, list[tuple[FetchTarget, PartitionData]]]:
        """The error, session id and partitions to answer with. Call it once, when the answer is certain to go
        out."""
        session = self._session
        if session is not None:
            if session.epoch != self._epoch:
                # Another request of the session came while this one waited: its owner repeats itself.
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
            news = []
            for result in results:
                target, data = result
                if target.told(data):
                    news.append(result)
                    if len(data.records or NO_RECORDS) > 0:
                        session.move_back(target)
            return ErrorCode.NONE, session.id, news
        if self._sessions is None:
            return self.error, NO_SESSION_ID, results
        for target, data in results:
            target.told(data)
        session_id = self._sessions.create(
            {target_key(target, self._uses_topic_ids): target for target in self.targets},
            is_follower=self._is_follower,
            uses_topic_ids=self._uses_topic_ids,
            now_ms=now_ms,
        )
        return ErrorCode.NONE, session_id, results


class FetchSessions:
    """All sessions of a node; `max.incremental.fetch.session.cache.slots` says how many there may be."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._random = rng
        self._sessions: dict[int, FetchSession] = {}  # the one used longest ago comes first
        self._evictable_by_all: list[Rank] = []
        self._evictable_by_followers: list[Rank] = []
        self.target_count = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self, request: FetchRequest, *, uses_topic_ids: bool, is_follower: bool, now_ms: int
    ) -> FetchPlan:
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION_ID and (ended := self._sessions.get(session_id)) is not None:
                self._remove(ended)
            targets = read_targets(request, uses_topic_ids).values()
            if epoch == FINAL_EPOCH:
                return FetchPlan(targets)
            return FetchPlan(targets, sessions=self, uses_topic_ids=uses_topic_ids, is_follower=is_follower)
        session = self._sessions.get(session_id)
        if session is None:
            return FetchPlan((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchPlan((), error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchPlan((), error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.topics or request.forgotten_topics_data:
            self.target_count -= len(session.targets)
            session.change(request)
            self.target_count += len(session.targets)
            if not session.targets:
                self._remove(session)
                return FetchPlan(())
            if self.target_count > TARGETS_MAX:
                self._remove(session)  # its owner starts over, and is served without one
                return FetchPlan((), error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = next_epoch(epoch)
        self._touch(session, now_ms)
        return FetchPlan(list(session.targets.values()), session=session, epoch=session.epoch)

    def create(
        self,
        targets: dict[TargetKey, FetchTarget],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> int:
        """Make a session and return its id, or NO_SESSION_ID where there is no room for it."""
        if self.target_count + len(targets) > TARGETS_MAX:
            return NO_SESSION_ID
        if len(self._sessions) >= self._slots and not self._evict_for((is_follower, len(targets), 0), now_ms):
            return NO_SESSION_ID
        session_id = self._random.randrange(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, EPOCH_MAX)
        session = FetchSession(
            session_id, targets, is_follower=is_follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        self._sessions[session_id] = session
        self.target_count += len(targets)
        self._touch(session, now_ms)
        return session_id

    def _evict_for(self, newcomer: Rank, now_ms: int) -> bool:
        """Make room for a session of that rank, if there is one that it may push out."""
        idlest = next(iter(self._sessions.values()), None)
        if idlest is None:
            return False
        if now_ms - idlest.last_used_ms > EVICTION_MS:
            victim = idlest
        else:
            evictable = self._evictable_by_followers if newcomer[0] else self._evictable_by_all
            if not evictable or newcomer < evictable[0]:
                return False
            victim = self._sessions[evictable[0][2]]
        self._remove(victim)
        self.evictions += 1
        return True

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.last_used_ms = now_ms
        del self._sessions[session.id]
        self._sessions[session.id] = session
        is_old = now_ms - session.created_ms > EVICTION_MS
        if session.is_old == is_old and session.ranked_size == len(session.targets):
            return  # nearly always: only a new size or coming of age moves it
        self._unrank(session)
        session.is_old = is_old
        session.ranked_size = len(session.targets)
        if is_old or not session.is_follower:
            session.rank = (session.is_follower, session.ranked_size, session.id)
            insort(self._evictable_by_followers, session.rank)
            if is_old:
                insort(self._evictable_by_all, session.rank)

    def _unrank(self, session: FetchSession) -> None:
        if session.rank is not None:
            _discard(self._evictable_by_followers, session.rank)
            _discard(self._evictable_by_all, session.rank)
            session.rank = None

    def _remove(self, session: FetchSession) -> None:
        self._unrank(session)
        self.target_count -= len(session.targets)
        del self._sessions[session.id]


def read_targets(request: FetchRequest, uses_topic_ids: bool) -> dict[TargetKey, FetchTarget]:
    """The partitions that a request names, in its order; of one named twice the later wish counts."""
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
    """The count goes from its greatest number back to 1, because 0 means a new session."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _discard(ranks: list[Rank], rank: Rank) -> None:
    at = bisect_left(ranks, rank)
    if at < len(ranks) and ranks[at] == rank:
        del ranks[at]
