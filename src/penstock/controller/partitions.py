"""New partitions: of a new topic, or added to an existing one (CreatePartitions)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence

from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.controller.placement import default_directory, place_replicas
from penstock.metadata.errors import Refused, unknown_topic
from penstock.metadata.image import MetadataImage, TopicImage
from penstock.metadata.records import PartitionRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from penstock.protocol.types import Uuid


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    *,
    rng: random.Random,
    drained: Collection[int] = (),
) -> Outcome[CreatePartitionsResponse]:
    """`drained` brokers get new partitions only if there are too few others."""
    check_request_size(len(request.topics))
    records: list[object] = []
    results = []
    counts = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if counts[topic.name] > 1:
                raise Refused(
                    ErrorCode.INVALID_REQUEST, f"The request names the topic '{topic.name}' more than once."
                )
            added = _grow_topic(image, topic, rng, drained)
            if len(records) + len(added) > RECORDS_MAX:
                raise too_many_partitions()
            records += added
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
    return Outcome([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _grow_topic(
    image: MetadataImage, wanted: CreatePartitionsTopic, rng: random.Random, drained: Collection[int]
) -> list[PartitionRecord]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise unknown_topic(wanted.name)
    additional = _additional_count(topic, wanted)
    # All partitions of a topic have the replication factor of its first one.
    replication_factor = topic.partitions[0].replication_factor
    if wanted.assignments is None:
        placements = place_replicas(
            image.brokers,
            partition_count=additional,
            replication_factor=replication_factor,
            rng=rng,
            drained=drained,
        )
    else:
        placements = [tuple(assignment.broker_ids) for assignment in wanted.assignments]
        for replicas in placements:
            check_assignment(image, replicas, replication_factor=replication_factor)
    first = len(topic.partitions)
    return [
        new_partition(image, topic.topic_id, first + index, replicas)
        for index, replicas in enumerate(placements)
    ]


def _additional_count(topic: TopicImage, wanted: CreatePartitionsTopic) -> int:
    current = len(topic.partitions)
    if wanted.count == current:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS, f"The topic '{topic.name}' already has {current} partition(s)."
        )
    if wanted.count < current:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic '{topic.name}' has {current} partition(s); the number of partitions can only be "
            f"increased, not reduced to {wanted.count}.",
        )
    additional = wanted.count - current
    if additional > RECORDS_MAX:
        raise too_many_partitions()
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The request adds {additional} partition(s) to the topic '{topic.name}', but has replica assignments for "
            f"{len(wanted.assignments)}.",
        )
    return additional


def check_assignment(
    image: MetadataImage, replicas: Sequence[int], *, replication_factor: int | None
) -> None:
    """Refuse an invalid assignment of a client. `replication_factor` is that of the other partitions of the topic."""
    if not replicas:
        raise _bad_assignment("has no replicas for a partition")
    for position, node_id in enumerate(replicas):
        if node_id not in image.brokers:
            raise _bad_assignment(f"names broker {node_id}, which is not registered")
        if node_id in replicas[:position]:
            raise _bad_assignment(f"names broker {node_id} twice")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _bad_assignment(
            f"has a replication factor of {len(replicas)} for one partition and of {replication_factor} for others"
        )


def new_partition(
    image: MetadataImage, topic_id: Uuid, index: int, replicas: Sequence[int]
) -> PartitionRecord:
    """A new, empty partition: every active replica is in sync, and the first one leads."""
    brokers = [image.brokers[node_id] for node_id in replicas]
    isr = [broker.node_id for broker in brokers if broker.is_active]
    if not isr:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partition {index} would have no leader: all brokers in its replica assignment are fenced.",
        )
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        removing_replicas=[],
        adding_replicas=[],
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[default_directory(broker) for broker in brokers],
    )


def check_request_size(item_count: int) -> None:
    """Refuse a request that is so large that checking it would delay other requests."""
    if item_count > RECORDS_MAX:
        raise Refused(
            ErrorCode.POLICY_VIOLATION, f"One request may name at most {RECORDS_MAX} topics; split it."
        )


def too_many_partitions() -> Refused:
    return Refused(
        ErrorCode.POLICY_VIOLATION,
        f"One request may create at most {RECORDS_MAX} partitions and topics in all; split it.",
    )


def _bad_assignment(what: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The replica assignment {what}.")
