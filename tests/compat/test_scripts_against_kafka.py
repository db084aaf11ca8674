"""Penstock's scripts next to Kafka's own: same command line, same broker, same output and exit status.

Allowed differences are named: texts of broker errors, the order of what Kafka keeps in hash tables, and times. The
same lines run against Apache Kafka with `--broker=kafka`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat.clients.java import JavaTools
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.waiting import wait_until
from harness.writing import write
from penstock import Admin, Consumer, Producer
from penstock.cli.main import main

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
}
NOISE = ("SLF4J", "exit", "ToolServer$Exited", "\tat ")


class ToolOutput(NamedTuple):
    """What a tool printed: its status, its output, and the first line of its errors."""

    status: int
    out: list[str]
    err: str


class Both:
    """Runs a command line with both."""

    def __init__(self, java: JavaTools, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._java = java
        self._bootstrap = bootstrap
        self._capsys = capsys

    def run(self, line: str) -> tuple[ToolOutput, ToolOutput]:
        """Kafka's result first, then Penstock's."""
        tool, *rest = shlex.split(line)
        where = ["--bootstrap-server", self._bootstrap]
        arguments = [rest[0], *where, *rest[1:]] if tool == "kafka-cluster" else [*where, *rest]
        theirs = self._java.try_run(TOOLS[tool], *arguments)
        self._capsys.readouterr()
        status = main([tool, *arguments])
        out, err = self._capsys.readouterr()
        return _said(theirs.status, theirs.stdout, theirs.stderr), _said(status, out, err)

    def same(self, line: str) -> ToolOutput:
        theirs, ours = self.run(line)
        if (
            "groups --list" in line
        ):  # other tests' groups are listed too, by Kafka in the order of a hash table
            theirs, ours = (output._replace(out=sorted(output.out)) for output in (theirs, ours))
        assert ours == theirs, line
        return ours


def _said(status: int, out: str, err: str) -> ToolOutput:
    lines = [line.rstrip() for line in out.strip("\n").splitlines()]
    errors = [line for line in err.strip().splitlines() if line and not line.startswith(NOISE)]
    return ToolOutput(status, lines, errors[0].strip() if errors else "")


@pytest.fixture
def both(java_tools: JavaTools, group_cluster: Broker, capsys: pytest.CaptureFixture[str]) -> Both:
    return Both(java_tools, group_cluster.bootstrap, capsys)


@pytest.fixture(scope="module")
def topic(group_cluster: Broker) -> str:
    name = create_topic(group_cluster.bootstrap, "scripts", partitions=2, config={"retention.ms": "99999999"})
    write(group_cluster.bootstrap, name, ["a", "b", "c"], partition=0)
    return name


@pytest.fixture(scope="module")
def idle_group(group_cluster: Broker, topic: str) -> str:
    name = new_name("idle")
    with Admin(group_cluster.bootstrap) as admin:
        admin.alter_group_offsets(name, {(topic, 0): 1, (topic, 1): 0})  # type: ignore[dict-item]
    return name


@pytest.fixture(scope="module", params=["classic", "consumer"])
def busy_group(request: pytest.FixtureRequest, group_cluster: Broker, topic: str) -> Iterator[str]:
    name = new_name("busy")
    with Consumer(
        topic,
        bootstrap_servers=group_cluster.bootstrap,
        group=name,
        group_protocol=request.param,
        group_instance_id=f"{name}-1",
        auto_offset_reset="earliest",
        client_id="scripts",
    ) as consumer:
        taken: list[object] = []
        wait_until(lambda: bool(taken.extend(consumer.poll(0.1)) or len(taken) == 3), "everything was read")
        consumer.commit()
        yield name


@pytest.mark.parametrize(
    "line",
    [
        "kafka-topics --list --exclude-internal --topic scripts.*",
        "kafka-topics --describe --topic {topic}",
        "kafka-topics --describe --topic {topic} --at-min-isr-partitions",
        "kafka-topics --describe --under-replicated-partitions",
        "kafka-topics --describe --topic no-such-topic",
        "kafka-topics --describe --topic no-such-topic --if-exists",
        "kafka-topics --create --topic {topic}",
        "kafka-topics --create --topic {topic} --if-not-exists",
        "kafka-topics --create --topic a_b --partitions 0",
        "kafka-topics --create --topic a --config retentio.ms=1",
        "kafka-topics --create --topic a --replica-assignment 1:1",
        "kafka-topics --alter --topic no-such-topic --partitions 3",
        "kafka-topics --delete --topic no-such-topic",
        "kafka-topics --create",
        "kafka-topics --list --partitions 3",
        "kafka-topics --create --list --topic x",
        "kafka-get-offsets --topic {topic}",
        "kafka-get-offsets --topic {topic} --time earliest",
        "kafka-get-offsets --topic-partitions {topic}:0,{topic}:1-2",
        "kafka-get-offsets --topic no-such-topic",
        "kafka-get-offsets --topic {topic} --time soon",
        "kafka-configs --describe --topic {topic}",
        "kafka-configs --describe --topic {topic} --all",
        "kafka-configs --describe --topic no-such-topic",
        "kafka-configs --describe --entity-type brokers",
        "kafka-configs --describe --broker one",
        "kafka-configs --alter --topic {topic} --add-config max.message.bytes=2000000,cleanup.policy=[compact,delete]",
        "kafka-configs --alter --topic {topic} --delete-config max.message.bytes,cleanup.policy",
        "kafka-configs --alter --topic {topic}",
        "kafka-configs --describe",
        "kafka-consumer-groups --describe --group {idle}",
        "kafka-consumer-groups --describe --group {idle} --members --verbose",
        "kafka-consumer-groups --describe --group {idle} --state",
        "kafka-consumer-groups --list --state empty --type",
        "kafka-consumer-groups --reset-offsets --group {idle} --topic {topic}:0 --to-latest --export",
        "kafka-consumer-groups --reset-offsets --group {idle} --topic {topic}:0 --to-earliest --dry-run",
        "kafka-consumer-groups --reset-offsets --group {idle} --topic {topic}:0 --shift-by 1 --dry-run",
        "kafka-consumer-groups --reset-offsets --group {idle} --topic {topic}:0 --to-datetime 2000-01-01T00:00:00.000 "
        "--dry-run",
        "kafka-consumer-groups --reset-offsets --group {idle} --topic {topic}:0 --to-offset 1 --execute",
        "kafka-consumer-groups --validate-regex a.*b",
        "kafka-groups --list",
        "kafka-groups --list --consumer",
        "kafka-groups --list --share",
        "kafka-groups",
        "kafka-transactions describe-producers --topic {topic} --partition 1",
        "kafka-transactions find-hanging --topic {topic}",
        "kafka-transactions find-hanging",
        "kafka-transactions abort --topic {topic} --partition 0 --start-offset 9",
        "kafka-cluster cluster-id",
        "kafka-cluster list-endpoints",
        "kafka-metadata-quorum describe --status",
        "kafka-metadata-quorum describe",
        "kafka-features upgrade --feature group.version=1",
        "kafka-features downgrade --feature streams.version=0 --dry-run",
        "kafka-log-dirs --describe --broker-list 1,9",
        "kafka-log-dirs",
    ],
)
def test_both_print_the_same(both: Both, topic: str, idle_group: str, line: str) -> None:
    both.same(line.format(topic=topic, idle=idle_group))


@pytest.mark.parametrize(
    "line",
    [
        "kafka-consumer-groups --describe --group {group}",
        "kafka-consumer-groups --describe --group {group} --verbose",
        "kafka-consumer-groups --describe --group {group} --members",
        "kafka-consumer-groups --describe --group {group} --members --verbose",
        "kafka-consumer-groups --describe --group {group} --state --verbose",
        "kafka-consumer-groups --reset-offsets --group {group} --all-topics --to-latest --dry-run",
    ],
)
def test_both_print_the_same_for_a_group_with_members(both: Both, busy_group: str, line: str) -> None:
    messages = both.same(line.format(group=busy_group))

    assert any(busy_group in row for row in messages.out)


def test_both_print_the_same_features_apart_from_the_time(both: Both) -> None:
    def without_epoch(messages: ToolOutput) -> list[str]:
        return [line.partition("Epoch:")[0] for line in messages.out]

    theirs, ours = both.run("kafka-features describe")

    assert without_epoch(ours) == without_epoch(theirs)


def test_both_print_the_same_directories_in_any_order(both: Both, topic: str) -> None:
    def partitions(messages: ToolOutput) -> list[object]:
        (broker,) = json.loads(messages.out[-1])["brokers"]
        return sorted((each["partition"], each["size"]) for each in broker["logDirs"][0]["partitions"])

    theirs, ours = both.run(f"kafka-log-dirs --describe --topic-list {topic}")

    assert ours.out[:-1] == theirs.out[:-1]
    assert partitions(ours) == partitions(theirs)
    assert len(partitions(ours)) == 2


def test_both_print_the_same_quorum_replication_apart_from_times(both: Both) -> None:
    theirs, ours = both.run("kafka-metadata-quorum describe --replication")

    def shape(messages: ToolOutput) -> list[str]:
        return [re.sub(r"\d{2,}", "N", line) for line in messages.out]

    assert shape(ours) == shape(theirs)


def test_both_print_the_same_transactions(both: Both, group_cluster: Broker, topic: str) -> None:
    name = new_name("transactional")
    with Producer(group_cluster.bootstrap, transactional_id=name) as producer, producer.transaction():
        producer.send(topic, b"x", partition=1)

    wait_until(
        lambda: "CompleteCommit" in "".join(both.run("kafka-transactions list")[1].out), "it has ended"
    )

    both.same(f"kafka-transactions list --transactional-id-pattern {name}")
    theirs, ours = both.run(f"kafka-transactions describe --transactional-id {name}")
    assert ours.out[0] == theirs.out[0]
    assert (
        ours.out[1].split("\t")[:7] == theirs.out[1].split("\t")[:7]
    )  # then comes how long it has been open
    both.same(f"kafka-transactions describe-producers --topic {topic} --partition 1")


def test_both_delete_records_the_same_way(both: Both, group_cluster: Broker, tmp_path: Path) -> None:
    topic = create_topic(group_cluster.bootstrap, "deleted")
    write(group_cluster.bootstrap, topic, ["a", "b"], partition=0)
    file = tmp_path / "offsets.json"

    def wanted(*offsets: int) -> str:
        return json.dumps(
            {
                "version": 1,
                "partitions": [{"topic": topic, "partition": 0, "offset": offset} for offset in offsets],
            }
        )

    file.write_text(wanted(1))
    messages = both.same(f"kafka-delete-records --offset-json-file {file}")
    file.write_text(wanted(1, 2))
    twice = both.same(f"kafka-delete-records --offset-json-file {file}")

    assert messages.out[-1] == f"partition: {topic}-0\tlow_watermark: 1"
    assert twice.err == f"Offset json file contains duplicate topic partitions: {topic}-0"


def test_kafkas_tool_sees_the_changes_of_ours(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    """Ours creates, grows, alters and deletes; Kafka's tool sees it."""
    name = new_name("ours")
    where = f"--bootstrap-server {both._bootstrap}"

    assert main(shlex.split(f"kafka-topics {where} --create --topic {name} --partitions 1")) == 0
    assert capsys.readouterr().out == f"Created topic {name}.\n"
    assert main(shlex.split(f"kafka-topics {where} --alter --topic {name} --partitions 2")) == 0
    wait_until(
        lambda: "PartitionCount: 2" in both.run(f"kafka-topics --describe --topic {name}")[0].out[0],
        "it grew",
    )
    assert main(shlex.split(f"kafka-topics {where} --delete --topic {name}")) == 0
    wait_until(lambda: name not in both.run("kafka-topics --list")[0].out, "it is gone")
