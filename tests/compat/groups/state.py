"""The state of a group on the broker: its type, its committed offsets, and the end of its topic."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from compat.groups.history import faults
from compat.groups.members import Group
from harness.admin import WAIT_SECONDS, admin
from harness.load import Offset
from harness.waiting import wait_until


def finish(group: Group, written: Mapping[Offset, int], *, is_exactly_once: bool) -> None:
    """All members read everything and leave. The group made no mistake and has committed everything."""
    group.wait_until_read(written)
    group.leave_all()
    assert faults(group.history.events(), written, is_exactly_once=is_exactly_once) == []
    check_committed(group)


def check_committed(group: Group) -> None:
    """The group has committed everything that is in its topic."""
    assert committed_offsets(group) == end_offsets(group)


def committed_offsets(group: Group) -> dict[int, int]:
    """By partition of the group's topic; -1 if nothing was committed."""
    partitions = [TopicPartition(group.topic, number) for number in range(group.partition_count)]
    client = admin(group.bootstrap)  # kept in a variable: its futures end with it
    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group.id, partitions)])
    answer = asked[group.id].result(WAIT_SECONDS)
    return {found.partition: max(found.offset, -1) for found in answer.topic_partitions}


def end_offsets(group: Group) -> dict[int, int]:
    return topic_ends(group.bootstrap, group.topic, group.partition_count)


def topic_ends(bootstrap: str, topic: str, partition_count: int) -> dict[int, int]:
    client = admin(bootstrap)
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partition_count)}
    ends: dict[int, int] = {}

    def is_led() -> bool:
        """Kafka reports a topic as created before its leader knows of it."""
        try:
            for partition, future in client.list_offsets(wanted).items():
                ends[partition.partition] = future.result(WAIT_SECONDS).offset
        except KafkaException as exc:
            if exc.args[0].code() == KafkaError.NOT_LEADER_FOR_PARTITION:
                return False
            raise
        return True

    wait_until(is_led, f"{topic} has a leader")
    return ends


def group_type(group: Group) -> str:
    """CLASSIC or CONSUMER, from ListGroups."""
    client = admin(group.bootstrap)
    listed = client.list_consumer_groups().result(WAIT_SECONDS).valid
    [kind] = [found.type.name for found in listed if found.group_id == group.id]
    return str(kind)
