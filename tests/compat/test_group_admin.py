"""Python clients administer groups and their offsets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from compat.conftest import StartHost
from compat.groups import members
from compat.groups.members import Client, Group
from compat.groups.state import committed_offsets, end_offsets
from harness.admin import WAIT_SECONDS, admin, create_topic, new_name
from harness.brokers import Broker
from harness.load import Load
from harness.waiting import wait_until

PARTITIONS = (0, 1, 2)
PROGRAM = Path(__file__).parent / "programs" / "kafka_python_groups.py"


@pytest.fixture(scope="module")
def confluent(group_cluster: Broker) -> AdminClient:
    return admin(group_cluster.bootstrap)


@pytest.fixture(scope="module")
def classic(group_cluster: Broker, host_of: StartHost) -> Iterator[Group]:
    yield from _working(group_cluster, host_of, members.CONFLUENT_RANGE)


@pytest.fixture(scope="module")
def new(group_cluster: Broker, host_of: StartHost) -> Iterator[Group]:
    yield from _working(group_cluster, host_of, members.CONFLUENT_NEW)


def _working(cluster: Broker, host_of: StartHost, client: Client) -> Iterator[Group]:
    """A group of two members that have committed everything."""
    topic = create_topic(cluster.bootstrap, "administered", partitions=len(PARTITIONS))
    group = Group(cluster.bootstrap, new_name("administered"), topic, partition_count=len(PARTITIONS))
    with Load(group.bootstrap, topic) as load:
        for name in ("a", "b"):
            settings = {
                **client.settings,
                "group.instance.id": f"instance-{name}",
                "client.id": f"client-{name}",
            }
            group.join(host_of(client), name, settings)
        group.wait_until_shared_by("a", "b")
    group.wait_until_read(load.written)
    wait_until(lambda: committed_offsets(group) == end_offsets(group), "everything is committed")
    yield group
    group.leave_all()


def test_confluent_lists_groups_by_state_and_type(confluent: AdminClient, classic: Group, new: Group) -> None:
    def listed(**filters: object) -> set[str]:
        found = confluent.list_consumer_groups(**filters).result(WAIT_SECONDS)
        assert found.errors == []
        return {group.group_id for group in found.valid} & {classic.id, new.id}

    assert listed() == {classic.id, new.id}
    assert listed(states={ConsumerGroupState.STABLE}) == {classic.id, new.id}
    assert listed(states={ConsumerGroupState.EMPTY}) == set()
    assert listed(types={ConsumerGroupType.CLASSIC}) == {classic.id}
    assert listed(types={ConsumerGroupType.CONSUMER}) == {new.id}


@pytest.mark.parametrize(("kind", "assignor"), [("classic", "range"), ("new", "uniform")])
def test_confluent_describes_a_group(
    confluent: AdminClient, request: pytest.FixtureRequest, kind: str, assignor: str
) -> None:
    group: Group = request.getfixturevalue(kind)
    described = confluent.describe_consumer_groups([group.id])[group.id].result(WAIT_SECONDS)

    assert described.state == ConsumerGroupState.STABLE
    assert described.type == (ConsumerGroupType.CLASSIC if kind == "classic" else ConsumerGroupType.CONSUMER)
    assert described.partition_assignor == assignor
    assert not described.is_simple_consumer_group
    assert f"{described.coordinator.host}:{described.coordinator.port}" == group.bootstrap
    by_client = {member.client_id: member for member in described.members}
    assert by_client.keys() == {"client-a", "client-b"}
    for name, partitions in group.owned().items():
        member = by_client[f"client-{name}"]
        assert member.group_instance_id == f"instance-{name}"
        assert member.host.strip("/") == "127.0.0.1"
        assert {place.partition for place in member.assignment.topic_partitions} == partitions


def test_confluent_describes_an_unknown_group(confluent: AdminClient) -> None:
    """The version that it uses has no error for that: the group is dead."""
    described = confluent.describe_consumer_groups(["nobody"])["nobody"].result(WAIT_SECONDS)
    assert (described.state, described.members) == (ConsumerGroupState.DEAD, [])


def test_confluent_sets_lists_and_deletes_offsets(confluent: AdminClient, classic: Group) -> None:
    group = new_name("simple")
    places = [TopicPartition(classic.topic, number, number + 1) for number in PARTITIONS]

    altered = confluent.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
    assert [place.error for place in altered[group].result(WAIT_SECONDS).topic_partitions] == [None] * 3

    listed = confluent.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = listed[group].result(WAIT_SECONDS).topic_partitions
    assert {place.partition: place.offset for place in found} == {0: 1, 1: 2, 2: 3}
    described = confluent.describe_consumer_groups([group])[group].result(WAIT_SECONDS)
    assert described.is_simple_consumer_group
    assert described.state == ConsumerGroupState.EMPTY

    confluent.delete_consumer_groups([group])[group].result(WAIT_SECONDS)
    listed = confluent.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    assert listed[group].result(WAIT_SECONDS).topic_partitions == []


@pytest.mark.parametrize("kind", ["classic", "new"])
def test_confluent_cannot_harm_an_active_group(
    confluent: AdminClient, request: pytest.FixtureRequest, kind: str
) -> None:
    group: Group = request.getfixturevalue(kind)
    deleted = confluent.delete_consumer_groups([group.id])[group.id]
    with pytest.raises(KafkaException) as refused:
        deleted.result(WAIT_SECONDS)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP

    place = TopicPartition(group.topic, 0, 1)
    altered = confluent.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group.id, [place])])
    [answer] = altered[group.id].result(WAIT_SECONDS).topic_partitions
    assert answer.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    assert committed_offsets(group) == end_offsets(group)


async def test_aiokafka_lists_and_describes(classic: Group) -> None:
    client = AIOKafkaAdminClient(bootstrap_servers=classic.bootstrap)
    await client.start()
    try:
        assert (classic.id, "consumer") in {entry[:2] for entry in await client.list_consumer_groups()}
        [answer] = await client.describe_consumer_groups([classic.id])
        [described] = answer.to_object()["groups"]
        assert (described["state"], described["protocol_type"]) == ("Stable", "consumer")
        assert len(described["members"]) == 2
        offsets = await client.list_consumer_group_offsets(classic.id)
        ends = end_offsets(classic)
        assert {place.partition: found.offset for place, found in offsets.items()} == ends
        place = AioPartition(classic.topic, 1)
        assert (await client.list_consumer_group_offsets(classic.id, partitions=[place]))[
            place
        ].offset == ends[1]
    finally:
        await client.close()


def test_kafka_python_administers_groups(group_cluster: Broker, host_of: StartHost) -> None:
    for group in _working(group_cluster, host_of, members.CONFLUENT_RANGE):
        command = [sys.executable, str(PROGRAM), group.bootstrap, group.topic, group.id, new_name("altered")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["described"] == ["Stable", "range", 2]
        assert (found["stable"], found["classic"], found["empty"]) == (True, True, False)
        assert found["refused"] == ["NonEmptyGroupError"]
        assert found["altered"] == {"0": [1, "note"], "1": [2, "note"], "2": [3, "note"]}
        assert {number: offset for number, (offset, _) in found["reset"].items()} == {"0": 0, "1": 7, "2": 3}
        assert found["deleted"].keys() == {"0", "1"}
        assert group.id in found["both"]
        assert len(found["both"]) == 2
        assert (found["gone"], found["listed"]) == (["OK"], False)
        assert found["removed"] == ["NoError", "NoError"]
