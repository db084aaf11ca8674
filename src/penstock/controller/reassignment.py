"""Reassignments: move partitions to other brokers, change their replication factor, cancel (KIP-455, KIP-860).

A reassignment first adds the new replicas: the replica list is the target, then the replicas that will be removed. When
all new replicas are in the ISR, the old ones are removed (`elections`). So the number of replicas never goes below the
smaller of the two sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from penstock.controller.elections import Change, change_partition
from penstock.controller.leadership import LeaderRules
from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.controller.partitions import check_assignment
from penstock.controller.state import ControllerState
from penstock.metadata.errors import Refused, unknown_topic
from penstock.metadata.image import PartitionImage, TopicImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest
) -> Outcome[AlterPartitionReassignmentsResponse]:
    """Each partition is reassigned or refused on its own."""
    rules = LeaderRules(state)
    allows_new_factor = request.allow_replication_factor_change
    records: list[object] = []
    responses = []
    counts = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    for wanted_topic in request.topics:
        results = []
        for wanted in wanted_topic.partitions:
            result = ReassignablePartitionResponse(partition_index=wanted.partition_index)
            try:
                if counts[wanted_topic.name, wanted.partition_index] > 1:
                    raise Refused(
                        ErrorCode.INVALID_REQUEST,
                        f"The request names partition {wanted.partition_index} of topic '{wanted_topic.name}' more "
                        "than once.",
                    )
                topic = _find(state, wanted_topic.name, wanted.partition_index)
                record = _reassign(state, topic, wanted, rules, allows_new_factor=allows_new_factor)
                if len(records) >= RECORDS_MAX:
                    raise Refused(
                        ErrorCode.POLICY_VIOLATION,
                        f"One request may reassign at most {RECORDS_MAX} partitions; split it.",
                    )
                if record is not None:
                    records.append(record)
            except Refused as refused:
                result.error_code, result.error_message = refused.error, refused.message
            results.append(result)
        responses.append(ReassignableTopicResponse(name=wanted_topic.name, partitions=results))
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allows_new_factor, responses=responses
    )
    return Outcome(records, response)


def list_partition_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The ongoing reassignments of the named partitions, or of all. Unknown partitions are left out."""
    found: dict[str, list[OngoingPartitionReassignment]] = {}
    for topic, index in _listed(state, request):
        partition = topic.partitions[index]
        if partition.adding_replicas or partition.removing_replicas:
            found.setdefault(topic.name, []).append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding_replicas),
                    removing_replicas=list(partition.removing_replicas),
                )
            )
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(name=name, partitions=partitions) for name, partitions in found.items()
        ]
    )


def reassign(
    topic: TopicImage, index: int, target: Sequence[int], rules: LeaderRules
) -> PartitionChangeRecord | None:
    """Start a reassignment to the target replicas. If nothing has to be copied, it completes at once."""
    partition = topic.partitions[index]
    removing = sorted(set(partition.replicas) - set(target))
    adding = sorted(
        node_id
        for node_id in target
        if node_id not in partition.replicas or node_id in partition.adding_replicas
    )
    change = Change(
        replicas=[*target, *removing],
        adding=adding,
        removing=removing,
        default_directory=rules.default_directory,
    )
    return change_partition(
        partition,
        topic.topic_id,
        index,
        change=change,
        electorate=rules.electorate(topic, partition),
    )


def _find(state: ControllerState, name: str, index: int) -> TopicImage:
    topic = state.image.topics.get(name)
    if topic is None:
        raise unknown_topic(name)
    if not 0 <= index < len(topic.partitions):
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' has no partition {index}.")
    return topic


def _reassign(
    state: ControllerState,
    topic: TopicImage,
    wanted: ReassignablePartition,
    rules: LeaderRules,
    *,
    allows_new_factor: bool,
) -> PartitionChangeRecord | None:
    index = wanted.partition_index
    if wanted.replicas is None:
        return _cancel(topic, index, rules)
    check_assignment(state.image, wanted.replicas, replication_factor=None)
    if not allows_new_factor:
        _check_same_factor(topic.partitions[index], wanted.replicas)
    return reassign(topic, index, wanted.replicas, rules)


def _cancel(topic: TopicImage, index: int, rules: LeaderRules) -> PartitionChangeRecord | None:
    """Remove the replicas that were being added, and keep those that were being removed."""
    partition = topic.partitions[index]
    if not partition.adding_replicas and not partition.removing_replicas:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = [node_id for node_id in partition.replicas if node_id not in partition.adding_replicas]
    isr = [node_id for node_id in partition.isr if node_id not in partition.adding_replicas]
    if not isr:
        if not rules.allows_unclean_election(topic):
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The reassignment of partition {index} of topic '{topic.name}' cannot be cancelled: only the new "
                "replicas are in sync, and unclean.leader.election.enable is false.",
            )
        # With eligible leader replicas the ISR may be empty, and the election takes a replica that is alive.
        isr = [] if rules.has_eligible_leaders else replicas[:1]
    return change_partition(
        partition,
        topic.topic_id,
        index,
        change=Change(
            isr=isr,
            replicas=replicas,
            adding=(),
            removing=(),
            default_directory=rules.default_directory,
        ),
        electorate=rules.electorate(topic, partition),
    )


def _check_same_factor(partition: PartitionImage, target: Sequence[int]) -> None:
    current = partition.replication_factor
    if current != len(target):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The reassignment changes the replication factor from {current} to {len(target)}, which the request does "
            "not allow.",
        )


def _listed(
    state: ControllerState, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[TopicImage, int]]:
    topics = state.image.topics
    if request.topics is None:
        for topic_id, index in state.index.reassigning():
            topic = topics.with_id(topic_id)
            if topic is not None:
                yield topic, index
        return
    for wanted in request.topics:
        topic = topics.get(wanted.name)
        for index in wanted.partition_indexes:
            if topic is not None and 0 <= index < len(topic.partitions):
                yield topic, index
