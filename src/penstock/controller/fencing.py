"""Heartbeats of brokers: when a broker is unfenced, fenced, or may shut down (KIP-631).

- A broker is unfenced when it has applied its own registration, so that it knows which partitions it leads.
- A broker is fenced when its session expires, or when it asks for it. Other replicas lead its partitions from then on.
- In a controlled shutdown the leaders move first. The broker may stop once all active brokers have applied that.

A broker may have tens of thousands of partitions. They change in portions, so that other requests do not wait long:

- If a session expired, `fence_expired` is decided again until all partitions have left the broker.
- In a controlled shutdown, each heartbeat changes a portion.
- When a broker is unfenced, `elect_leaders.elect_missing_leaders` elects the leaders after the first portion.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import islice

from penstock.controller.broker_index import PartitionKey
from penstock.controller.brokers import check_broker_epoch, is_alone
from penstock.controller.directories import cordoned, taken_offline
from penstock.controller.leadership import LeaderRules, has_eligible_leaders, partition_changes
from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState
from penstock.metadata.image import BrokerImage
from penstock.metadata.records import BrokerRegistrationChangeRecord
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.types import Uuid

FENCE = 1
UNFENCE = -1
CONTROLLED_SHUTDOWN = 1

PARTITIONS_MAX = 1000
"""Partitions that change in one decision about a heartbeat, which takes about 40 ms."""

FENCED_MAX = 250
"""Partitions that leave a broker in one decision after its session expired: fewer, because the next decision follows at
once. With 1000, the first CreateTopics after a fail-over took up to 0.5 s longer: bench "cluster-controller"."""


class BrokerState(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "shutting down now"


def heartbeat(state: ControllerState, request: BrokerHeartbeatRequest) -> Outcome[BrokerHeartbeatResponse]:
    """Decide about one heartbeat. Also renews the session, which is soft state."""
    node_id = request.broker_id
    broker = check_broker_epoch(state.image, node_id, request.broker_epoch)
    current = _current(state, broker)
    wanted = _next(state, broker, request, current)
    failed = [each for each in broker.directories if each in request.offline_log_dirs]
    records: list[object] = []
    if wanted is not current:
        records += _transition(state, broker, wanted, failed)
    state.sessions.touch(node_id, now_ms=state.now_ms, metadata_offset=request.current_metadata_offset)
    is_fenced = wanted in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)
    records += taken_offline(state, broker, failed, changes_partitions=not (records and is_fenced))
    records += cordoned(state, broker, request.cordoned_log_dirs)
    if wanted is BrokerState.SHUTDOWN_NOW:
        state.sessions.end(node_id)
    response = BrokerHeartbeatResponse(
        is_caught_up=_is_caught_up(state, request),
        is_fenced=is_fenced,
        should_shut_down=wanted is BrokerState.SHUTDOWN_NOW,
    )
    return Outcome(records, response, is_atomic=False)


def fence_expired(state: ControllerState) -> Outcome[None]:
    """Fence the broker whose session expired first.

    If it has many partitions, they leave it in portions, so that heartbeats of others do not wait until they expire,
    too. The broker is fenced with the last portion. Once the first one is written, a heartbeat does not stop the
    fencing: only a broker that was fenced is unfenced, which elects leaders of its partitions again. A broker that is
    alone is not fenced: a pause of its process is no reason to stop serving.
    """
    sessions = state.sessions
    expired = [
        each
        for each in sessions.expired(state.now_ms)
        if sessions.is_being_fenced(each) or not is_alone(state, each)
    ]
    if not expired:
        return Outcome([], None)
    node_id = expired[0]
    keys = _partitions_to_leave(state, node_id, FENCED_MAX + 1)
    if len(keys) <= FENCED_MAX:
        records = fence(state, state.image.brokers[node_id], keys)
        return Outcome(records, None, is_atomic=False, is_complete=len(expired) == 1)
    sessions.began_fencing(node_id)
    rules = LeaderRules(state, excluded=(node_id,))
    changes = partition_changes(state, keys[:FENCED_MAX], rules, leaving=node_id)
    return Outcome(changes, None, is_atomic=False, is_complete=False)


def _partitions_to_leave(state: ControllerState, node_id: int, count_max: int) -> list[PartitionKey]:
    """The first partitions that change when the broker is fenced. Without eligible leader replicas, the last member
    stays in the ISR."""
    topics = state.image.topics
    keys = state.index.each_in_sync(node_id)
    if not has_eligible_leaders(state.image):
        keys = (
            (topic_id, index)
            for topic_id, index in keys
            if (topic := topics.with_id(topic_id)) is not None
            and (topic.partitions[index].leader == node_id or topic.partitions[index].isr != (node_id,))
        )
    return list(islice(keys, count_max))


def wait_for_expiry_ms(state: ControllerState) -> int:
    """How long until a session expires."""
    expiry_ms = state.sessions.next_expiry_ms()
    if expiry_ms is None or is_alone(state, state.node_id):
        timeout_ms: int = state.settings.get("broker.session.timeout.ms")
        return timeout_ms
    return max(0, expiry_ms - state.now_ms)


def fence(state: ControllerState, broker: BrokerImage, keys: Sequence[PartitionKey]) -> list[object]:
    """Remove the broker from the ISRs of these partitions, then fence it."""
    node_id = broker.node_id
    rules = LeaderRules(state, excluded=(node_id,))
    records: list[object] = list(partition_changes(state, keys, rules, leaving=node_id))
    records.append(BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, fenced=FENCE))
    return records


def unfence(state: ControllerState, broker: BrokerImage, *, failed: Sequence[Uuid] = ()) -> list[object]:
    """Unfence the broker, and elect leaders of the first partitions that had to wait for it."""
    rules = LeaderRules(state, added=broker.node_id, offline=failed)
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=UNFENCE),
        *partition_changes(state, state.index.without_leader()[:PARTITIONS_MAX], rules),
    ]


def begin_shutdown(state: ControllerState, broker: BrokerImage) -> list[object]:
    """Move a portion of the broker's leaders to other brokers. The broker stays unfenced, but cannot lead or join an
    ISR any more (KIP-841)."""
    node_id = broker.node_id
    records: list[object] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=node_id, broker_epoch=broker.epoch, in_controlled_shutdown=CONTROLLED_SHUTDOWN
            )
        )
    keys = _partitions_to_leave(state, node_id, PARTITIONS_MAX + 1)
    rules = LeaderRules(state, excluded=(node_id,))
    records += partition_changes(state, keys[:PARTITIONS_MAX], rules, leaving=node_id)
    if len(keys) <= PARTITIONS_MAX:
        state.sessions.left_partitions(node_id, last_offset=state.next_offset + len(records) - 1)
    return records


def _current(state: ControllerState, broker: BrokerImage) -> BrokerState:
    if broker.is_fenced:
        return BrokerState.FENCED
    if state.sessions.shutdown_offset(broker.node_id) >= 0:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def _next(
    state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest, current: BrokerState
) -> BrokerState:
    if current is BrokerState.CONTROLLED_SHUTDOWN:
        return _next_in_shutdown(state, broker)
    if current is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        if not request.want_fence and _is_caught_up(state, request):
            return BrokerState.UNFENCED
        return BrokerState.FENCED
    if request.want_fence:
        return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
    if not request.want_shut_down:
        return BrokerState.UNFENCED
    return BrokerState.CONTROLLED_SHUTDOWN if _must_wait(state, broker) else BrokerState.SHUTDOWN_NOW


def _must_wait(state: ControllerState, broker: BrokerImage) -> bool:
    """Whether partitions have to leave the broker before it is fenced. A few that it only follows can leave with it."""
    node_id = broker.node_id
    if is_alone(state, node_id):
        return False
    left_count_max = 0 if broker.in_controlled_shutdown else PARTITIONS_MAX
    leaving = _partitions_to_leave(state, node_id, left_count_max + 1)
    return state.index.leads_any(node_id) or len(leaving) > left_count_max


def _next_in_shutdown(state: ControllerState, broker: BrokerImage) -> BrokerState:
    if state.index.leads_any(broker.node_id):
        return BrokerState.CONTROLLED_SHUTDOWN
    lowest = state.sessions.lowest_active_offset()
    if lowest is None or state.sessions.shutdown_offset(broker.node_id) <= lowest:
        return BrokerState.SHUTDOWN_NOW
    return BrokerState.CONTROLLED_SHUTDOWN


def _transition(
    state: ControllerState, broker: BrokerImage, wanted: BrokerState, failed: Sequence[Uuid]
) -> list[object]:
    match wanted:
        case BrokerState.UNFENCED:
            return unfence(state, broker, failed=failed)
        case BrokerState.CONTROLLED_SHUTDOWN:
            return begin_shutdown(state, broker)
        case BrokerState.FENCED:
            return fence(state, broker, state.index.in_sync(broker.node_id))
        case BrokerState.SHUTDOWN_NOW:
            if broker.is_fenced or is_alone(state, broker.node_id):
                return []
            return fence(state, broker, state.index.in_sync(broker.node_id))


def _is_caught_up(state: ControllerState, request: BrokerHeartbeatRequest) -> bool:
    return request.current_metadata_offset >= state.sessions.registered_offset(request.broker_id)
