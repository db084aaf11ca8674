"""What a broker tells of a group: its type, what it committed, and where its topic ends."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from compat.groups.members import Group
from harness.admin import WAIT_SECONDS, admin
from harness.waiting import wait_until


def committed_offsets(group: Group) -> dict[int, int]:
    """By partition of the group's topic; -1 where nothing was committed."""
    partitions = [TopicPartition(group.topic, number) for number in range(group.partition_count)]
    client = admin(group.bootstrap)  # named: its futures die with it
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
        """Kafka says that a topic is made before its leader knows of it."""
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
    """CLASSIC or CONSUMER, as ListGroups tells."""
    client = admin(group.bootstrap)
    listed = client.list_consumer_groups().result(WAIT_SECONDS).valid
    [kind] = [found.type.name for found in listed if found.group_id == group.id]
    return str(kind)
