"""Members of every common client join and leave groups under constant load.

Every record is delivered, each partition has one owner at a time, and in the end everything delivered is committed.
"""

from __future__ import annotations

import pytest

from compat.conftest import StartHost
from compat.groups import members
from compat.groups.members import Client, Group, Host
from compat.groups.state import finish
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.load import Load

PARTITION_COUNT = 6
CLIENTS = [
    members.CONFLUENT_RANGE,
    members.CONFLUENT_COOPERATIVE,
    members.CONFLUENT_NEW,
    members.CONFLUENT_NEW_RANGE,
    members.AIOKAFKA,
    members.KAFKA_PYTHON,
    members.KAFKA_PYTHON_COOPERATIVE,
    members.JAVA_RANGE,
    members.JAVA_COOPERATIVE,
    members.JAVA_NEW,
    members.KAFKAJS,
    members.FRANZ_RANGE,
    members.FRANZ_COOPERATIVE,
    members.PENSTOCK_RANGE,
    members.PENSTOCK_STICKY,
    members.PENSTOCK_COOPERATIVE,
    members.PENSTOCK_NEW,
]


@pytest.fixture
def group(group_cluster: Broker) -> Group:
    topic = create_topic(group_cluster.bootstrap, "members", partitions=PARTITION_COUNT)
    return Group(group_cluster.bootstrap, new_name("group"), topic, partition_count=PARTITION_COUNT)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_three_members_join_and_leave_under_load(group: Group, host_of: StartHost, client: Client) -> None:
    host = host_of(client)
    with Load(group.bootstrap, group.topic) as load:
        group.join(host, "a", client.settings)
        group.wait_until_shared_by("a")
        group.join(host, "b", client.settings)
        group.join(host, "c", client.settings)
        group.wait_until_shared_by("a", "b", "c")
        group.leave("a")
        group.wait_until_shared_by("b", "c")
        group.join(host, "d", client.settings)
        group.wait_until_shared_by("b", "c", "d")
    finish(group, load.written, is_exactly_once=client.is_exactly_once)


def test_four_clients_in_one_cooperative_group(group: Group, host_of: StartHost) -> None:
    """The leader understands the owned partitions that each of them reports."""
    clients = {
        "confluent": members.CONFLUENT_COOPERATIVE,
        "java": members.JAVA_COOPERATIVE,
        "franz-go": members.FRANZ_COOPERATIVE,
        "penstock": members.PENSTOCK_COOPERATIVE,
    }
    with Load(group.bootstrap, group.topic) as load:
        for name, client in clients.items():
            group.join(host_of(client), name, client.settings)
        group.wait_until_shared_by(*clients)
        group.leave("java")
        group.wait_until_shared_by("confluent", "franz-go", "penstock")
        group.leave("confluent", "franz-go")
        group.wait_until_shared_by("penstock")
    finish(group, load.written, is_exactly_once=True)


def test_six_clients_in_one_group(group: Group, host_of: StartHost) -> None:
    """They agree on `range`, and the leader can read every subscription."""
    clients = {
        "confluent": members.CONFLUENT_RANGE,
        "aiokafka": members.AIOKAFKA_RANGE,
        "kafka-python": members.KAFKA_PYTHON,
        "java": members.JAVA_RANGE,
        "franz-go": members.FRANZ_RANGE,
        "penstock": members.PENSTOCK_RANGE,
    }
    with Load(group.bootstrap, group.topic) as load:
        for name, client in clients.items():
            group.join(host_of(client), name, client.settings)
        group.wait_until_shared_by(*clients)
        group.leave("confluent", "java")
        group.wait_until_shared_by("aiokafka", "kafka-python", "franz-go", "penstock")
    finish(group, load.written, is_exactly_once=True)


@pytest.mark.parametrize(
    "client",
    [
        members.CONFLUENT_COOPERATIVE,
        members.CONFLUENT_NEW,
        members.JAVA_RANGE,
        members.JAVA_NEW,
        members.FRANZ_RANGE,
        members.PENSTOCK_RANGE,
        members.PENSTOCK_COOPERATIVE,
        members.PENSTOCK_NEW,
    ],
    ids=str,
)
def test_the_partitions_of_a_crashed_member_go_to_the_others(
    group: Group, host_of: StartHost, client: Client
) -> None:
    settings = dict(client.settings)
    if not client.is_new and client is not members.FRANZ_RANGE:
        settings["session.timeout.ms"] = "2000"
    doomed = Host(client.command())
    with Load(group.bootstrap, group.topic) as load:
        group.join(host_of(client), "a", settings)
        group.join(host_of(client), "b", settings)
        group.join(doomed, "crashing", settings)
        group.wait_until_shared_by("a", "b", "crashing")
        doomed.kill()
        group.wait_until_shared_by("a", "b")
    group.forget("crashing")
    # Another member reads again what the crashed one had not committed.
    finish(group, load.written, is_exactly_once=False)


@pytest.mark.parametrize(
    "client",
    [
        members.CONFLUENT_RANGE,
        members.CONFLUENT_NEW,
        members.JAVA_COOPERATIVE,
        members.JAVA_NEW,
        members.PENSTOCK_COOPERATIVE,
        members.PENSTOCK_NEW,
    ],
    ids=str,
)
def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(
    group: Group, host_of: StartHost, client: Client
) -> None:
    host = host_of(client)
    with Load(group.bootstrap, group.topic) as load:
        for name in ("a", "b", "c"):
            group.join(host, name, {**client.settings, "group.instance.id": f"instance-{name}"})
        group.wait_until_shared_by("a", "b", "c")
        before = group.owned()
        settled_at = len(group.history.events())
        group.leave("b")
        group.join(host, "b", {**client.settings, "group.instance.id": "instance-b"})
        group.wait_until_shared_by("a", "b", "c")
    group.wait_until_read(load.written)

    events = group.history.events()
    assert group.owned() == before
    disturbed = [
        event for event in events[settled_at:] if event.member != "b" and event.kind in ("revoked", "lost")
    ]
    assert disturbed == []
    finish(group, load.written, is_exactly_once=True)
