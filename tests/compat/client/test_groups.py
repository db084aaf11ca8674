"""Groups of Penstock's consumers on any broker: patterns, new and growing topics, assignors, and errors."""

from __future__ import annotations

import re

import pytest

from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.waiting import wait_until
from penstock import Admin, Consumer, Producer, TopicPartition, errors
from penstock.assignors import Assignor, GroupSubscription

PROTOCOLS = ["classic", "consumer"]


def consumer_of(broker: Broker, protocol: str, **more: object) -> Consumer:
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": new_name("group"),
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "metadata.max.age.ms": 500,
        **({"heartbeat.interval.ms": 200} if protocol == "classic" else {}),
        **more,
    }
    return Consumer(settings=settings)


def poll_until_assigned(consumer: Consumer, *wanted: TopicPartition) -> None:
    wait_until(
        lambda: consumer.poll(timeout=0.05) is not None and consumer.assignment() == frozenset(wanted),
        f"{wanted} are assigned",
        seconds=30,
    )


def all_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(count)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_compiled_pattern_finds_existing_and_new_topics(group_cluster: Broker, protocol: str) -> None:
    stem = new_name("pattern")
    first = create_topic(group_cluster.bootstrap, f"{stem}-a", partitions=2)
    create_topic(group_cluster.bootstrap, f"not-{stem}", partitions=1)
    with consumer_of(group_cluster, protocol) as consumer:
        consumer.subscribe(re.compile(f"{stem}-.*"))
        poll_until_assigned(consumer, *all_of(first, 2))

        second = create_topic(group_cluster.bootstrap, f"{stem}-b", partitions=1)

        poll_until_assigned(consumer, *all_of(first, 2), *all_of(second, 1))


