"""Groups of old clients that are still in use, with protocol versions that are ten years old.

Apache Kafka 4.0 dropped them, so against Kafka use an older one: `--broker=kafka --kafka-libs=<jars of 3.9>`.
"""

from __future__ import annotations

import pytest

from compat.conftest import StartHost
from compat.groups.members import Client, Group, old_java, old_kafka_python
from compat.groups.state import finish
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.load import Load

PARTITION_COUNT = 6
SERVED_BY_KAFKA_4 = [old_java("3.9.2")]
CLIENTS = [
    *SERVED_BY_KAFKA_4,
    old_java("2.0.1"),
    old_kafka_python(0, 9),
    old_kafka_python(0, 10, 1),
    old_kafka_python(0, 11, 0),
    old_kafka_python(1, 0, 0),
]


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_old_members_join_and_leave_under_load(
    group_cluster: Broker, host_of: StartHost, client: Client, request: pytest.FixtureRequest
) -> None:
    is_kafka_4 = group_cluster.name == "kafka" and request.config.getoption("--kafka-libs") is None
    if is_kafka_4 and client not in SERVED_BY_KAFKA_4:
        pytest.skip("Apache Kafka 4 does not serve clients before 2.1")
    topic = create_topic(group_cluster.bootstrap, "old-members", partitions=PARTITION_COUNT)
    group = Group(group_cluster.bootstrap, new_name("old-group"), topic, partition_count=PARTITION_COUNT)
    host = host_of(client)
    with Load(group.bootstrap, group.topic) as load:
        group.join(host, "a", client.settings)
        group.wait_until_shared_by("a")
        group.join(host, "b", client.settings)
        group.join(host, "c", client.settings)
        group.wait_until_shared_by("a", "b", "c")
        group.leave("a")
        group.wait_until_shared_by("b", "c")
    finish(group, load.written, is_exactly_once=client.is_exactly_once)
