"""Penstock's tools next to Apache Kafka's, on the same broker: the same output, where scripts may parse it.

Figures and times differ from run to run, so only their form is compared. Needs the jars of Apache Kafka.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest

from harness.admin import create_topic
from harness.brokers import PenstockBroker
from integration.cli.conftest import Commands
from oracle import jars as kafka_jars
from penstock import Producer

WAIT_SECONDS = 60
TOOLS = "org.apache.kafka.tools"

RunKafka = Callable[..., str]

pytestmark = pytest.mark.penstock_only("tests Penstock's tools")


@pytest.fixture(scope="module")
def run_kafka() -> RunKafka:
    folder = kafka_jars.libs()

    def run(name: str, *arguments: str, typed: str | None = None) -> str:
        done = subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*", f"{TOOLS}.{name}", *arguments],
            input=typed,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def topic(node: PenstockBroker) -> str:
    name = create_topic(node.bootstrap, "beside")
    with Producer(node.bootstrap) as producer:
        producer.send(name, b"plain", timestamp_ms=1_700_000_000_000)
        producer.send(name, b"with all", key=b"key", headers=[("a", b"1"), ("b", None)], timestamp_ms=5)
        producer.send(name, None, key=b"deleted", timestamp_ms=6)
        producer.send(name, (42).to_bytes(8, "big"), key=b"", timestamp_ms=7)
    return name


PRINT_ALL = [
    word
    for name in ("timestamp", "partition", "offset", "headers", "key")
    for word in ("--formatter-property", f"print.{name}=true")
]
ONE_PARTITION = ["--partition", "0", "--offset", "earliest"]


@pytest.mark.parametrize(
    "options",
    [
        [*ONE_PARTITION, "--max-messages", "4", *PRINT_ALL, "--formatter-property", "null.literal=<null>"],
        [
            "--from-beginning",
            "--max-messages",
            "4",
            "--formatter-property",
            "print.key=true",
            "--formatter-property",
            "key.separator= | ",
            "--formatter-property",
            "line.separator=;",
        ],
        [
            "--partition",
            "0",
            "--offset",
            "3",
            "--max-messages",
            "1",
            "--value-deserializer",
            "org.apache.kafka.common.serialization.LongDeserializer",
        ],
    ],
)
def test_the_console_consumer_prints_the_same(
    options: list[str], node: PenstockBroker, topic: str, commands: Commands, run_kafka: RunKafka
) -> None:
    arguments = ["--topic", topic, "--bootstrap-server", node.bootstrap, *options]

    ours = commands.run_arguments(["kafka-console-consumer", *arguments])

    assert ours.out == run_kafka("consumer.ConsoleConsumer", *arguments)
    assert ours.err == f"Processed a total of {'1' if '3' in options else '4'} messages\n"


def test_the_console_producer_writes_the_same(
    node: PenstockBroker, commands: Commands, run_kafka: RunKafka, typed: Callable[[bytes], None]
) -> None:
    lines = "a:1,b:NIL\tk1\tv1\na:2\tNIL\tv2\nNIL\tk3\tNIL\n"
    options = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    options += ["--reader-property", "null.marker=NIL", "--compression-codec"]
    ours, theirs = (create_topic(node.bootstrap, "written") for _ in range(2))
    typed(lines.encode())

    commands.run_arguments(
        ["kafka-console-producer", "--topic", ours, "--bootstrap-server", node.bootstrap, *options]
    )
    run_kafka(
        "ConsoleProducer", "--topic", theirs, "--bootstrap-server", node.bootstrap, *options, typed=lines
    )

    def records(name: str) -> list[tuple[object, ...]]:
        shown = commands.run(f"consume {name} --json").json_lines()
        return [(one["key"], one["value"], one["headers"]) for one in shown]

    assert records(ours) == records(theirs)
    assert len(records(ours)) == 3


def form(text: str) -> str:
    """The text with all figures replaced."""
    return re.sub(r"\d+", "N", text)


def test_the_producer_performance_test_prints_lines_of_the_same_form(
    node: PenstockBroker, commands: Commands, run_kafka: RunKafka
) -> None:
    name = create_topic(node.bootstrap, "perf")
    options = f"--topic {name} --num-records 50 --record-size 10 --throughput -1"
    servers = f"--bootstrap-server {node.bootstrap}"

    ours = commands.run(f"kafka-producer-perf-test {options} {servers}").out
    theirs = run_kafka("ProducerPerformance", *options.split(), *servers.split())

    assert form(ours.splitlines()[-1]) == form(theirs.splitlines()[-1])


def test_the_consumer_performance_test_prints_columns_of_the_same_form(
    node: PenstockBroker, commands: Commands, run_kafka: RunKafka
) -> None:
    name = create_topic(node.bootstrap, "perf")
    commands.run(f"perf produce {name} -n 50")
    options = f"--topic {name} --num-records 50 --bootstrap-server {node.bootstrap}"

    ours = commands.run(f"kafka-consumer-perf-test {options}").out.splitlines()
    theirs = run_kafka("ConsumerPerformance", *options.split()).splitlines()

    assert ours[0] == theirs[0]
    assert form(ours[1]) == form(theirs[1])
    assert ours[1].split(", ")[4] == theirs[1].split(", ")[4] == "50"


def test_the_latency_test_prints_lines_of_the_same_form(
    node: PenstockBroker, commands: Commands, run_kafka: RunKafka
) -> None:
    name = create_topic(node.bootstrap, "latency")
    arguments = f"--bootstrap-server {node.bootstrap} --topic {name} --num-records 3 --producer-acks 1 --record-size 10"

    ours = commands.run(f"kafka-e2e-latency {arguments}").out
    theirs = run_kafka("EndToEndLatency", *arguments.split())

    assert form(ours) == form(theirs)


def events(text: str) -> list[dict[str, object]]:
    reported = [json.loads(line) for line in text.splitlines()]
    for event in reported:
        assert isinstance(event.pop("timestamp"), int)
        event.pop("avg_throughput", None)
    return reported


def test_the_verifiable_producer_prints_the_same(
    node: PenstockBroker, commands: Commands, run_kafka: RunKafka
) -> None:
    ours, theirs = (create_topic(node.bootstrap, "verifiable") for _ in range(2))
    options = f"--max-messages 4 --value-prefix 7 --repeating-keys 3 --bootstrap-server {node.bootstrap}"

    reported = commands.run(f"kafka-verifiable-producer --topic {ours} {options}").out
    by_kafka = run_kafka("VerifiableProducer", "--topic", theirs, *options.split())

    assert events(reported) == events(by_kafka.replace(theirs, ours))


def test_the_verifiable_consumer_prints_the_same(
    node: PenstockBroker, commands: Commands, run_kafka: RunKafka
) -> None:
    name = create_topic(node.bootstrap, "verifiable")
    commands.run(f"produce {name} a b c --key k")
    options = f"--topic {name} --max-messages 3 --verbose --bootstrap-server {node.bootstrap}"

    ours = events(commands.run(f"kafka-verifiable-consumer --group-id {name}-ours {options}").out)
    theirs = events(run_kafka("VerifiableConsumer", "--group-id", f"{name}-theirs", *options.split()))

    # Kafka's shutdown hook prints that shutdown was requested, even if it was not.
    assert ours == [event for event in theirs if event["name"] != "shutdown_requested"]


def test_the_api_versions_are_printed_the_same(
    node: PenstockBroker, commands: Commands, run_kafka: RunKafka
) -> None:
    servers = f"--bootstrap-server {node.bootstrap}"

    ours = commands.run(f"kafka-broker-api-versions {servers}").out

    assert ours == run_kafka("BrokerApiVersionsCommand", *servers.split())
