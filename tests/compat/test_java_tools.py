"""The command-line tools of Apache Kafka 4.3.1, run like their users do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.clients.java import JavaTools
from harness.admin import admin, create_topic, new_name
from harness.brokers import Broker

TOOLS = "org.apache.kafka.tools."
CONFIG = "kafka.admin.ConfigCommand"
CONSUMER = TOOLS + "consumer.ConsoleConsumer"

Run = Callable[..., str]


@pytest.fixture
def run(java_tools: JavaTools, cluster: Broker) -> Run:
    """Run a tool against the cluster. If it fails, the test fails."""

    def run_tool(name: str, *arguments: str, stdin: str = "") -> str:
        full_name = name if "." in name else TOOLS + name
        return java_tools.run(full_name, "--bootstrap-server", cluster.bootstrap, *arguments, stdin=stdin)

    return run_tool


@pytest.fixture
def refuse(java_tools: JavaTools, cluster: Broker) -> Run:
    """Run a tool that must fail; all its output."""

    def run_tool(name: str, *arguments: str) -> str:
        full_name = name if "." in name else TOOLS + name
        result = java_tools.try_run(full_name, "--bootstrap-server", cluster.bootstrap, *arguments)
        assert result.status == 1
        return result.stdout + result.stderr

    return run_tool


@pytest.fixture
def node_id(cluster: Broker) -> str:
    return str(next(iter(admin(cluster.bootstrap).list_topics(timeout=60).brokers)))


def test_topic_command_creates_lists_describes_alters_and_deletes(
    run: Run, refuse: Run, node_id: str
) -> None:
    name = new_name("tool-topic")
    options = [
        "--topic",
        name,
        "--partitions",
        "3",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=1000000",
    ]

    assert run("TopicCommand", "--create", *options) == f"Created topic {name}.\n"
    assert "already exists" in refuse("TopicCommand", "--create", "--topic", name)
    assert name in run("TopicCommand", "--list").splitlines()

    head, *rows = run("TopicCommand", "--describe", "--topic", name).splitlines()
    assert re.search(
        rf"Topic: {name}\tTopicId: \S{{22}}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: ", head
    )
    assert "retention.ms=1000000" in head
    for number, row in enumerate(rows):
        expected = f"Partition: {number}\tLeader: {node_id}\tReplicas: {node_id}\tIsr: {node_id}"
        assert expected in row

    run("TopicCommand", "--alter", "--topic", name, "--partitions", "5")
    assert "PartitionCount: 5" in run("TopicCommand", "--describe", "--topic", name)
    assert "5 partition" in refuse("TopicCommand", "--alter", "--topic", name, "--partitions", "2")

    run("TopicCommand", "--delete", "--topic", name)
    assert name not in run("TopicCommand", "--list").splitlines()


def test_topic_command_takes_an_assignment_of_replicas(run: Run, node_id: str) -> None:
    name = new_name("tool-assigned")
    run("TopicCommand", "--create", "--topic", name, "--replica-assignment", f"{node_id},{node_id}")
    assert "PartitionCount: 2" in run("TopicCommand", "--describe", "--topic", name)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param(["--topic", "bad/name"], "bad/name", id="name"),
        pytest.param(["--topic", "x" * 250], "249", id="long name"),
        pytest.param(
            ["--topic", "too-many", "--replication-factor", "3"],
            "replication factor of 3",
            id="replicas",
        ),
        pytest.param(["--topic", "none", "--partitions", "0"], "partitions", id="partitions"),
        pytest.param(
            ["--topic", "bad-config", "--config", "retention.ms=soon"], "retention.ms", id="config value"
        ),
    ],
)
def test_topic_command_shows_why_a_topic_is_rejected(refuse: Run, options: list[str], reason: str) -> None:
    assert reason in refuse("TopicCommand", "--create", *options)


def test_config_command_on_topics(run: Run, refuse: Run, cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "tool-config", config={"retention.ms": "1000000"})
    entity = ["--entity-type", "topics", "--entity-name", name]

    described = run(CONFIG, "--describe", *entity)
    assert (
        "retention.ms=1000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000000"
        in described
    )

    run(CONFIG, "--alter", *entity, "--add-config", "flush.messages=5,cleanup.policy=[compact,delete]")
    described = run(CONFIG, "--describe", *entity)
    assert "flush.messages=5 sensitive=false" in described
    assert "cleanup.policy=compact,delete sensitive=false" in described

    run(CONFIG, "--alter", *entity, "--delete-config", "flush.messages")
    assert "flush.messages" not in run(CONFIG, "--describe", *entity)

    everything = run(CONFIG, "--describe", *entity, "--all")
    assert (
        "max.message.bytes=1048588 sensitive=false synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}"
        in everything
    )
    assert "min.insync.replicas=1 " in everything

    assert "flush.messages" in refuse(CONFIG, "--alter", *entity, "--add-config", "flush.messages=x")
    assert "no.such.config" in refuse(CONFIG, "--alter", *entity, "--add-config", "no.such.config=1")


def test_config_command_on_brokers(run: Run, refuse: Run, node_id: str) -> None:
    broker = ["--entity-type", "brokers", "--entity-name", node_id]
    default = ["--entity-type", "brokers", "--entity-default"]

    run(CONFIG, "--alter", *broker, "--add-config", "log.retention.ms=123456789")
    run(CONFIG, "--alter", *default, "--add-config", "log.segment.delete.delay.ms=50000")

    assert "log.retention.ms=123456789 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:" in run(
        CONFIG, "--describe", *broker
    )
    assert "log.segment.delete.delay.ms=50000" in run(CONFIG, "--describe", *default)
    everything = run(CONFIG, "--describe", *broker, "--all")
    assert "auto.create.topics.enable=true" in everything
    assert "log.segment.delete.delay.ms=50000" in everything

    run(CONFIG, "--alter", *broker, "--delete-config", "log.retention.ms")
    run(CONFIG, "--alter", *default, "--delete-config", "log.segment.delete.delay.ms")
    assert "log.retention.ms=123456789" not in run(CONFIG, "--describe", *broker, "--all")

    # A static setting cannot be changed at run time.
    assert "log.dirs" in refuse(CONFIG, "--alter", *broker, "--add-config", "log.dirs=/elsewhere")


def test_console_producer_and_consumer_with_a_partition_and_an_offset(run: Run, cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "tool-console")
    run("ConsoleProducer", "--topic", name, stdin="one\ntwo\nthree\n")

    place = ["--topic", name, "--partition", "0", "--max-messages"]
    assert run(CONSUMER, *place, "3", "--offset", "earliest") == "one\ntwo\nthree\n"
    assert run(CONSUMER, *place, "2", "--offset", "1") == "two\nthree\n"
    assert (
        run(CONSUMER, *place, "2", "--offset", "1", "--isolation-level", "read_committed") == "two\nthree\n"
    )


def test_get_offset_shell_finds_offsets_by_every_kind_of_time(run: Run, cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "tool-offsets", partitions=2)
    for text in ("first", "second", "third"):
        run(
            "ConsoleProducer", "--topic", name, "--reader-property", "parse.key=true", stdin=f"same\t{text}\n"
        )

    def offsets(*options: str) -> list[int]:
        lines = run("GetOffsetShell", "--topic", name, *options).splitlines()
        return [int(line.split(":")[2]) for line in sorted(lines)]

    assert sum(offsets()) == 3
    assert sum(offsets("--time", "latest")) == 3
    assert offsets("--time", "earliest") == [0, 0]
    assert offsets("--time", "earliest-local") == [0, 0]
    assert offsets("--time", "max-timestamp") == [2]
    assert offsets("--time", "1000") == [0]  # the only partition with records
    assert offsets("--time", "99999999999999") == []


def test_delete_records_command_moves_the_low_watermark(run: Run, cluster: Broker, tmp_path: Path) -> None:
    name = create_topic(cluster.bootstrap, "tool-delete-records", partitions=2)
    run("ConsoleProducer", "--topic", name, "--reader-property", "parse.key=true", stdin="k\ta\nk\tb\nk\tc\n")
    latest = dict(line.rsplit(":", 1) for line in run("GetOffsetShell", "--topic", name).splitlines())
    written = next(number for number in (0, 1) if latest[f"{name}:{number}"] == "3")
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": name, "partition": written, "offset": 2},
                    {"topic": name, "partition": 1 - written, "offset": -1},
                ],
            }
        )
    )

    output = run("DeleteRecordsCommand", "--offset-json-file", str(wanted))

    assert f"partition: {name}-{written}\tlow_watermark: 2" in output
    assert f"partition: {name}-{1 - written}\tlow_watermark: 0" in output
    assert f"{name}:{written}:2" in run("GetOffsetShell", "--topic", name, "--time", "earliest")


def test_log_dirs_command_shows_sizes(run: Run, cluster: Broker, node_id: str) -> None:
    name = create_topic(cluster.bootstrap, "tool-log-dirs")
    run("ConsoleProducer", "--topic", name, stdin="one\n")

    output = run("LogDirsCommand", "--describe", "--topic-list", name)

    [broker] = json.loads(output.splitlines()[-1])["brokers"]
    assert broker["broker"] == int(node_id)
    [directory] = broker["logDirs"]
    assert directory["error"] is None
    assert Path(directory["logDir"]) == cluster.log_directories[0]
    [partition] = directory["partitions"]
    assert partition["partition"] == f"{name}-0"
    assert partition["size"] == (cluster.log_directories[0] / f"{name}-0" / f"{0:020}.log").stat().st_size


def test_producer_performance(run: Run, java_tools: JavaTools, cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "tool-performance", partitions=3)
    load = ["--num-records", "20000", "--record-size", "100", "--throughput", "-1"]

    output = java_tools.run(
        TOOLS + "ProducerPerformance", "--topic", name, *load, "--bootstrap-server", cluster.bootstrap
    )

    assert "20000 records sent" in output
    assert (
        sum(int(line.split(":")[2]) for line in run("GetOffsetShell", "--topic", name).splitlines()) == 20_000
    )


def test_kafkas_client_compatibility_test_passes(run: Run, broker_kind: str) -> None:
    """It produces, looks up by time, consumes a record beyond the fetch size, creates topics, and describes configs."""
    promises = {
        "offsets-for-times-supported": "true",
        "cluster-id-supported": "true",
        "expect-record-too-large-exception": "false",
        "num-cluster-nodes": "1",
        "create-topics-supported": "true",
        "describe-acls-supported": "true" if broker_kind == "kafka" else "false",
        "describe-configs-supported": "true",
        "idempotent-producer-supported": "true",
    }
    options = [word for name, value in promises.items() for word in (f"--{name}", value)]

    assert "SUCCESS" in run("ClientCompatibilityTest", "--topic", new_name("tool-compatibility"), *options)


def test_broker_api_versions_command(run: Run) -> None:
    output = run("BrokerApiVersionsCommand")
    for api in ("Produce(0): 0 to 13", "Fetch(1): ", "Metadata(3): 0 to 13", "ApiVersions(18): 0 to 4"):
        assert api in output


def test_feature_command_describes(run: Run) -> None:
    output = run("FeatureCommand", "describe")
    assert re.search(
        r"Feature: metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: 4.3-IV0", output
    )


def test_metadata_quorum_command_describes(run: Run, node_id: str) -> None:
    status = run("MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"^LeaderId:\s+{node_id}$", status, re.MULTILINE)
    assert re.search(r"^HighWatermark:\s+\d+$", status, re.MULTILINE)
    replication = run("MetadataQuorumCommand", "describe", "--replication")
    assert re.search(rf"^{node_id}\s.*\sLeader\s*$", replication, re.MULTILINE)


def test_cluster_tool(java_tools: JavaTools, cluster: Broker, node_id: str) -> None:
    server = ["--bootstrap-server", cluster.bootstrap]
    assert re.fullmatch(r"Cluster ID: \S{22}\n", java_tools.run(TOOLS + "ClusterTool", "cluster-id", *server))
    endpoints = java_tools.run(TOOLS + "ClusterTool", "list-endpoints", *server)
    assert re.search(rf"^{node_id}\s+127.0.0.1\s+{cluster.port}\s", endpoints, re.MULTILINE)


def test_transactions_command_describes_producers(run: Run, cluster: Broker) -> None:
    name = create_topic(cluster.bootstrap, "tool-producers")
    run("ConsoleProducer", "--topic", name, stdin="one\ntwo\n")

    output = run("TransactionsCommand", "describe-producers", "--topic", name, "--partition", "0")

    [row] = output.splitlines()[1:]
    producer_id, epoch, _coordinator_epoch, last_sequence, *_ = row.split()
    assert int(producer_id) >= 0
    assert (epoch, last_sequence) == ("0", "1")


def test_log_dirs_and_topics_of_a_missing_topic(refuse: Run, run: Run) -> None:
    assert "does not exist" in refuse("TopicCommand", "--describe", "--topic", "no-such-topic")
    assert "does not exist" in refuse("TopicCommand", "--delete", "--topic", "no-such-topic")
    assert '"partitions":[]' in run("LogDirsCommand", "--describe", "--topic-list", "no-such-topic")
