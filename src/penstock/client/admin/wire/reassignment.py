"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.reassignment import ElectionType, Reassignment
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, value_or_error
from penstock.client.cluster import TopicPartition, by_topic
from penstock.client.errors import PenstockError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


def alter_request(
    replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int, allow_factor_change: bool
) -> AlterPartitionReassignmentsRequest:
    topics = []
    for topic, indexes in by_topic(replicas).items():
        partitions = []
        for index in indexes:
            brokers = replicas[TopicPartition(topic, index)]
            partitions.append(
                ReassignablePartition(
                    partition_index=index, replicas=None if brokers is None else list(brokers)
                )
            )
        topics.append(ReassignableTopic(name=topic, partitions=partitions))
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, allow_replication_factor_change=allow_factor_change, topics=topics
    )


def read_altered(response: AlterPartitionReassignmentsResponse) -> Results[TopicPartition, None]:
    check(response.error_code, response.error_message)
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): value_or_error(
            result.error_code, result.error_message, partition, None
        )
        for topic in response.responses
        for result in topic.partitions
    }


def list_request(
    partitions: Sequence[TopicPartition] | None, *, timeout_ms: int
) -> ListPartitionReassignmentsRequest:
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)


def read_listed(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, Reassignment]:
    check(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, result.partition_index): Reassignment(
            replicas=tuple(result.replicas),
            adding=tuple(result.adding_replicas),
            removing=tuple(result.removing_replicas),
        )
        for topic in response.topics
        for result in topic.partitions
    }


def elect_request(
    partitions: Sequence[TopicPartition] | None, election: ElectionType, *, timeout_ms: int
) -> ElectLeadersRequest:
    topics = None
    if partitions is not None:
        topics = [
            TopicPartitions(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(partitions).items()
        ]
    return ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=timeout_ms)


def read_elected(response: ElectLeadersResponse, *, was_asked: bool) -> Results[TopicPartition, None]:
    """If the caller named no partitions, those that needed no election are left out."""
    check(response.error_code)
    results: dict[TopicPartition, PenstockError | None] = {}
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            if not was_asked and result.error_code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            partition = TopicPartition(topic.topic, result.partition_id)
            results[partition] = value_or_error(result.error_code, result.error_message, partition, None)
    return results
