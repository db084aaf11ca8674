"""Creation and deletion of topics."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from penstock.config.broker import BrokerSettings
from penstock.config.describe import describe_topic
from penstock.config.topic import TopicSettings
from penstock.controller.configs import new_topic_settings
from penstock.controller.internal_topics import internal_topic
from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.controller.partitions import (
    check_assignment,
    check_request_size,
    new_partition,
    too_many_partitions,
)
from penstock.controller.placement import drained_brokers, place_replicas
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage, TopicImage
from penstock.metadata.names import METADATA_TOPIC, check_topic_name, unified_name
from penstock.metadata.records import RemoveTopicRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.types import ZERO_UUID, Uuid, random_uuid, uuid_text

DELETION_DISABLED_VERSION = 3  # of DeleteTopics: older versions do not have this error
DEFAULT = -1  # of partitions and replicas: the value of the broker settings


def create_topics(
    image: MetadataImage, request: CreateTopicsRequest, *, settings: BrokerSettings, rng: random.Random
) -> Outcome[CreateTopicsResponse]:
    """Each topic is created or refused on its own. All created topics are in one atomic change.

    Two new names that differ only in '.' and '_' are both created, as in Kafka: a new name is compared only with
    existing topics.
    """
    check_request_size(len(request.topics))
    records: list[object] = []
    results = []
    describer = _SettingsDescriber(settings)
    counts = Counter(topic.name for topic in request.topics)
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatableTopicResult(name=topic.name)
        try:
            if counts[topic.name] > 1:
                raise Refused(
                    ErrorCode.INVALID_REQUEST, f"The request names the topic '{topic.name}' more than once."
                )
            created = _create_topic(image, topic, settings, rng)
            if len(records) + len(created.records) > RECORDS_MAX:
                raise too_many_partitions()
            records += created.records
            result.topic_id = created.topic_id
            result.num_partitions = created.partition_count
            result.replication_factor = created.replication_factor
            result.configs = describer.describe(created.overrides)
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
    return Outcome([] if request.validate_only else records, CreateTopicsResponse(topics=results))


def automatic_topics(
    names: Sequence[str], settings: BrokerSettings, *, broker_count: int
) -> CreateTopicsRequest:
    """The request that creates missing topics: with the broker's defaults, or as the coordinators need them."""
    return CreateTopicsRequest(
        topics=[
            internal_topic(name, settings, broker_count=broker_count)
            or CreatableTopic(
                name=name, num_partitions=DEFAULT, replication_factor=DEFAULT, assignments=[], configs=[]
            )
            for name in names
        ]
    )


def delete_topics(
    image: MetadataImage, wanted: Sequence[DeleteTopicState], *, is_enabled: bool, version: int
) -> Outcome[DeleteTopicsResponse]:
    """Each topic is given by name or by id. A topic that is given twice is not deleted, because one of the two may be a
    mistake."""
    check_request_size(len(wanted))
    records: list[object] = []
    results = []
    mentions = Counter(_identify(image, each) for each in wanted)
    for each in {(each.name, each.topic_id): each for each in wanted}.values():
        result = DeletableTopicResult(name=each.name, topic_id=each.topic_id)
        try:
            if not is_enabled:
                raise _deletion_disabled(version)
            topic = _find_topic(image, each, is_repeated=mentions[_identify(image, each)] > 1)
            result.name, result.topic_id = topic.name, topic.topic_id
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        except Refused as refused:
            result.error_code, result.error_message = refused.error, refused.message
        results.append(result)
    return Outcome(records, DeleteTopicsResponse(responses=results))


class NewTopic(NamedTuple):
    topic_id: Uuid
    overrides: dict[str, str]
    partition_count: int
    replication_factor: int
    records: list[object]


def _create_topic(
    image: MetadataImage, topic: CreatableTopic, settings: BrokerSettings, rng: random.Random
) -> NewTopic:
    _check_new_name(image, topic.name)
    overrides = _overrides(topic)
    configs = new_topic_settings(topic.name, overrides, settings=settings)
    placements = _place(image, topic, settings, rng)
    topic_id = random_uuid(rng)
    partitions = [
        new_partition(image, topic_id, index, replicas) for index, replicas in enumerate(placements)
    ]
    return NewTopic(
        topic_id,
        overrides,
        partition_count=len(placements),
        replication_factor=len(placements[0]),
        # Settings come before the partitions, so that a log is opened with them.
        records=[TopicRecord(name=topic.name, topic_id=topic_id), *configs, *partitions],
    )


