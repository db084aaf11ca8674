"""Command-line programs that write in transactions, or read with read_committed."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from compat.clients.java import JavaTools
from compat.clients.kcat import run_kcat
from compat.transactions.input import Input
from compat.transactions.outcome import open_partitions, read_all
from harness.admin import create_topic, new_name
from harness.brokers import Broker

TOOLS = "org.apache.kafka.tools."
CONSOLE = TOOLS + "consumer.ConsoleConsumer"
RECORD_COUNT = 300


@pytest.fixture
def topic(transaction_cluster: Broker) -> str:
    """Committed numbers, aborted ones between them, and one that is not committed yet."""
    name = create_topic(transaction_cluster.bootstrap, "tooled")
    Input(transaction_cluster.bootstrap, name, 1).write(RECORD_COUNT)
    return name


@pytest.fixture
def open_transaction(transaction_cluster: Broker, topic: str) -> Producer:
    settings = {"transactional.id": new_name("tooled"), "log_level": 0}
    producer = Producer({"bootstrap.servers": transaction_cluster.bootstrap, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    return producer


def test_the_console_consumer_reads_by_isolation_level(
    transaction_cluster: Broker, topic: str, open_transaction: Producer, java_tools: JavaTools
) -> None:
    def consume(isolation: str, count: int) -> list[str]:
        arguments = [
            "--bootstrap-server",
            transaction_cluster.bootstrap,
            "--topic",
            topic,
            "--partition",
            "0",
        ]
        arguments += ["--offset", "earliest", "--isolation-level", isolation, "--max-messages", str(count)]
        return java_tools.run(CONSOLE, *arguments, "--timeout-ms", "20000").splitlines()

    everything = consume("read_uncommitted", RECORD_COUNT + RECORD_COUNT // 50 + 1)
    assert (everything.count("aborted"), everything.count("open")) == (RECORD_COUNT // 50, 1)
    assert consume("read_committed", RECORD_COUNT) == [str(number) for number in range(RECORD_COUNT)]
    open_transaction.abort_transaction(30)


def test_kcat_reads_by_isolation_level(
    transaction_cluster: Broker, topic: str, open_transaction: Producer
) -> None:
    def consume(isolation: str) -> list[str]:
        arguments = ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"]
        output = run_kcat(transaction_cluster.bootstrap, *arguments, "-X", f"isolation.level={isolation}")
        return output.decode().splitlines()

    assert consume("read_committed") == [str(number) for number in range(RECORD_COUNT)]
    assert "open" in consume("read_uncommitted")
    open_transaction.commit_transaction(30)


def test_the_performance_tools_count_committed_records(
    transaction_cluster: Broker, java_tools: JavaTools
) -> None:
    bootstrap = transaction_cluster.bootstrap
    name = create_topic(bootstrap, "performed", partitions=2)
    arguments = ["--topic", name, "--num-records", "2000", "--record-size", "100", "--throughput", "-1"]
    arguments += ["--transactional-id", new_name("performer"), "--transaction-duration-ms", "20"]
    java_tools.run(TOOLS + "ProducerPerformance", *arguments, "--bootstrap-server", bootstrap)

    arguments = ["--bootstrap-server", bootstrap, "--topic", name, "--group", new_name("performer")]
    arguments += ["--num-records", "2000", "--command-property", "isolation.level=read_committed"]
    output = java_tools.run(TOOLS + "ConsumerPerformance", *arguments)

    names, values = (line.split(", ") for line in output.splitlines()[-2:])
    assert dict(zip(names, values, strict=True))["data.consumed.in.nMsg"] == "2000"
    assert open_partitions(bootstrap, name, 2) == []


def test_kafkas_message_copier_copies_in_transactions(
    transaction_cluster: Broker, topic: str, java_tools: JavaTools
) -> None:
    """The program with which Kafka's own system tests verify transactions; it aborts some at random."""
    bootstrap = transaction_cluster.bootstrap
    copy = create_topic(bootstrap, "copied")
    arguments = ["--broker-list", bootstrap, "--input-topic", topic, "--input-partition", "0"]
    arguments += ["--output-topic", copy, "--consumer-group", new_name("copier"), "--transaction-size", "25"]
    arguments += ["--transactional-id", new_name("copier"), "--max-messages", str(RECORD_COUNT)]
    java_tools.run(
        TOOLS + "TransactionalMessageCopier", *arguments, "--enable-random-aborts", "--use-group-metadata"
    )
    found = read_all(bootstrap, copy, 1, isolation="read_committed")
    assert found == read_all(bootstrap, topic, 1, isolation="read_committed")
    assert open_partitions(bootstrap, copy, 1) == []
