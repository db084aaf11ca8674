"""Java Kafka Streams: its WordCountDemo counts right with both protocols, while instances of it come and go."""

from __future__ import annotations

import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat.clients.java import JVM_OPTIONS, JavaTools, class_path
from compat.groups.state import topic_ends
from harness.admin import create_topics, new_name
from harness.brokers import Broker, tool
from harness.waiting import wait_until

DEMO = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
COMMAND = "org.apache.kafka.tools.streams.StreamsGroupCommand"
INPUT = "streams-plaintext-input"
OUTPUT = "streams-wordcount-output"
PARTITION_COUNT = 2
COUNT_SECONDS = 40.0
STOP_SECONDS = 30.0
LINES = [
    "all streams lead to the sea",
    "the sea is not full",
    "to the place from which the streams come",
    "there they return again",
]


class WordCount:
    """One application of WordCountDemo: any number of instances, and the counts that they write."""

    def __init__(self, cluster: Broker, folder: Path, *, protocol: str) -> None:
        self.id = new_name(f"word-count-{protocol}")
        self.counts: dict[str, int] = {}
        self._bootstrap = cluster.bootstrap
        self._folder = folder
        self._protocol = protocol
        self._processes: list[subprocess.Popen[bytes]] = []
        self._consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )
        ends = topic_ends(cluster.bootstrap, OUTPUT, PARTITION_COUNT)
        self._consumer.assign([TopicPartition(OUTPUT, number, offset) for number, offset in ends.items()])

    def start(self) -> subprocess.Popen[bytes]:
        number = len(self._processes)
        settings = {
            "application.id": self.id,
            "bootstrap.servers": self._bootstrap,
            "state.dir": str(self._folder / f"state-{number}"),
            "commit.interval.ms": "100",
            "group.protocol": self._protocol,
        }
        if self._protocol == "classic":
            settings |= {"session.timeout.ms": "6000", "heartbeat.interval.ms": "200"}
        properties = self._folder / f"instance-{number}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with (self._folder / f"instance-{number}.txt").open("wb") as output:
            process = subprocess.Popen(
                [tool("java"), *JVM_OPTIONS, "-cp", class_path(), DEMO, str(properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def wait_until_counted(self, lines: list[str]) -> None:
        expected = Counter(word for line in lines for word in line.split())

        def is_counted() -> bool:
            for message in self._consumer.consume(100, timeout=0.1):
                assert message.error() is None, message.error()
                self.counts[message.key().decode()] = struct.unpack(">q", message.value())[0]
            return self.counts == expected

        try:
            wait_until(is_counted, f"{self.id} counted {len(lines)} lines", seconds=COUNT_SECONDS)
        except AssertionError as exc:
            output = {path.name: path.read_text()[-2000:] for path in self._folder.glob("instance-*.txt")}
            raise AssertionError(f"{exc}; found {self.counts}, expected {dict(expected)}; {output}") from exc

    def close(self) -> None:
        self._consumer.close()
        for process in self._processes:
            if process.poll() is None:
                stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


@pytest.fixture(scope="module")
def write(group_cluster: Broker) -> Callable[[list[str]], list[str]]:
    """Writes lines to the input and returns all that were written so far."""
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
def test_words_are_counted_right_while_instances_come_and_go(
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
    """kafka-streams-groups tells of the group, its members and what each has to do."""

    def run(*words: str) -> str:
        return tools.run(COMMAND, "--bootstrap-server", cluster.bootstrap, *words)

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
    words = ["--bootstrap-server", cluster.bootstrap]
    described = tools.run(COMMAND, *words, "--describe", "--group", group, "--state")
    assert "Empty" in described
    deleted = tools.run(COMMAND, *words, "--delete", "--group", group, "--delete-all-internal-topics")
    assert f"streams groups ('{group}') was successful" in deleted
    assert group not in tools.run(COMMAND, *words, "--list").split()
    topics = tools.run("org.apache.kafka.tools.TopicCommand", *words, "--list").split()
    assert not [topic for topic in topics if topic.startswith(group)]
