"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.client.admin.results import Results
from penstock.client.admin.topics import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
)
from penstock.client.admin.wire.common import id_text, known, setting_text, value_or_error
from penstock.client.admin.wire.configs import read_created_config
from penstock.client.errors import PenstockError
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
from penstock.protocol.types import ZERO_UUID, parse_uuid, uuid_text

BY_DEFAULT = -1


def create_request(
    topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics], timeout_ms=timeout_ms, validate_only=validate_only
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    # Given replicas imply the counts: the protocol rejects a request that has both.
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


def read_created(response: CreateTopicsResponse) -> Results[str, CreatedTopic]:
    return {
        topic.name: value_or_error(
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
    """Fills the fields of old and new versions; ids need a broker of Kafka 2.8 or later."""
    return DeleteTopicsRequest(
        topics=[
            *(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names),
            *(DeleteTopicState(name=None, topic_id=parse_uuid(text)) for text in ids),
        ],
        topic_names=list(names),
        timeout_ms=timeout_ms,
    )


def read_deleted(response: DeleteTopicsResponse, *, by_id: Collection[str]) -> Results[str, None]:
    results: dict[str, PenstockError | None] = {}
    for topic in response.responses:
        topic_id = uuid_text(topic.topic_id)
        name = topic_id if topic_id in by_id or topic.name is None else topic.name
        results[name] = value_or_error(topic.error_code, topic.error_message, name, None)
    return results


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


def read_grown(response: CreatePartitionsResponse) -> Results[str, None]:
    return {
        topic.name: value_or_error(topic.error_code, topic.error_message, topic.name, None)
        for topic in response.results
    }
