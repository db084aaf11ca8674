"""Decides what to fetch from which node and when, and what a response means for its partitions. No I/O.

Each node has one request in flight. A partition is fetched again while responses of it are still buffered, if the node
has more: several responses ahead, so that a fast reader does not wait for each one, but never more than `bytes_max` of
all partitions.

A node serves one request after another, so a request that waits for new records would delay partitions whose buffered
records run out meanwhile. So while some partition of a node has buffered records, requests to the node do not wait for
new records, and after an empty response the node gets a short pause.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.client import errors
from penstock.client.cluster import NO_NODE, Cluster, Leader, LeaderChange, Node, TopicPartition
from penstock.client.consumer.fetch_session import FetchSession, Target, Wish
from penstock.client.consumer.lookups import READ_COMMITTED
from penstock.client.consumer.positions import READ_REPLICA_MS, Need, PartitionState, Positions
from penstock.client.settings import ConsumerSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from penstock.protocol.types import ZERO_UUID
from penstock.records import consuming
from penstock.records.batch import NO_LEADER_EPOCH

ANSWERS_AHEAD = 4  # of one partition, if they are full: bench "consume into Arrow"
HURRIED_PAUSE_MS = 50  # the pause between requests for idle partitions next to busy ones

# The metadata is out of date, or will be right soon.
STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    bytes_min: int = 1
    bytes_max: int = 50 * 1024 * 1024
    """Limit of one response, and of all buffered data."""
    partition_bytes_max: int = 1024 * 1024
    wait_ms: int = 500
    isolation_level: int = 0
    rack: str = ""
    checks_crcs: bool = True

    @classmethod
    def of(cls, settings: ConsumerSettings, *, isolation_level: int) -> FetchSettings:
        return cls(
            bytes_min=settings.get("fetch.min.bytes"),
            bytes_max=settings.get("fetch.max.bytes"),
            partition_bytes_max=settings.get("max.partition.fetch.bytes"),
            wait_ms=settings.get("fetch.max.wait.ms"),
            isolation_level=isolation_level,
            rack=settings.get("client.rack"),
            checks_crcs=settings.get("check.crcs"),
        )


@dataclass(frozen=True, slots=True)
class Decoders:
    """Deserializers of one topic, and the function that explains failures."""

    key: Callable[[bytes], Any] | None = None
    value: Callable[[bytes], Any] | None = None
    explain: Callable[[TopicPartition, Exception, int, bytes | None, bool], BaseException] | None = None


class Fetched:
    """Buffered records of one partition."""

    __slots__ = ("generation", "is_cut", "records", "state")

    def __init__(self, state: PartitionState, records: consuming.FetchedRecords) -> None:
        self.state = state
        self.generation = state.generation
        self.records = records
        self.is_cut = False
        """Records that the application has not received were dropped."""

    @property
    def is_current(self) -> bool:
        """Whether the position has not moved elsewhere since."""
        return self.generation == self.state.generation


@dataclass(slots=True)
class Answer:
    """The outcome of a request, apart from changed positions."""

    fetched: list[Fetched] = field(default_factory=list)
    leaders: list[LeaderChange] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    is_stale: bool = False
    """Whether metadata must be refreshed."""
    has_moved: bool = False
    """Whether some partition is to be fetched from another node."""
    lacks_place: bool = False
    """Whether some partition needs a new position."""
    has_errors: bool = False
    """Whether some partition has an error for the application."""


@dataclass(slots=True)
class _Buffered:
    """The buffered responses of one partition."""

    count: int = 0
    size_bytes: int = 0


class _NodePlan:
    __slots__ = ("asked", "is_hurried", "rest_until_ms", "session")

    def __init__(self) -> None:
        self.session = FetchSession()
        self.asked: dict[TopicPartition, tuple[int, int]] | None = None
        """Generation and offset of the request in flight; None: no request."""
        self.is_hurried = False
        self.rest_until_ms = 0


class FetchPlan:
    def __init__(
        self,
        positions: Positions,
        settings: FetchSettings,
        decoders: Callable[[str], Decoders] = lambda topic: Decoders(),
    ) -> None:
        self.settings = settings
        self.buffered_bytes = 0
        self._positions = positions
        self._decoders = decoders
        self._nodes: dict[int, _NodePlan] = {}
        self._buffered: dict[TopicPartition, _Buffered] = {}

    # Requests

    def nodes(self, cluster: Cluster, now_ms: int) -> set[int]:
        """The nodes with something to fetch, or with a request in flight."""
        wanted = {self._node_of(state, cluster, now_ms) for state in self._positions}
        return {node_id for node_id in wanted if node_id != NO_NODE}

    def next_request(
        self, node_id: int, cluster: Cluster, now_ms: int, *, knows_ids: bool = True
    ) -> tuple[FetchRequest, int | None] | None:
        """The request and its maximum version; None if there is nothing to fetch from this node."""
        plan = self._nodes.setdefault(node_id, _NodePlan())
        if not self.may_ask(node_id, now_ms):
            return None
        here = [state for state in self._positions if self._node_of(state, cluster, now_ms) == node_id]
        is_hurried = any(not state.is_held and state.partition in self._buffered for state in here)
        wanted = [state for state in here if state.is_fetchable(now_ms) and self._lacks(state)]
        if not wanted:
            return None
        plan.is_hurried = is_hurried
        plan.asked = {state.partition: (state.generation, state.fetch_offset) for state in wanted}
        wish = plan.session.next(
            {state.partition: self._target(state, cluster) for state in wanted}, knows_ids=knows_ids
        )
        return self._request(wish, 0 if is_hurried else self.settings.wait_ms), wish.version_max

    def may_ask(self, node_id: int, now_ms: int) -> bool:
        """Whether `next_request`, which looks at all partitions of the node, is worth calling."""
        plan = self._nodes.get(node_id)
        if self.buffered_bytes >= self.settings.bytes_max:
            return False
        if plan is None:
            return True
        is_resting = now_ms < plan.rest_until_ms and bool(self._buffered)
        return plan.asked is None and not is_resting

    def wake_at_ms(self, node_id: int, now_ms: int) -> int | None:
        """When to ask again if nothing happens before."""
        plan = self._nodes.get(node_id)
        times = [state.retry_at_ms for state in self._positions]
        if plan is not None:
            times.append(plan.rest_until_ms)
        return min((time for time in times if time > now_ms), default=None)

    def last_request(self, node_id: int) -> tuple[FetchRequest, int | None] | None:
        """The request that closes the session with a node."""
        plan = self._nodes.pop(node_id, None)
        if plan is None or not plan.session.is_open:
            return None
        wish = plan.session.last()
        return self._request(wish, 0), wish.version_max

    def _request(self, wish: Wish, wait_ms: int) -> FetchRequest:
        settings = self.settings
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=settings.bytes_min,
            max_bytes=settings.bytes_max,
            isolation_level=settings.isolation_level,
            session_id=wish.session_id,
            session_epoch=wish.epoch,
            topics=wish.topics,
            forgotten_topics_data=wish.forgotten,
            rack_id=settings.rack,
        )

    def _target(self, state: PartitionState, cluster: Cluster) -> Target:
        topic = cluster.topics.get(state.partition.topic)
        return Target(
            topic.id if topic is not None else ZERO_UUID,
            state.fetch_offset,
            state.leader.epoch if state.leader is not None else NO_LEADER_EPOCH,
            self.settings.partition_bytes_max,
        )

    def _lacks(self, state: PartitionState) -> bool:
        buffered = self._buffered.get(state.partition)
        if buffered is None:
            return True
        ahead_bytes = ANSWERS_AHEAD * self.settings.partition_bytes_max
        return buffered.size_bytes < ahead_bytes and state.fetch_offset < state.end_offset

    @staticmethod
    def _node_of(state: PartitionState, cluster: Cluster, now_ms: int) -> int:
        leader = state.leader
        if leader is None:
            return NO_NODE
        if state.read_replica != NO_NODE:
            if now_ms < state.read_replica_until_ms and state.read_replica in cluster.nodes:
                return state.read_replica
            state.read_replica = NO_NODE
        return leader.node_id

    # Responses

    def answered(self, node_id: int, response: FetchResponse, now_ms: int) -> Answer:
        plan = self._nodes.get(node_id)
        answer = Answer()
        if plan is None or plan.asked is None:
            return answer
        asked, plan.asked = plan.asked, None
        if not plan.session.answered(response):
            answer.is_stale = response.error_code in STALE
            if not response.error_code.is_retriable and not _is_of_session(response.error_code):
                for partition, (generation, _) in asked.items():
                    self._positions.fail(partition, generation, errors.of(response.error_code))
                    answer.has_errors = True
            elif answer.is_stale:
                for partition, (generation, _) in asked.items():
                    self._positions.retry(partition, generation, now_ms)
            return answer
        for topic in response.responses:
            name = plan.session.name_of(topic.topic, topic.topic_id)
            for result in topic.partitions:
                partition = TopicPartition(name or "", result.partition_index)
                if partition in asked:
                    generation, offset = asked[partition]
                    self._take(node_id, partition, generation, offset, result, answer, now_ms)
        answer.nodes = [
            Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints
        ]
        if plan.is_hurried and not answer.fetched:
            plan.rest_until_ms = now_ms + HURRIED_PAUSE_MS
        return answer

    def failed(self, node_id: int, now_ms: int) -> None:
        """The request failed without a response: try again later."""
        plan = self._nodes.get(node_id)
        if plan is None or plan.asked is None:
            return
        asked, plan.asked = plan.asked, None
        plan.session.failed()
        for partition, (generation, _) in asked.items():
            self._positions.retry(partition, generation, now_ms)
            state = self._positions.get(partition)
            if state is not None:
                state.read_replica = NO_NODE

    def _take(
        self,
        node_id: int,
        partition: TopicPartition,
        generation: int,
        offset: int,
        result: PartitionData,
        answer: Answer,
        now_ms: int,
    ) -> None:
        positions = self._positions
        state = positions.get(partition)
        if state is None or state.generation != generation:
            return
        if state.fetch_offset != offset:
            return  # the leader has moved, and the new one has answered before
        if result.error_code != ErrorCode.NONE:
            self._take_error(node_id, state, result, answer, now_ms)
            return
        state.failures = state.retry_at_ms = 0
        state.high_watermark = result.high_watermark
        is_committed_only = self.settings.isolation_level == READ_COMMITTED
        state.end_offset = result.last_stable_offset if is_committed_only else result.high_watermark
        if result.log_start_offset >= 0:
            state.log_start_offset = result.log_start_offset
        if result.preferred_read_replica >= 0:
            answer.has_moved |= state.read_replica != result.preferred_read_replica
            state.read_replica = result.preferred_read_replica
            state.read_replica_until_ms = now_ms + READ_REPLICA_MS
        if result.records:
            self._keep(state, offset, result, answer)

    def _keep(self, state: PartitionState, offset: int, result: PartitionData, answer: Answer) -> None:
        partition, settings = state.partition, self.settings
        aborted = None
        if settings.isolation_level == READ_COMMITTED:
            aborted = [(each.producer_id, each.first_offset) for each in result.aborted_transactions or ()]
        decoders = self._decoders(partition.topic)
        explain = decoders.explain
        records = consuming.FetchedRecords(
            partition.topic,
            partition.partition,
            result.records,  # type: ignore[arg-type]  # what was decoded is a view, not a slice of a file
            offset,
            aborted=aborted,
            checks_crcs=settings.checks_crcs,
            decode_key=decoders.key,
            decode_value=decoders.value,
            explain=None if explain is None else lambda *fault: explain(partition, *fault),
        )
        state.fetch_offset = records.end_offset
        if records.end_epoch != NO_LEADER_EPOCH:
            state.fetch_epoch = records.end_epoch
        answer.fetched.append(Fetched(state, records))
        buffered = self._buffered.setdefault(partition, _Buffered())
        buffered.count += 1
        buffered.size_bytes += records.size_bytes
        self.buffered_bytes += records.size_bytes

    def _take_error(
        self, node_id: int, state: PartitionState, result: PartitionData, answer: Answer, now_ms: int
    ) -> None:
        partition, generation, code = state.partition, state.generation, result.error_code
        is_leader = state.read_replica == NO_NODE
        answer.has_moved |= not is_leader
        state.read_replica = NO_NODE
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if is_leader:  # a follower may only lag; the leader is asked next
                self._positions.take_out_of_range(partition, generation, now_ms)
        elif code in STALE:
            answer.is_stale = True
            if result.current_leader.leader_id >= 0:
                leader = Leader(result.current_leader.leader_id, result.current_leader.leader_epoch)
                answer.leaders.append(LeaderChange(partition, leader))
            self._positions.retry(partition, generation, now_ms)
        elif code in (ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR):
            self._positions.retry(partition, generation, now_ms)
        else:
            self._positions.fail(partition, generation, errors.of(code, about=partition))
        answer.has_errors |= state.error is not None
        answer.lacks_place |= state.need is not Need.NOTHING

    def finished(self, fetched: Fetched, now_ms: int) -> bool:
        """A response was consumed or dropped. True if more can be fetched now."""
        state = fetched.state
        if fetched.is_cut and fetched.is_current:
            state.fetch_again()
        buffered = self._buffered[state.partition]
        was_full = self.buffered_bytes >= self.settings.bytes_max
        buffered.count -= 1
        buffered.size_bytes -= fetched.records.size_bytes
        if not buffered.count:
            del self._buffered[state.partition]
        self.buffered_bytes -= fetched.records.size_bytes
        return was_full or not self._buffered or (state.is_fetchable(now_ms) and self._lacks(state))


def _is_of_session(code: ErrorCode) -> bool:
    return code in (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
