"""Command-line programs that consume in a group: Kafka's console and performance consumers, and kcat."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from compat.clients.java import JavaTools
from compat.clients.kcat import run_kcat
from compat.groups.members import Group
from compat.groups.state import committed_offsets, end_offsets, group_type
from harness.admin import create_topic, new_name
from harness.brokers import Broker

TOOLS = "org.apache.kafka.tools."
CONSOLE = TOOLS + "consumer.ConsoleConsumer"
PARTITION_COUNT = 3
RECORD_COUNT = 600
VALUES = [f"value-{number}" for number in range(RECORD_COUNT)]


@pytest.fixture
def group(group_cluster: Broker) -> Group:
    """A group and its topic, which contains VALUES."""
    topic = create_topic(group_cluster.bootstrap, "tooled", partitions=PARTITION_COUNT)
    producer = Producer({"bootstrap.servers": group_cluster.bootstrap})
    for number, value in enumerate(VALUES):
        producer.produce(topic, value, partition=number % PARTITION_COUNT)
    assert producer.flush(30) == 0
    return Group(group_cluster.bootstrap, new_name("tooled"), topic, partition_count=PARTITION_COUNT)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_continues_where_its_group_stopped(
    group: Group, java_tools: JavaTools, protocol: str
) -> None:
    def consume(count: int) -> list[str]:
        arguments = ["--bootstrap-server", group.bootstrap, "--topic", group.topic, "--group", group.id]
        arguments += ["--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000"]
        return java_tools.run(CONSOLE, *arguments, "--command-property", f"group.protocol={protocol}").split()

    first = consume(RECORD_COUNT // 2)
    assert group_type(group) == protocol.upper()
    second = consume(RECORD_COUNT // 2)

    assert sorted(first + second) == sorted(VALUES)
    assert committed_offsets(group) == end_offsets(group)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_performance(group: Group, java_tools: JavaTools, protocol: str) -> None:
    arguments = ["--bootstrap-server", group.bootstrap, "--topic", group.topic, "--group", group.id]
    arguments += ["--num-records", str(RECORD_COUNT), "--command-property", f"group.protocol={protocol}"]

    output = java_tools.run(TOOLS + "ConsumerPerformance", *arguments)

    names, values = (line.split(", ") for line in output.splitlines()[-2:])
    assert dict(zip(names, values, strict=True))["data.consumed.in.nMsg"] == str(RECORD_COUNT)


def test_kcat_shares_a_topic_with_its_group(group: Group) -> None:
    settings = ["-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=200"]

    found = run_kcat(group.bootstrap, "-G", group.id, "-e", "-q", *settings, group.topic).decode().split()

    assert sorted(found) == sorted(VALUES)
    assert committed_offsets(group) == end_offsets(group)
    assert run_kcat(group.bootstrap, "-G", group.id, "-e", "-q", *settings, group.topic) == b""
