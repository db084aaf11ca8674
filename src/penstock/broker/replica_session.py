"""The fetch session of a follower: which of its partitions have something new for it.

A follower may fetch thousands of partitions of which few are written to. So its partitions mark what is *due*: records
were appended, the high watermark moved, or the leader changed. A fetch looks only at what is due. A partition stays due
until the follower is known to have all records and the current high watermark.

The requests of a session are handled one after another, in the order of their epochs: a follower may send a request
before it has the response to the one before. A fetch that waits for bytes is then answered at once. While a fetch loads
pages, the next request is delayed until it is answered.

A partition is in one session of a follower at most: naming it in another one ends the first. A follower that has lost
its connection begins a new session, and its last request on the old connection may arrive after that, with an old
position. The leader cannot tell which of the two was sent first. If it ends the session that is in use, the follower
begins again and names all positions. Otherwise the old position of an idle partition would never be corrected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from penstock.broker.fetch_session import FetchSession, FetchSessions, FetchTarget
from penstock.protocol.constants import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID, UNKNOWN_OFFSET
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from penstock.protocol.types import Uuid
from penstock.replication.partition import Partition
from penstock.replication.purgatory import DelayedFetch


class UnansweredFetch(Protocol):
    def superseded(self) -> bool:
        """The follower sent its next request: respond now. False if that is not possible yet."""
        ...

    def then(self, start: Callable[[], None]) -> None:
        """Call `start` once this fetch is answered, or its connection is closed."""
        ...


class ReplicaTarget(FetchTarget):
    """A partition that a follower fetches; watches the local replica."""

    __slots__ = ("has_sent_records", "partition", "session")

    def __init__(self, topic: str, topic_id: Uuid, wanted: FetchPartition, session: ReplicaSession) -> None:
        super().__init__(topic, topic_id, wanted)
        self.session = session
        self.partition: Partition | None = None
        """The replica that marks this target due; while there is none, the target is always due."""
        self.has_sent_records = False
        """Since a request last named it. The follower may ignore what is sent after that as a repetition."""

    def watch(self, partition: Partition, sessions: FetchSessions) -> None:
        """Have the replica mark this target due. Other sessions of the follower with this partition end, unless they
        are of a newer process: then this request is refused."""
        watches = partition.purgatory.watches
        for other in [each for each in watches if each.replica_id == self.replica_id]:
            if isinstance(other, ReplicaTarget) and other.session.broker_epoch <= self.session.broker_epoch:
                other.session.end_in(sessions)
        self.partition = partition
        watches[self] = None

    def unwatch(self) -> None:
        if self.partition is not None:
            self.partition.purgatory.watches.pop(self, None)
            self.partition = None

    def send_again(self) -> None:
        """The follower may ignore the last response, so the next one has the offsets, even if they do not change. They
        do not end a wait, as a high watermark would that was not sent (KIP-392)."""
        self.sent_log_start_offset = UNKNOWN_OFFSET

    def has_everything(self, data: PartitionData) -> bool:
        """Whether the follower lacks nothing, once it has received `data`."""
        partition = self.partition
        return (
            partition is not None
            and not data.records
            and data.error_code == ErrorCode.NONE
            and data.diverging_epoch.epoch < 0
            and data.high_watermark == partition.high_watermark
            and not partition.is_offline
            and self.wanted.fetch_offset == partition.log.end_offset
        )

    # -- called by the partition

    @property
    def replica_id(self) -> int:
        return self.session.replica_id

    @property
    def request_number(self) -> int:
        return self.session.epoch

    def appended(self, size: int) -> None:
        session = self.session
        session.due[self] = None
        if session.waiting is not None:
            session.waiting.add_bytes(size)

    def changed(self) -> None:
        session = self.session
        session.due[self] = None
        if session.wakes_on_change and session.waiting is not None:
            session.waiting.wake()

    def interrupted(self) -> None:
        session = self.session
        self.partition = None
        session.due[self] = None
        if session.waiting is not None:
            session.waiting.wake()


class ReplicaSession(FetchSession[ReplicaTarget]):
    __slots__ = (
        "broker_epoch",
        "due",
        "is_ended",
        "replica_id",
        "unanswered",
        "waiting",
        "wakes_on_change",
    )

    is_follower = True

    def __init__(
        self,
        *,
        uses_topic_ids: bool,
        now_ms: int,
        replica_id: int = -1,
        broker_epoch: int = -1,
        wakes_on_change: bool = False,
    ) -> None:
        super().__init__({}, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        self.due: dict[ReplicaTarget, None] = {}
        """What the next read looks at. Those that were served last are at the end, so that none starves."""
        self.waiting: DelayedFetch | None = None
        """That of the fetch that waits for bytes."""
        self.unanswered: UnansweredFetch | None = None
        """The fetch of the last request, until it is answered."""
        self.is_ended = False
        """It was removed or evicted: nothing is due, and nothing may watch for it."""
        self.wakes_on_change = wakes_on_change
        """Consumers read from followers, so a follower learns a new high watermark at once (KIP-392)."""

    def change(self, request: FetchRequest, named: dict[ReplicaTarget, None]) -> None:
        """Apply the partitions that a request adds, changes and forgets. Those that it names are added to `named`."""
        uses_topic_ids, targets, due = self.uses_topic_ids, self.targets, self.due
        for topic in request.topics:
            topic_key = topic.topic_id if uses_topic_ids else topic.topic
            for wanted in topic.partitions:
                key = (topic_key, wanted.partition)
                target = targets.get(key)
                if target is None:
                    target = targets[key] = ReplicaTarget(topic.topic, topic.topic_id, wanted, self)
                else:
                    former, target.wanted = target.wanted, wanted
                    target.has_sent_records = False
                    if (
                        wanted.fetch_offset <= former.fetch_offset
                        or wanted.current_leader_epoch != former.current_leader_epoch
                    ):
                        target.send_again()  # it acknowledges no records: they, or other news, were not applied
                named[target] = None
                due[target] = None
        for forgotten in request.forgotten_topics_data:
            topic_key = forgotten.topic_id if uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                target = targets.pop((topic_key, index), None)
                if target is not None:
                    due.pop(target, None)
                    target.unwatch()

    def supersede(self) -> bool:
        """Respond to the last request: the next one is here, or the session has ended. False if that is not possible
        yet, because its pages are loaded."""
        return self.unanswered is None or self.unanswered.superseded()

    def sent(self, results: list[tuple[ReplicaTarget, PartitionData]]) -> None:
        """A response with these partitions was sent."""
        due = self.due
        for target, data in results:
            target.record_sent(data)
            if target.has_sent_records:
                target.send_again()
            if target.has_everything(data):
                due.pop(target, None)
            elif data.records:
                target.has_sent_records = True
                if due.pop(target, target) is None:
                    due[target] = None

    def unwatch(self) -> None:
        """Nothing watches any more. If the follower goes on, it finds everything due."""
        for target in self.targets.values():
            target.unwatch()
            self.due[target] = None

    def end_in(self, sessions: FetchSessions) -> None:
        """Remove it, whether it is stored yet or not."""
        if self.id:
            sessions.close(self.id)
        else:
            self.end()

    def end(self) -> None:
        """It was removed or evicted. A fetch that waits is answered."""
        self.is_ended = True
        self.unwatch()
        self.due.clear()
        self.supersede()


class ReplicaPlan:
    """The session that one request of a follower reads from."""

    __slots__ = ("_sessions", "change", "error", "named", "session")

    def __init__(
        self,
        session: ReplicaSession,
        *,
        named: dict[ReplicaTarget, None] | None = None,
        error: ErrorCode = ErrorCode.NONE,
        sessions: FetchSessions | None = None,
        change: Callable[[], object] | None = None,
    ) -> None:
        """With `sessions`, the session is new and is to be stored there."""
        self.session = session
        self.named = {} if named is None else named
        """The partitions of the request, until the position of the follower has been recorded."""
        self.error = error
        self.change = change
        """Applies the request to the session, once the request before it is answered; None if that is done."""
        self._sessions = sessions

    def finish(
        self, results: list[tuple[ReplicaTarget, PartitionData]], now_ms: int
    ) -> tuple[ErrorCode, int, list[tuple[ReplicaTarget, PartitionData]]]:
        """Update the session; return the error, session id and partitions of the response. Call it once, just before
        the response is sent."""
        session = self.session
        if session.is_ended:
            # Without partitions, the follower has ended it. Otherwise it is told to start again.
            error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND if session.targets else ErrorCode.NONE
            return error, INVALID_SESSION_ID, []
        if self._sessions is not None:
            self._sessions.store(session, now_ms)
        session.sent(results)
        if not session.id:
            session.unwatch()
        return ErrorCode.NONE, session.id, results


def plan(
    sessions: FetchSessions,
    request: FetchRequest,
    *,
    replica_id: int,
    broker_epoch: int,
    uses_topic_ids: bool,
    wakes_on_change: bool,
    now_ms: int,
) -> ReplicaPlan:
    """The plan of a follower's request."""
    epoch = request.session_epoch
    named: dict[ReplicaTarget, None] = {}
    if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        sessions.close(request.session_id)
        for older in [each for each in sessions if _is_of_older_process(each, replica_id, broker_epoch)]:
            sessions.close(older.id)
        session = ReplicaSession(
            uses_topic_ids=uses_topic_ids,
            now_ms=now_ms,
            replica_id=replica_id,
            broker_epoch=broker_epoch,
            wakes_on_change=wakes_on_change,
        )
        session.change(request, named)
        return ReplicaPlan(session, named=named, sessions=sessions if epoch == INITIAL_EPOCH else None)
    found: ReplicaSession | ErrorCode = sessions.find(request, ReplicaSession, uses_topic_ids=uses_topic_ids)
    if isinstance(found, ErrorCode):
        return ReplicaPlan(ReplicaSession(uses_topic_ids=uses_topic_ids, now_ms=now_ms), error=found)
    session = found
    if not session.supersede():
        sessions.advance(session, now_ms)
        change = partial(sessions.resize, session, partial(session.change, request, named), now_ms)
        return ReplicaPlan(session, named=named, change=change)
    if request.topics or request.forgotten_topics_data:
        sessions.resize(session, partial(session.change, request, named), now_ms)
    if not session.is_ended:
        sessions.advance(session, now_ms)
    return ReplicaPlan(session, named=named)


def _is_of_older_process(session: FetchSession[Any], replica_id: int, broker_epoch: int) -> bool:
    """Such a session is no longer used, but its partitions would still mark what is due."""
    return (
        isinstance(session, ReplicaSession)
        and session.replica_id == replica_id
        and session.broker_epoch < broker_epoch
    )
