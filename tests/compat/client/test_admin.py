"""Admin on a real broker: the same results from Penstock and from Apache Kafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.waiting import wait_until
from harness.writing import write
from penstock import Admin, Consumer, Producer, TopicPartition, aio, errors
from penstock.admin import ClassicGroup, ConfigResource, ConsumerGroup, GroupState, GroupType, NewTopic

MISSING = "no-such-thing"


@pytest.fixture
def admin(cluster: Broker) -> Iterator[Admin]:
    before = set(threading.enumerate())
    with Admin(cluster.bootstrap) as admin:
        yield admin
    assert set(threading.enumerate()) <= before


@pytest.fixture
def topic(admin: Admin) -> str:
    name = new_name("admin")
    admin.create_topic(name, 2)
    return name


def test_topics_are_created_described_grown_and_deleted(admin: Admin) -> None:
    name = new_name("made")

    tried = admin.create_topic(name, 2, 1, {"retention.ms": 60_000}, validate_only=True)
    assert name not in [topic.name for topic in admin.list_topics()]
    made = admin.create_topic(name, 2, 1, {"retention.ms": 60_000})

    assert (tried.partitions, made.partitions, made.replication_factor) == (2, 2, 1)
    assert made.config["retention.ms"].value == "60000"
    described = admin.describe_topic(name, include_authorized_operations=True)
    assert described.topic_id == made.topic_id
    assert [partition.leader for partition in described.partitions] == [1, 1]
    assert described.authorized_operations
    admin.create_partitions({name: 3})
    # Kafka's brokers apply the controller's decision a moment after its response.
    wait_until(lambda: len(admin.describe_topic(name).partitions) == 3, "the partition exists")
    assert name in [topic.name for topic in admin.list_topics()]
    admin.delete_topics(ids=[made.topic_id or ""])
    wait_until(lambda: name not in [topic.name for topic in admin.list_topics()], "the topic is deleted")


def test_failures_are_reported_per_topic(admin: Admin, topic: str) -> None:
    new = new_name("made")

    with pytest.raises(errors.ItemsFailed) as failed:
        admin.create_topics([topic, NewTopic(name=new), NewTopic(name="not a name")])

    assert {name: type(error) for name, error in failed.value.failures.items()} == {
        topic: errors.TopicAlreadyExists,
        "not a name": errors.InvalidTopic,
    }
    assert list(failed.value.results) == [new]
    with pytest.raises(errors.UnknownTopicOrPartition, match=MISSING):
        admin.describe_topic(MISSING)
    with pytest.raises(errors.UnknownTopicOrPartition, match=MISSING):
        admin.delete_topic(MISSING)
    with pytest.raises(errors.InvalidReplicationFactor):
        admin.create_topic(new_name("made"), 1, 9)


def test_settings_are_described_and_altered(admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)

    admin.alter_config(resource, {"retention.ms": 60_000}, append={"cleanup.policy": "compact"})
    wait_until(lambda: not admin.describe_config(resource)["retention.ms"].is_default, "it is set")
    described = admin.describe_config(resource, names=["retention.ms", "cleanup.policy"], synonyms=True)
    admin.alter_config(resource, unset=["retention.ms", "cleanup.policy"])

    assert (described["retention.ms"].value, described["retention.ms"].source.name) == ("60000", "TOPIC")
    assert described["cleanup.policy"].value == "delete,compact"
    assert described["retention.ms"].synonyms
    wait_until(lambda: admin.describe_config(resource)["retention.ms"].is_default, "it is as before")
    brokers = admin.describe_configs(
        [ConfigResource.broker(1), ConfigResource.all_brokers()], documentation=True
    )
    assert brokers[ConfigResource.broker(1)]["node.id"].value == "1"
    assert brokers[ConfigResource.broker(1)]["node.id"].documentation
    assert resource in admin.list_config_resources()
    with pytest.raises(errors.InvalidConfig):
        admin.alter_config(resource, {"retention.ms": "never"})
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.describe_config(ConfigResource.topic(MISSING))


def test_offsets_are_listed_by_position_and_time_and_records_deleted(
    admin: Admin, cluster: Broker, topic: str
) -> None:
    write(cluster.bootstrap, topic, ["a", "b", "c"], partition=0)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    assert {each: listed.offset for each, listed in admin.topic_offsets([topic]).items()} == {
        first: 3,
        second: 0,
    }
    assert admin.list_offsets({first: 0})[first].offset == 0
    assert admin.list_offsets({first: "max-timestamp"})[first].timestamp_ms
    assert admin.list_offsets({second: 0})[second].offset == -1
    assert admin.delete_records({first: 2}) == {first: 2}
    assert admin.list_offsets({first: "earliest"})[first].offset == 2
    with pytest.raises(errors.ItemsFailed) as failed:
        admin.delete_records({first: 99, second: 0})
    assert isinstance(failed.value.failures[first], errors.OffsetOutOfRange)
    with pytest.raises(errors.ItemsFailed) as unknown:
        admin.list_offsets({TopicPartition(MISSING, 0): "latest", first: "latest"})
    assert list(unknown.value.failures) == [TopicPartition(MISSING, 0)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_described_with_its_members_and_lag(
    admin: Admin, cluster: Broker, topic: str, protocol: str
) -> None:
    write(cluster.bootstrap, topic, ["a", "b", "c"], partition=0)
    group = new_name("group")
    first = TopicPartition(topic, 0)
    with Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap,
        group=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        taken: list[object] = []
        wait_until(lambda: bool(taken.extend(consumer.poll(0.1)) or len(taken) == 3), "all was read")
        consumer.commit()
        write(cluster.bootstrap, topic, ["d"], partition=0)

        described = admin.describe_group(group)
        assert isinstance(described, ClassicGroup if protocol == "classic" else ConsumerGroup)
        assert described.state is GroupState.STABLE
        (member,) = described.members
        assert member.assignment == {first, TopicPartition(topic, 1)}
        lag = {each.partition: each for each in admin.group_lag(group)}
        assert (lag[first].committed_offset, lag[first].end_offset, lag[first].lag) == (3, 4, 1)
        assert (lag[first].member, lag[first].lag_ms) == (member, None)
        timed = {each.partition: each.lag_ms for each in admin.group_lag(group, with_time=True)}
        assert timed[first] is not None
        assert 0 <= timed[first] < 60_000
        with pytest.raises(errors.NonEmptyGroup, match=group):
            admin.delete_group(group)

    kind = GroupType.CLASSIC if protocol == "classic" else GroupType.CONSUMER
    listed = {each.group_id: each for each in admin.list_groups(types=[kind])}
    assert listed[group].type is kind
    wait_until(lambda: admin.describe_group(group).state is GroupState.EMPTY, "the member left")
    admin.alter_group_offsets(group, {first: 1})
    offset = admin.list_group_offsets(group)[first]
    assert offset is not None
    assert offset.offset == 1
    admin.delete_group_offsets(group, [first])
    assert admin.list_group_offsets(group, [first]) == {first: None}
    admin.delete_group(group)
    with pytest.raises(errors.GroupIdNotFound, match=group):
        admin.describe_group(group)


def test_members_are_removed_by_an_operator(admin: Admin, cluster: Broker, topic: str) -> None:
    group = new_name("group")
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap, group=group, group_instance_id="worker-1"
    ) as consumer:
        wait_until(lambda: consumer.poll(0.05) is not None and bool(consumer.assignment()), "it has joined")

        removed = admin.remove_members(group, instance_ids=["worker-1"])

        assert removed == {"worker-1": None}
        assert admin.describe_group(group).members == ()


def test_transactions_and_their_producers_are_described_and_terminated(
    admin: Admin, cluster: Broker, topic: str
) -> None:
    name = new_name("transactional")
    where = TopicPartition(topic, 0)
    with Producer(cluster.bootstrap, transactional_id=name) as producer:
        with producer.transaction():
            producer.send(topic, b"x", partition=0).result(60)

            open_one = admin.describe_transaction(name)
            assert (open_one.state.name, open_one.partitions) == ("ONGOING", {where})
            (state,) = admin.describe_producers([where])[where]
            assert (state.producer_id, state.transaction_start_offset) == (open_one.producer_id, 0)
            assert name in [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
        assert admin.describe_transaction(name).state.name in ("COMPLETE_COMMIT", "PREPARE_COMMIT")

        fenced = admin.fence_producer(name)
        assert fenced.producer_epoch > open_one.producer_epoch or fenced.producer_id != open_one.producer_id
    with pytest.raises(errors.TransactionalIdNotFound, match=MISSING):
        admin.describe_transaction(MISSING)


def test_the_cluster_its_quorum_features_and_directories_are_described(
    admin: Admin, cluster: Broker, topic: str
) -> None:
    described = admin.describe_cluster(include_fenced=True)
    assert [(broker.id, broker.port) for broker in described.brokers] == [(1, cluster.port)]
    assert described.controller == 1
    assert any(each.name == "Fetch" for each in admin.api_versions()[1])
    quorum = admin.describe_quorum()
    assert (quorum.leader, [voter.id for voter in quorum.voters]) == (1, [1])
    features = admin.describe_features().features
    level = features["metadata.version"].level
    assert admin.update_features({"metadata.version": level}, validate_only=True) == {
        "metadata.version": None
    }
    with pytest.raises(errors.ItemsFailed):
        admin.update_features({"metadata.version": 999})
    (directory,) = admin.describe_log_dirs(topics=[topic])[1]
    assert directory.path == str(cluster.log_directories[0])
    assert [each.partition for each in directory.replicas] == [(topic, 0), (topic, 1)]
    with pytest.raises(errors.ItemsFailed):
        admin.alter_replica_log_dirs({(topic, 0, 1): "/no/such/directory"})


async def test_the_asyncio_admin_does_the_same(cluster: Broker) -> None:
    name = new_name("async")
    async with aio.Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        await admin.create_topic(name)
        assert (await admin.describe_topic(name)).name == name
        with pytest.raises(errors.TopicAlreadyExists):
            await admin.create_topic(name)
        await admin.delete_topic(name)


def test_an_unreachable_broker_is_reported_within_the_timeout() -> None:
    with (
        Admin("127.0.0.1:1", default_api_timeout_ms=1_000, request_timeout_ms=500) as admin,
        pytest.raises(errors.NoBrokersAvailable, match=r"127\.0\.0\.1:1"),
    ):
        admin.list_topics()
