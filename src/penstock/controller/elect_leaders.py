"""Elections of leaders: on request (ElectLeaders, KIP-460), and those that the controller makes by itself."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.controller.elections import Change, Election, change_partition
from penstock.controller.leadership import LeaderRules
from penstock.controller.outcome import Outcome
from penstock.controller.state import ControllerState
from penstock.metadata.errors import Refused, unknown_topic
from penstock.metadata.image import TopicImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1  # election types of the request

ELECTIONS_MAX = 1000
"""Of one periodic decision: others must not wait long."""


def elect_leaders(state: ControllerState, request: ElectLeadersRequest) -> Outcome[ElectLeadersResponse]:
    """Each partition has its own result. If the request names no partitions, all are meant, and those that already
    have the wanted leader are left out of the response."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}.")
    election = Election.PREFERRED if request.election_type == PREFERRED else Election.UNCLEAN
    rules = LeaderRules(state)
    records: list[object] = []
    results = []
    for name, indexes in _wanted(state, request):
        partitions = []
        for index in indexes:
            result = PartitionResult(partition_id=index)
            try:
                records.append(_elect(state, name, index, rules, election))
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
            is_needed = result.error_code is not ErrorCode.ELECTION_NOT_NEEDED
            if is_needed or request.topic_partitions is not None:
                partitions.append(result)
        results.append(ReplicaElectionResult(topic=name, partition_result=partitions))
    response = ElectLeadersResponse(replica_election_results=results)
    return Outcome(records, response, is_atomic=False)


def elect_preferred_leaders(state: ControllerState) -> Outcome[None]:
    """Give partitions back to their preferred leaders (`auto.leader.rebalance.enable`)."""
    rules = LeaderRules(state)
    records: list[object] = []
    if state.settings.get("auto.leader.rebalance.enable"):
        for node_id in state.index.preferred_leaders_not_leading():
            broker = state.image.brokers.get(node_id)
            if broker is None or not broker.is_active:
                continue
            for topic_id, index in state.index.led_by_others(node_id):
                topic = state.image.topics.with_id(topic_id)
                assert topic is not None, "the index follows the image"
                record = _change(topic, index, rules, Election.PREFERRED)
                if record is not None:
                    records.append(record)
                if len(records) >= ELECTIONS_MAX:
                    return Outcome(records, None, is_atomic=False, is_complete=False)
    return Outcome(records, None, is_atomic=False)


def elect_missing_leaders(state: ControllerState) -> Outcome[None]:
    """Elect leaders of partitions that have none: unclean ones, where the topic allows it.

    Most partitions without a leader got their chance when a broker was unfenced. The others had no chance because an
    earlier active controller failed in the middle of a change, because they were too many for one decision, or because
    unclean elections were allowed only later.

    Each decision examines a portion. A partition that nobody can lead costs no record.
    """
    if not state.leaderless:
        state.leaderless = state.index.without_leader()
    portion, state.leaderless = state.leaderless[:ELECTIONS_MAX], state.leaderless[ELECTIONS_MAX:]
    rules = LeaderRules(state)
    records: list[object] = []
    for topic_id, index in portion:
        topic = state.image.topics.with_id(topic_id)
        if topic is None or not rules.has_candidate(topic.partitions[index]):
            continue
        record = _change(topic, index, rules)
        if record is not None and record.leader >= 0:
            records.append(record)
    return Outcome(records, None, is_atomic=False, is_complete=not state.leaderless)


def _wanted(state: ControllerState, request: ElectLeadersRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topic_partitions is None:
        for topic in state.image.topics.by_name.values():
            yield topic.name, list(range(len(topic.partitions)))
    else:
        for wanted in request.topic_partitions:
            yield wanted.topic, wanted.partitions


def _elect(
    state: ControllerState, name: str, index: int, rules: LeaderRules, election: Election
) -> PartitionChangeRecord:
    topic = state.image.topics.get(name)
    if topic is None:
        raise unknown_topic(name)
    if not 0 <= index < len(topic.partitions):
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' has no partition {index}.")
    partition = topic.partitions[index]
    is_preferred = election is Election.PREFERRED
    if partition.leader == partition.replicas[0] if is_preferred else partition.has_leader:
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED)
    record = _change(topic, index, rules, election)
    if record is None:
        raise Refused(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if is_preferred
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
    return record


def _change(
    topic: TopicImage, index: int, rules: LeaderRules, election: Election | None = None
) -> PartitionChangeRecord | None:
    """`election` is by default the one that the topic allows."""
    partition = topic.partitions[index]
    electorate = rules.electorate(topic, partition, election=election)
    change = Change(default_directory=rules.default_directory)
    return change_partition(partition, topic.topic_id, index, change=change, electorate=electorate)