def _check_new_name(image: MetadataImage, name: str) -> None:
    if name == METADATA_TOPIC:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"The topic '{METADATA_TOPIC}' is internal and cannot be created by clients.",
        )
    check_topic_name(name)
    if name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    unified = unified_name(name)
    if unified is not None and unified in image.topics.by_unified_name:
        other = image.topics.by_unified_name[unified][0]
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with the existing topic '{other}': '.' and '_' are the same in metric names.",
        )


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Null value for topic setting(s): {', '.join(nulls)}")
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _place(
    image: MetadataImage, topic: CreatableTopic, settings: BrokerSettings, rng: random.Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition, assigned by the client or placed by the controller."""
    if topic.assignments:
        return _assigned_by_client(image, topic)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor must be 1 or more, or -1 for the broker's default.replication.factor.",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            "The number of partitions must be 1 or more, or -1 for the broker's num.partitions.",
        )
    partition_count = topic.num_partitions
    if partition_count == DEFAULT:
        partition_count = settings.get("num.partitions")
    replication_factor = topic.replication_factor
    if replication_factor == DEFAULT:
        replication_factor = settings.get("default.replication.factor")
    if partition_count > RECORDS_MAX:
        raise too_many_partitions()
    return place_replicas(
        image.brokers,
        partition_count=partition_count,
        replication_factor=replication_factor,
        rng=rng,
        drained=drained_brokers(settings),
    )


def _assigned_by_client(image: MetadataImage, topic: CreatableTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "With a replica assignment, the number of partitions and the replication factor must both be -1.",
        )
    if len(topic.assignments) > RECORDS_MAX:
        raise too_many_partitions()
    assigned: dict[int, tuple[int, ...]] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The replica assignment names partition {assignment.partition_index} more than once.",
            )
        replication_factor = len(next(iter(assigned.values()))) if assigned else None
        check_assignment(image, assignment.broker_ids, replication_factor=replication_factor)
        assigned[assignment.partition_index] = tuple(assignment.broker_ids)
    if sorted(assigned) != list(range(len(assigned))):
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The replica assignment must have consecutive partitions, starting at 0.",
        )
    return [assigned[index] for index in range(len(assigned))]


class _SettingsDescriber:
    """The settings of new topics for the response (KIP-525), cached because they are mostly the same in one request."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._described: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def describe(self, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
        key = frozenset(overrides.items())
        if key not in self._described:
            self._described[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in describe_topic(TopicSettings.resolve(self._settings, overrides))
            ]
        return self._described[key]


def _deletion_disabled(version: int) -> Refused:
    message = "Topic deletion is disabled: delete.topic.enable is false on this broker."
    if version < DELETION_DISABLED_VERSION:
        return Refused(ErrorCode.INVALID_REQUEST, message)
    return Refused(ErrorCode.TOPIC_DELETION_DISABLED, message)


def _identify(image: MetadataImage, wanted: DeleteTopicState) -> Uuid | str | None:
    """The id of an existing topic, otherwise the name or id in the request."""
    topic = None if wanted.name is None else image.topics.get(wanted.name)
    if topic is not None:
        return topic.topic_id
    return wanted.topic_id if wanted.name is None else wanted.name


def _find_topic(image: MetadataImage, wanted: DeleteTopicState, *, is_repeated: bool) -> TopicImage:
    if wanted.name is None and wanted.topic_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, "The request has neither a topic name nor a topic id.")
    if wanted.name is not None and wanted.topic_id != ZERO_UUID:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "The request has both a topic name and a topic id; only one of them is allowed.",
        )
    if is_repeated:
        raise Refused(ErrorCode.INVALID_REQUEST, "The request names the same topic more than once.")
    if wanted.name is None:
        topic = image.topics.with_id(wanted.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topics.get(wanted.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        described = f"with id {uuid_text(wanted.topic_id)}" if wanted.name is None else f"'{wanted.name}'"
        raise Refused(missing, f"The topic {described} does not exist.")
    return topic
