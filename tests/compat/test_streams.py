"""Java Kafka Streams: WordCountDemo counts right with both protocols, while instances start and stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat.clients.java import JavaTools
from compat.streams.word_count import INPUT, OUTPUT, PARTITION_COUNT, WordCount, stop
from harness.admin import create_topics
from harness.brokers import Broker
from harness.waiting import wait_until

COMMAND = "org.apache.kafka.tools.streams.StreamsGroupCommand"
LINES = [
    "all streams lead to the sea",
    "the sea is not full",
    "to the place from which the streams come",
    "there they return again",
]


@pytest.fixture(scope="module")
def write(group_cluster: Broker) -> Callable[[list[str]], list[str]]:
    """Write lines to the input; all lines so far."""
    create_topics(group_cluster.bootstrap, INPUT, OUTPUT, partitions=PARTITION_COUNT)
    producer = Producer({"bootstrap.servers": group_cluster.bootstrap, "linger.ms": 0})
    written: list[str] = []

    def write_lines(lines: list[str]) -> list[str]:
        for line in lines:
            producer.produce(INPUT, line, partition=len(written) % PARTITION_COUNT)
            written.append(line)
        assert producer.flush(30) == 0
        return list(written)

    return write_lines


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_words_are_counted_right_while_instances_start_and_stop(
    group_cluster: Broker,
    write: Callable[[list[str]], list[str]],
    java_tools: JavaTools,
    tmp_path: Path,
    protocol: str,
) -> None:
    application = WordCount(group_cluster, tmp_path, protocol=protocol)
    try:
        first = application.start()
        application.wait_until_counted(write(LINES))
        application.start()
        if protocol == "streams":
            _wait_until_described(java_tools, group_cluster, application.id, member_count=2)
        application.wait_until_counted(write(LINES * 5))
        stop(first)
        application.wait_until_counted(write(LINES * 2))
    finally:
        application.close()
    if protocol == "streams":
        _delete(java_tools, group_cluster, application.id)


def _wait_until_described(tools: JavaTools, cluster: Broker, group: str, *, member_count: int) -> None:
    """kafka-streams-groups shows the group, its members and their tasks."""

    def run(*arguments: str) -> str:
        return tools.run(COMMAND, "--bootstrap-server", cluster.bootstrap, *arguments)

    def members() -> list[str]:
        return [
            line for line in run("--describe", "--group", group, "--members").splitlines() if "ACTIVE" in line
        ]

    wait_until(lambda: len(members()) == member_count, f"{member_count} members have tasks", seconds=30)
    wait_until(lambda: "Stable" in run("--describe", "--group", group, "--state"), "the group is stable")
    assert group in run("--list").split()
    assert [line.split()[1] for line in run("--list", "--state").splitlines() if group in line] == ["Stable"]
    state = run("--describe", "--group", group, "--state", "--verbose").splitlines()[-1].split()
    assert state[:4] == [group, cluster.bootstrap, state[2], "Stable"]
    assert int(state[4]) >= int(state[5]) > 0
    assert state[6] == str(member_count)
    offsets = run("--describe", "--group", group, "--offsets", "--verbose")
    assert offsets.count(INPUT) == PARTITION_COUNT
    assert offsets.count("-repartition") == PARTITION_COUNT


def _delete(tools: JavaTools, cluster: Broker, group: str) -> None:
    arguments = ["--bootstrap-server", cluster.bootstrap]
    described = tools.run(COMMAND, *arguments, "--describe", "--group", group, "--state")
    assert "Empty" in described
    deleted = tools.run(COMMAND, *arguments, "--delete", "--group", group, "--delete-all-internal-topics")
    assert f"streams groups ('{group}') was successful" in deleted
    assert group not in tools.run(COMMAND, *arguments, "--list").split()
    topics = tools.run("org.apache.kafka.tools.TopicCommand", *arguments, "--list").split()
    assert not [topic for topic in topics if topic.startswith(group)]
