"""CreateTopics, DeleteTopics, CreatePartitions, and the two ways to describe: Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.client.admin.operations import operations_of
from penstock.client.admin.outcome import Answers
from penstock.client.admin.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from penstock.client.admin.wire.configs import read_created_config
from penstock.client.admin.wire.reading import answer, check, id_text, known, setting_text
from penstock.client.errors import PenstockError
from penstock.protocol.apis import ApiKey
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from penstock.protocol.types import ZERO_UUID, parse_uuid, uuid_text

PAGED = ApiKey.DESCRIBE_TOPIC_PARTITIONS
BY_DEFAULT = -1


def create_request(
    topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics], timeout_ms=timeout_ms, validate_only=validate_only
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    # Where replicas are placed by hand, they say how many there are: the protocol refuses to hear it twice.
    by_hand = topic.replicas is not None
    return CreatableTopic(
        name=topic.name,
        num_partitions=BY_DEFAULT if by_hand or topic.partitions is None else topic.partitions,
        replication_factor=(
            BY_DEFAULT if by_hand or topic.replication_factor is None else topic.replication_factor
        ),
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(topic.replicas or ())
        ],
        configs=[
            CreatableTopicConfig(name=name, value=None if value is None else setting_text(value))
            for name, value in topic.config.items()
        ],
    )


def read_created(response: CreateTopicsResponse) -> Answers[str, CreatedTopic]:
    return {
        topic.name: answer(
            topic.error_code,
            topic.error_message,
            topic.name,
            CreatedTopic(
                name=topic.name,
                topic_id=id_text(topic.topic_id),
                partitions=known(topic.num_partitions),
                replication_factor=known(topic.replication_factor),
                config=read_created_config(topic.configs or ()),
            ),
        )
        for topic in response.topics
    }


def delete_request(*, names: Sequence[str], ids: Sequence[str], timeout_ms: int) -> DeleteTopicsRequest:
    """Fills the places of old and new versions; ids need a broker of Kafka 2.8 or later."""
    return DeleteTopicsRequest(
        topics=[
            *(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names),
            *(DeleteTopicState(name=None, topic_id=parse_uuid(text)) for text in ids),
        ],
        topic_names=list(names),
        timeout_ms=timeout_ms,
    )


def read_deleted(response: DeleteTopicsResponse, *, by_id: Collection[str]) -> Answers[str, None]:
    answers: dict[str, PenstockError | None] = {}
    for topic in response.responses:
        topic_id = uuid_text(topic.topic_id)
        name = topic_id if topic_id in by_id or topic.name is None else topic.name
        answers[name] = answer(topic.error_code, topic.error_message, name, None)
    return answers


def list_request() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def read_listed(response: MetadataResponse) -> list[TopicListing]:
    check(response.error_code)
    return sorted(
        (
            TopicListing(
                name=topic.name or "",
                topic_id=id_text(topic.topic_id),
                partitions=len(topic.partitions),
                is_internal=topic.is_internal,
            )
            for topic in response.topics
        ),
        key=lambda listing: listing.name,
    )


def metadata_request(names: Sequence[str], *, operations: bool) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
    )


def read_described(response: MetadataResponse) -> Answers[str, TopicDescription]:
    check(response.error_code)
    answers: dict[str, TopicDescription | PenstockError] = {}
    for topic in response.topics:
        partitions = sorted(map(_partition, topic.partitions), key=lambda partition: partition.index)
        name = topic.name or ""
        description = TopicDescription(
            name=name,
            topic_id=id_text(topic.topic_id),
            is_internal=topic.is_internal,
            partitions=tuple(partitions),
            authorized_operations=operations_of(topic.topic_authorized_operations),
        )
        answers[name] = answer(topic.error_code, None, name, description)
    return answers


def page_request(
    names: Sequence[str], partitions_max: int, cursor: Cursor | None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in sorted(names)],
        response_partition_limit=partitions_max,
        cursor=cursor,
    )


class PagedDescriptions:
    """Puts pages together. A topic may begin on one page and end on a later one."""

    def __init__(self) -> None:
        self.has_more = True
        self.cursor: Cursor | None = None
        self._topics: dict[str, DescribeTopicPartitionsResponseTopic] = {}

    def add(self, page: DescribeTopicPartitionsResponse) -> None:
        for topic in page.topics:
            begun = self._topics.setdefault(topic.name or "", topic)
            if begun is not topic:
                begun.partitions.extend(topic.partitions)
        # A cursor that does not move would be asked for without end.
        self.has_more = page.next_cursor is not None and page.next_cursor != self.cursor
        self.cursor = page.next_cursor

    def answers(self) -> Answers[str, TopicDescription]:
        return {
            name: answer(topic.error_code, None, name, self._description(name, topic))
            for name, topic in self._topics.items()
        }

    @staticmethod
    def _description(name: str, topic: DescribeTopicPartitionsResponseTopic) -> TopicDescription:
        partitions = {partition.partition_index: _partition(partition) for partition in topic.partitions}
        return TopicDescription(
            name=name,
            topic_id=id_text(topic.topic_id),
            is_internal=topic.is_internal,
            partitions=tuple(partitions[index] for index in sorted(partitions)),
            authorized_operations=operations_of(topic.topic_authorized_operations),
        )


def _partition(
    partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
) -> PartitionDescription:
    eligible: list[int] | None = getattr(partition, "eligible_leader_replicas", None)
    last_known: list[int] | None = getattr(partition, "last_known_elr", None)
    return PartitionDescription(
        index=partition.partition_index,
        leader=known(partition.leader_id),
        leader_epoch=known(partition.leader_epoch),
        replicas=tuple(partition.replica_nodes),
        in_sync=tuple(partition.isr_nodes),
        offline=tuple(partition.offline_replicas),
        eligible_leaders=None if eligible is None else tuple(eligible),
        last_known_eligible=None if last_known is None else tuple(last_known),
    )


def grow_request(
    totals: Mapping[str, NewPartitions], *, timeout_ms: int, validate_only: bool
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=wanted.total,
                assignments=(
                    None
                    if wanted.replicas is None
                    else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in wanted.replicas]
                ),
            )
            for name, wanted in totals.items()
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def read_grown(response: CreatePartitionsResponse) -> Answers[str, None]:
    return {
        topic.name: answer(topic.error_code, topic.error_message, topic.name, None)
        for topic in response.results
    }
