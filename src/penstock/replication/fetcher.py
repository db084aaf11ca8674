"""A replica fetcher without I/O: the partitions that this node fetches from one leader, and one fetch session.

`next_request` says what to fetch, `handle_partition` applies one partition of a response to its replica, `end_response`
ends it. Only partitions whose position changed are named in a request (KIP-227), so idle partitions cost nothing.

A partition is in one of three states. *Active*: in the session. *Waiting*: out of it until a backoff ends; each
partition backs off alone. *Busy*: out of it until its owner calls `ready`, because its log is being truncated, flushed
or loaded, or its leader is asked for offsets; after a bug until the leader changes. No bad partition stops the others.

A second request may be sent while one is in flight: a partition that was just added must not wait until the leader
answers a fetch that has nothing to return. The leader may then repeat records that the first response had; records
that do not continue the log are ignored.
"""

from __future__ import annotations

import heapq
import logging
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count, islice
from typing import NamedTuple, Protocol

from penstock.metadata.errors import Refused
from penstock.protocol.constants import INITIAL_EPOCH, INVALID_SESSION_ID
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from penstock.protocol.types import Uuid
from penstock.records.errors import RecordsError
from penstock.replication.following import FetchPosition
from penstock.replication.quota import ReplicationQuota
from penstock.runtime.backoff import Backoff
from penstock.runtime.network import FileSlice
from penstock.storage.pages import ColdPages

logger = logging.getLogger(__name__)

IN_FLIGHT_MAX = 2
NAMED_MAX = 500  # partitions in one request, so that thousands do not hold up the event loops of both nodes
SESSION_EPOCH_MAX = 2**31 - 1
FIRST_BACKOFF_MS = 20  # a leader that has not read the metadata yet usually has after this time
NO_RECORDS = memoryview(b"")

# Usual for a moment after an election: not logged.
EXPECTED_ERRORS = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)

Key = tuple[Uuid, int]


class FollowerReplica(Protocol):
    """What a fetcher needs of a partition: `following.Following`."""

    topic: str
    topic_id: Uuid
    index: int
    leader_epoch: int

    @property
    def is_current(self) -> bool: ...

    @property
    def is_durable(self) -> bool: ...

    @property
    def is_throttled(self) -> bool: ...

    def position(self) -> FetchPosition: ...

    def append(self, records: memoryview, *, high_watermark: int, start_offset: int, now_ms: int) -> None: ...

    def truncation_offset(self, epoch: int, end_offset: int) -> int: ...


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of requests to leaders."""

    wait_ms_max: int = 500
    """`replica.fetch.wait.max.ms`."""
    min_bytes: int = 1
    """`replica.fetch.min.bytes`."""
    partition_bytes_max: int = 1 << 20
    """`replica.fetch.max.bytes`."""
    response_bytes_max: int = 10 << 20
    """`replica.fetch.response.max.bytes`."""
    backoff_ms: int = 1_000
    """`replica.fetch.backoff.ms`."""


class State(Enum):
    ACTIVE = auto()
    WAITING = auto()
    BUSY = auto()


class Fetched:
    """One partition of a fetcher."""

    __slots__ = (
        "failures",
        "in_session",
        "key",
        "lag",
        "leader_epoch",
        "named_in",
        "position",
        "replica",
        "state",
    )

    def __init__(self, replica: FollowerReplica) -> None:
        self.key: Key = (replica.topic_id, replica.index)
        self.replica = replica
        self.leader_epoch = replica.leader_epoch
        self.state = State.BUSY
        self.position: FetchPosition | None = None
        """As it was last sent to the leader; None if it was not."""
        self.named_in = 0
        """The number of the request that named it last. Responses to earlier requests say nothing about it."""
        self.in_session = False
        """Whether the leader has it in the session."""
        self.failures = 0
        self.lag = -1
        """Records behind the leader's high watermark, after the last response; -1 if unknown."""

    def __str__(self) -> str:
        return f"{self.replica.topic}-{self.replica.index}"


class Truncation(NamedTuple):
    """Truncate the log of a busy partition to `offset`, then call `ready`."""

    key: Key
    offset: int