def test_the_coordinator_matches_a_pattern_given_as_text(group_cluster: Broker) -> None:
    stem = new_name("re2")
    topic = create_topic(group_cluster.bootstrap, f"{stem}-a", partitions=2)
    with consumer_of(group_cluster, "consumer") as consumer:
        consumer.subscribe(pattern=f"{stem}-[a-c].*")
        poll_until_assigned(consumer, *all_of(topic, 2))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_added_partitions_are_read(group_cluster: Broker, protocol: str) -> None:
    topic = create_topic(group_cluster.bootstrap, "growing", partitions=1)
    with consumer_of(group_cluster, protocol) as consumer, Admin(group_cluster.bootstrap) as admin:
        consumer.subscribe(topic)
        poll_until_assigned(consumer, *all_of(topic, 1))

        admin.create_partitions({topic: 3})

        poll_until_assigned(consumer, *all_of(topic, 3))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_created_after_the_subscription_is_read(
    group_cluster: Broker, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    known = create_topic(group_cluster.bootstrap, "known", partitions=1)
    name = new_name("to-come")
    with consumer_of(group_cluster, protocol) as consumer:
        consumer.subscribe([known, name])
        poll_until_assigned(consumer, *all_of(known, 1))
        while "waits for a topic that does not exist" not in caplog.text:
            consumer.poll(0.1)
        assert name in caplog.text

        with Admin(group_cluster.bootstrap) as admin:
            admin.create_topic(name, partitions=2, replication_factor=1)

        poll_until_assigned(consumer, *all_of(known, 1), *all_of(name, 2))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_deleted_topic_is_revoked(group_cluster: Broker, protocol: str) -> None:
    kept = create_topic(group_cluster.bootstrap, "kept", partitions=1)
    doomed = create_topic(group_cluster.bootstrap, "doomed", partitions=1)
    with consumer_of(group_cluster, protocol) as consumer:
        consumer.subscribe([kept, doomed])
        poll_until_assigned(consumer, *all_of(kept, 1), *all_of(doomed, 1))

        with Admin(group_cluster.bootstrap) as admin:
            admin.delete_topics([doomed])

        poll_until_assigned(consumer, *all_of(kept, 1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_subscription_replaces_the_first(group_cluster: Broker, protocol: str) -> None:
    first = create_topic(group_cluster.bootstrap, "first", partitions=2)
    second = create_topic(group_cluster.bootstrap, "second", partitions=2)
    strategy = {"partition.assignment.strategy": "cooperative-sticky"} if protocol == "classic" else {}
    with consumer_of(group_cluster, protocol, **strategy) as consumer:
        consumer.subscribe(first)
        poll_until_assigned(consumer, *all_of(first, 2))

        consumer.subscribe([second])

        poll_until_assigned(consumer, *all_of(second, 2))


class LastToFirst(Assignor):
    """In order, each member gets one partition from the last one on; the first member gets the rest."""

    name = "last-to-first"

    def assign(self, group: GroupSubscription) -> dict[str, list[TopicPartition]]:
        members = [member.member_id for member in group.in_order]
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        for topic in sorted(group.racks):
            for index in reversed(range(group.partitions(topic))):
                free = [member_id for member_id in reversed(members) if not given[member_id]]
                given[free[0] if free else members[0]].append(TopicPartition(topic, index))
        return given


def test_a_custom_assignor_decides(group_cluster: Broker) -> None:
    topic = create_topic(group_cluster.bootstrap, "own", partitions=3)
    group = new_name("group")
    options = {"partition.assignment.strategy": [LastToFirst()], "group.id": group}
    with (
        consumer_of(group_cluster, "classic", **options, **{"group.instance.id": "a"}) as one,
        consumer_of(group_cluster, "classic", **options, **{"group.instance.id": "b"}) as other,
    ):
        one.subscribe(topic)
        other.subscribe(topic)
        wait_until(
            lambda: (
                one.poll(timeout=0.02) is not None
                and other.poll(timeout=0.02) is not None
                and other.assignment() == {TopicPartition(topic, 2)}
                and len(one.assignment()) == 2
            ),
            "both have what the assignor gave them",
            seconds=30,
        )


def test_members_without_a_common_assignor_get_an_error(group_cluster: Broker) -> None:
    topic = create_topic(group_cluster.bootstrap, "apart", partitions=1)
    group = new_name("group")
    with (
        consumer_of(
            group_cluster, "classic", **{"group.id": group, "partition.assignment.strategy": "range"}
        ) as one,
        consumer_of(
            group_cluster, "classic", **{"group.id": group, "partition.assignment.strategy": "sticky"}
        ) as other,
    ):
        one.subscribe(topic)
        poll_until_assigned(one, *all_of(topic, 1))
        other.subscribe(topic)

        with pytest.raises(errors.InconsistentGroupProtocol, match=r"common partition\.assignment\.strategy"):
            wait_until(lambda: bool(other.poll(timeout=0.05)), "the other one is refused", seconds=30)


def test_an_assignor_that_brokers_do_not_have_is_rejected(group_cluster: Broker) -> None:
    topic = create_topic(group_cluster.bootstrap, "assignor", partitions=1)
    with consumer_of(group_cluster, "consumer", **{"group.remote.assignor": "by-moonlight"}) as consumer:
        consumer.subscribe(topic)

        with pytest.raises(errors.UnsupportedAssignor, match="by-moonlight"):
            wait_until(lambda: bool(consumer.poll(timeout=0.05)), "it is refused", seconds=30)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_with_a_group_and_manual_partitions_commits_without_a_member_id(
    group_cluster: Broker, protocol: str
) -> None:
    topic = create_topic(group_cluster.bootstrap, "simple", partitions=2)
    partition = TopicPartition(topic, 1)
    with Producer(group_cluster.bootstrap) as producer:
        producer.send(topic, b"one", partition=1)
    group = new_name("group")
    with consumer_of(group_cluster, protocol, **{"group.id": group}) as consumer:
        consumer.assign([partition])
        wait_until(lambda: bool(consumer.poll(timeout=0.05)), "it is read", seconds=30)
        consumer.commit()

        assert consumer.group_metadata() == (group, -1, "", None)
    with consumer_of(group_cluster, protocol, **{"group.id": group}) as consumer:
        found = consumer.committed([partition, TopicPartition(topic, 0)])
        assert found[partition] is not None
        assert found[partition].offset == 1
        assert found.get(TopicPartition(topic, 0)) is None