@dataclass(slots=True)
class Work:
    """What the driver must do for busy partitions, after which it calls `ready` or `failed`."""

    truncations: list[Truncation] = field(default_factory=list)
    resets: list[Key] = field(default_factory=list)
    """The fetch offset was out of range: ask the leader where its log starts and ends."""
    loads: list[tuple[Key, FileSlice]] = field(default_factory=list)
    """Pages that the log needs for its next append."""

    def __bool__(self) -> bool:
        return bool(self.truncations or self.resets or self.loads)


class FetcherCore:
    def __init__(
        self, replica_id: int, settings: FetchSettings, *, quota: ReplicationQuota | None = None
    ) -> None:
        self._replica_id = replica_id
        self._quota = quota
        self._partitions: dict[Key, Fetched] = {}
        self._changed: dict[Key, None] = {}
        """Active partitions that the next request must name."""
        self._forgotten: dict[Key, None] = {}
        """Partitions that the next request must take out of the session."""
        self._waiting: list[tuple[int, int, Fetched]] = []
        """When a backoff ends, lowest first."""
        self._order = count()
        self._active_count = 0
        self._session_id = INVALID_SESSION_ID
        self._session_epoch = INITIAL_EPOCH
        self._broker_epoch = -1
        self._has_no_session = False
        """The leader had no space for a session."""
        self._generation = 0
        """Counts sessions: a response to a request of an older one says nothing about this one."""
        self._request_count = 0
        self._unflushed: list[Key] = []
        self.in_flight: list[tuple[int, int]] = []
        """The number and the session of each request without a response, in the order of the requests."""
        self.settings = settings

    @property
    def settings(self) -> FetchSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: FetchSettings) -> None:
        self._settings = settings
        self._backoff = Backoff(FIRST_BACKOFF_MS, settings.backoff_ms, jitter=0)

    def __len__(self) -> int:
        return len(self._partitions)

    def __contains__(self, key: Key) -> bool:
        return key in self._partitions

    def get(self, key: Key) -> Fetched | None:
        return self._partitions.get(key)

    # -- partitions

    def add(self, replica: FollowerReplica) -> None:
        """Fetch this partition from now on, in its present leader epoch. It may have been added in an older one."""
        fetched = Fetched(replica)
        known = self._partitions.get(fetched.key)
        if known is not None:
            fetched.in_session = known.in_session
            self._deactivate(known)
        self._partitions[fetched.key] = fetched
        self._activate(fetched)

    def remove(self, key: Key) -> None:
        fetched = self._partitions.pop(key, None)
        if fetched is not None:
            self._deactivate(fetched)
            if fetched.in_session:
                self._forgotten[key] = None

    def ready(self, key: Key) -> None:
        """The work for a busy partition is done."""
        fetched = self._partitions.get(key)
        if fetched is not None and fetched.state is State.BUSY:
            fetched.failures = 0
            self._activate(fetched)

    def failed(self, key: Key, now_ms: int) -> None:
        """The work for a busy partition failed: it backs off."""
        fetched = self._partitions.get(key)
        if fetched is not None:
            self._back_off(fetched, now_ms)

    def _activate(self, fetched: Fetched) -> None:
        if fetched.state is not State.ACTIVE:
            fetched.state = State.ACTIVE
            self._active_count += 1
        self._changed[fetched.key] = None
        self._forgotten.pop(fetched.key, None)

    def _deactivate(self, fetched: Fetched, state: State = State.WAITING) -> None:
        """Take it out of the session."""
        if fetched.state is State.ACTIVE:
            self._active_count -= 1
        fetched.state = state
        fetched.position = None
        self._changed.pop(fetched.key, None)
        if fetched.in_session:
            self._forgotten[fetched.key] = None

    def _back_off(self, fetched: Fetched, now_ms: int) -> None:
        fetched.failures += 1
        self._wait(fetched, now_ms + int(self._backoff.wait_ms(fetched.failures)))

    def _wait(self, fetched: Fetched, until_ms: int) -> None:
        self._deactivate(fetched)
        heapq.heappush(self._waiting, (until_ms, next(self._order), fetched))

    # -- requests

    @property
    def next_ms(self) -> int | None:
        """When the next backoff ends."""
        while self._waiting and not self._is_waiting(self._waiting[0][2]):
            heapq.heappop(self._waiting)
        return self._waiting[0][0] if self._waiting else None

    def _is_waiting(self, fetched: Fetched) -> bool:
        return fetched.state is State.WAITING and self._partitions.get(fetched.key) is fetched

    def next_request(self, now_ms: int, *, broker_epoch: int) -> FetchRequest | None:
        """The request to send now, or None. Every request must be followed by its response, or by `disconnected`."""
        while (until_ms := self.next_ms) is not None and until_ms <= now_ms:
            self._activate(heapq.heappop(self._waiting)[2])
        if broker_epoch != self._broker_epoch:
            # The broker has registered again: the leader must learn the new epoch for every partition (KIP-903).
            self._broker_epoch = broker_epoch
            self._begin_session()
        if self.in_flight:
            # Only something new may be asked for meanwhile, and only in a session.
            is_full = self._session_epoch == INITIAL_EPOCH
            if is_full or not self._changed or len(self.in_flight) >= IN_FLIGHT_MAX:
                return None
        self._request_count += 1
        topics = self._changed_topics(now_ms)
        if self._active_count == 0:
            if not self.in_flight:
                self._begin_session()
            return None
        if self.in_flight and not topics:
            return None
        settings = self._settings
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._replica_id, replica_epoch=broker_epoch),
            # A session begins with a request that does not wait, so that partitions can soon be added to it.
            max_wait_ms=0 if self._changed or self._begins_session() else settings.wait_ms_max,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=topics,
            forgotten_topics_data=self._forgotten_topics(),
        )
        self.in_flight.append((self._request_count, self._generation))
        if self._session_epoch > INITIAL_EPOCH:
            self._session_epoch = 1 if self._session_epoch == SESSION_EPOCH_MAX else self._session_epoch + 1
        return request

    def _begins_session(self) -> bool:
        return self._session_epoch == INITIAL_EPOCH and not self._has_no_session

    def take_unflushed(self) -> list[Key]:
        """Busy partitions whose log a flush policy has not made durable. Their next fetch waits for that, because it
        acknowledges the records."""
        unflushed, self._unflushed = self._unflushed, []
        return unflushed

    def _changed_topics(self, now_ms: int) -> list[FetchTopic]:
        """The partitions to name, by topic."""
        topics: dict[Uuid, FetchTopic] = {}
        changed, self._changed = self._changed, {}
        if self._has_no_session:  # then every request has all partitions
            changed = {key: None for key, each in self._partitions.items() if each.state is State.ACTIVE}
        elif len(changed) > NAMED_MAX:
            self._changed = dict.fromkeys(islice(changed, NAMED_MAX, None))
            changed = dict.fromkeys(islice(changed, NAMED_MAX))
        max_bytes = self._settings.partition_bytes_max
        for key in changed:
            fetched = self._partitions[key]
            try:
                position = fetched.replica.position()
                if not fetched.replica.is_durable:
                    self._deactivate(fetched, State.BUSY)
                    self._unflushed.append(key)
                    continue
            except Refused:  # its log directory failed
                self._back_off(fetched, now_ms)
                continue
            fetched.position = position
            fetched.named_in = self._request_count
            fetched.in_session = True
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopic(
                    topic=fetched.replica.topic, topic_id=key[0], partitions=[]
                )
            topic.partitions.append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=fetched.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.epoch,
                    log_start_offset=position.start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        return list(topics.values())

    def _forgotten_topics(self) -> list[ForgottenTopic]:
        if not self._forgotten:
            return []
        forgotten, self._forgotten = self._forgotten, {}
        topics: dict[Uuid, ForgottenTopic] = {}
        for topic_id, index in forgotten:
            topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(
                index
            )
            fetched = self._partitions.get((topic_id, index))
            if fetched is not None:
                fetched.in_session = False
        return list(topics.values())

    def _begin_session(self) -> None:
        """The next request has all partitions, and closes the present session."""
        self._generation += 1
        self._session_epoch = INITIAL_EPOCH
        self._forgotten.clear()
        for fetched in self._partitions.values():
            fetched.in_session = False
            if fetched.state is State.ACTIVE:
                self._changed[fetched.key] = None

    # -- responses

    def begin_response(self, response: FetchResponse) -> tuple[int, ErrorCode]:
        """A response has arrived: the number of its request, and its error. Unless that is NONE, its partitions mean
        nothing."""
        number, generation = self.in_flight.pop(0)
        error = response.error_code
        if generation != self._generation:
            return number, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if error != ErrorCode.NONE:
            if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = INVALID_SESSION_ID  # otherwise the next request closes it
            self._begin_session()
        elif self._session_epoch == INITIAL_EPOCH:
            self._session_id = response.session_id
            self._has_no_session = response.session_id == INVALID_SESSION_ID
            if not self._has_no_session:
                self._session_epoch = 1
        return number, error

    def disconnected(self) -> None:
        """The requests in flight have no response. The next one begins a new session."""
        self.in_flight.clear()
        self._begin_session()

    def handle_partition(
        self, number: int, topic_id: Uuid, data: PartitionData, work: Work, *, now_ms: int, wall_ms: int
    ) -> int:
        """Apply one partition of the response to request `number`; returns the number of bytes that were appended."""
        fetched = self._partitions.get((topic_id, data.partition_index))
        if fetched is None or fetched.position is None or number < fetched.named_in:
            return 0  # it was removed or changed since the request was sent
        replica, sent = fetched.replica, fetched.position
        if not replica.is_current:
            return 0  # it is about to be removed, or added again
        if data.error_code != ErrorCode.NONE:
            self._handle_error(fetched, data.error_code, work, now_ms)
            return 0
        try:
            if data.diverging_epoch.epoch >= 0 or data.diverging_epoch.end_offset >= 0:
                divergence = data.diverging_epoch
                offset = replica.truncation_offset(divergence.epoch, divergence.end_offset)
                self._deactivate(fetched, State.BUSY)
                work.truncations.append(Truncation(fetched.key, offset))
                return 0
            size = self._append(fetched, data, wall_ms)
            if size and replica.is_throttled:
                self._throttle(fetched, size, now_ms)
            return size
        except ColdPages as cold:
            self._deactivate(fetched, State.BUSY)
            work.loads.append((fetched.key, cold.piece))
        except (Refused, RecordsError) as error:
            if fetched.failures == 0 and not _is_expected(error):
                logger.error(
                    "records of %s from offset %d cannot be appended: %s; fetching them again",
                    fetched,
                    sent.offset,
                    error,
                )
            self._back_off(fetched, now_ms)
        except Exception:  # a bug: its log may be incomplete, so it must not catch up and lead
            logger.exception(
                "%s stays at offset %d until its leader changes or this broker restarts", fetched, sent.offset
            )
            self._deactivate(fetched, State.BUSY)
        return 0

    def _append(self, fetched: Fetched, data: PartitionData, wall_ms: int) -> int:
        replica, sent = fetched.replica, fetched.position
        assert sent is not None
        records = data.records
        view = records if isinstance(records, memoryview) else NO_RECORDS
        if replica.position().offset != sent.offset:
            view = NO_RECORDS  # a repetition of records that an earlier response had; its high watermark may be new
        replica.append(
            view,
            high_watermark=data.high_watermark,
            start_offset=data.log_start_offset,
            now_ms=wall_ms,
        )
        fetched.failures = 0
        position = replica.position()
        fetched.lag = max(0, data.high_watermark - position.offset)
        if position != sent:
            self._changed[fetched.key] = None
        return position.offset - sent.offset and len(view)

    def _throttle(self, fetched: Fetched, size: int, now_ms: int) -> None:
        """Count the bytes of a throttled replica, and let it wait if it is not in sync and the quota is exceeded."""
        quota = self._quota
        if quota is not None and fetched.lag > 0:
            quota.record(size)
            wait_ms = quota.wait_ms(now_ms)
            if wait_ms > 0:
                self._wait(fetched, now_ms + wait_ms)

    def _handle_error(self, fetched: Fetched, error: ErrorCode, work: Work, now_ms: int) -> None:
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._deactivate(fetched, State.BUSY)
            work.resets.append(fetched.key)
            return
        if fetched.failures == 0 and error not in EXPECTED_ERRORS:
            logger.warning("the leader cannot serve %s: %s; trying again", fetched, error.name)
        self._back_off(fetched, now_ms)


def _is_expected(error: Refused | RecordsError) -> bool:
    """The log is being truncated, or its directory failed, which is logged already."""
    return isinstance(error, Refused) and error.error in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
