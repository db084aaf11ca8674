"""kafka-transactions lists, describes, finds and ends hanging transactions.

A transaction hangs if a partition has records of it that its coordinator does not know. Current brokers accept no
such records, unless verification is off (`transaction.partition.verification.enable`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException, Producer

from compat.clients.java import JavaTools, ToolResult
from compat.conftest import TRANSACTION_SETTINGS
from compat.transactions.outcome import end_offsets, read_all
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.requests import batch
from harness.transactions import VERIFYING, await_transactions, init, produce, settled
from harness.waiting import wait_until
from harness.wire import WireConnection, end_offset
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel

COMMAND = "org.apache.kafka.tools.TransactionsCommand"
TIMEOUT_MS = 45_000
HOUR_MS = 3_600_000

Run = Callable[..., str]
Row = dict[str, str]


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory, make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    """A broker that accepts transactional records without asking the coordinator."""
    settings = {**TRANSACTION_SETTINGS, "transaction.partition.verification.enable": "false"}
    broker = make_broker(tmp_path_factory.mktemp("lenient"), settings=settings)
    broker.start()
    with WireConnection(broker.port) as connection:
        await_transactions(connection, "first")
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def try_run(java_tools: JavaTools, lenient: Broker) -> Callable[..., ToolResult]:
    return lambda *arguments: java_tools.try_run(COMMAND, "--bootstrap-server", lenient.bootstrap, *arguments)


@pytest.fixture
def run(java_tools: JavaTools, lenient: Broker) -> Run:
    return lambda *arguments: java_tools.run(COMMAND, "--bootstrap-server", lenient.bootstrap, *arguments)


@pytest.fixture
def topic(lenient: Broker) -> str:
    name = create_topic(lenient.bootstrap, "commanded", partitions=2)
    with WireConnection(lenient.port) as connection:
        for partition in range(2):
            wait_until(
                lambda partition=partition: end_offset(connection, name, partition) == 0,
                f"{name} has a leader",
            )
    return name


@dataclass(frozen=True)
class Open:
    """An open transaction with two records in partition 0 of a topic, and its producer."""

    transactional_id: str
    producer: Producer


@pytest.fixture
def opened(lenient: Broker, topic: str) -> Open:
    transactional_id = new_name("commanded")
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": TIMEOUT_MS, "log_level": 0}
    producer = Producer({"bootstrap.servers": lenient.bootstrap, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in (b"one", b"two"):
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    return Open(transactional_id, producer)


@pytest.fixture
def hanging(lenient: Broker, topic: str) -> int:
    """The producer id of a hanging record in partition 1: no coordinator knows its transaction."""
    with WireConnection(lenient.port) as connection:
        _, producer_id, epoch = settled(lambda: init(connection, None), "there is a producer id")
        records = kernel.build_batch(
            [(int(time.time() * 1000) - HOUR_MS, None, b"hanging", ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        answer = produce(
            connection, topic, bytes(records), partition=1, transactional_id="hanging", version=VERIFYING
        )
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    return producer_id


def rows(output: str) -> list[Row]:
    """The lines of a table under its heading."""
    lines = [[argument.strip() for argument in line.split("\t")] for line in output.splitlines()]
    return [dict(zip(lines[0], cells, strict=True)) for cells in lines[1:]]


def row_of(output: str, transactional_id: str) -> Row | None:
    return next((row for row in rows(output) if row["TransactionalId"] == transactional_id), None)


def test_lists_transactions(run: Run, opened: Open) -> None:
    listed = row_of(run("list"), opened.transactional_id)
    assert listed is not None
    assert (listed["Coordinator"], listed["TransactionState"]) == ("1", "Ongoing")
    assert int(listed["ProducerId"]) >= 0
    assert row_of(run("list", "--duration-filter", str(HOUR_MS)), opened.transactional_id) is None
    assert row_of(run("list", "--duration-filter", "0"), opened.transactional_id) == listed
    assert rows(run("list", "--transactional-id-pattern", f"{opened.transactional_id}|none")) == [listed]
    assert rows(run("list", "--transactional-id-pattern", "nobody.*")) == []

    opened.producer.commit_transaction(30)

    wait_until(
        lambda: (row_of(run("list"), opened.transactional_id) or {})["TransactionState"] == "CompleteCommit",
        "it is complete",
    )


def test_an_invalid_pattern_is_rejected(try_run: Callable[..., ToolResult]) -> None:
    refused = try_run("list", "--transactional-id-pattern", "(")
    assert refused.status == 1
    assert "Failed to list transactions" in refused.stderr


def test_describes_a_transaction(run: Run, opened: Open, topic: str) -> None:
    [described] = rows(run("describe", "--transactional-id", opened.transactional_id))
    assert described["TransactionState"] == "Ongoing"
    assert described["TransactionTimeoutMs"] == str(TIMEOUT_MS)
    assert described["TopicPartitions"] == f"{topic}-0"
    assert 0 <= int(described["TransactionDurationMs"]) < TIMEOUT_MS

    opened.producer.abort_transaction(30)

    def is_complete() -> bool:
        [described] = rows(run("describe", "--transactional-id", opened.transactional_id))
        return (described["TransactionState"], described["TopicPartitions"]) == ("CompleteAbort", "")

    wait_until(is_complete, "it is complete")


def test_describing_an_unknown_transaction_fails(try_run: Callable[..., ToolResult]) -> None:
    unknown = try_run("describe", "--transactional-id", "nobody")
    assert (unknown.status, "the ID could not be found" in unknown.stderr) == (1, True), unknown.stderr


def test_describes_producers(run: Run, opened: Open, topic: str) -> None:
    arguments = ["describe-producers", "--topic", topic, "--partition", "0"]
    [described] = rows(run("describe", "--transactional-id", opened.transactional_id))
    [found] = rows(run(*arguments))
    assert found["ProducerId"] == described["ProducerId"]
    assert (found["LastSequence"], found["CurrentTransactionStartOffset"]) == ("1", "0")
    assert found["LatestCoordinatorEpoch"] == "-1"

    opened.producer.commit_transaction(30)

    wait_until(
        lambda: [row["CurrentTransactionStartOffset"] for row in rows(run(*arguments))] == ["None"],
        "it has no transaction",
    )
    assert rows(run(*arguments, "--broker-id", "1")) == rows(run(*arguments))


def test_finds_and_aborts_hanging_transactions(
    run: Run, try_run: Callable[..., ToolResult], lenient: Broker, opened: Open, hanging: int, topic: str
) -> None:
    with WireConnection(lenient.port) as connection:
        assert produce_alone(connection, topic, b"held up", partition=1) == 1

    [found] = [row for row in rows(run("find-hanging", "--broker-id", "1")) if row["Topic"] == topic]
    assert (found["Partition"], found["ProducerId"], found["StartOffset"]) == ("1", str(hanging), "0")
    assert int(found["Duration(min)"]) == 60
    assert rows(run("find-hanging", "--topic", topic, "--max-transaction-timeout", "120")) == []
    assert rows(run("find-hanging", "--topic", topic, "--partition", "0")) == []
    assert end_offsets(lenient.bootstrap, topic, 2, isolation="read_committed") == {0: 0, 1: 0}

    wrong = try_run("abort", "--topic", topic, "--partition", "1", "--start-offset", "7")
    assert wrong.status == 1
    assert "Could not find any open transactions starting at offset 7" in wrong.stderr
    run("abort", "--topic", topic, "--partition", "1", "--start-offset", "0")

    assert rows(run("find-hanging", "--topic", topic)) == []
    opened.producer.commit_transaction(30)
    wait_until(
        lambda: end_offsets(lenient.bootstrap, topic, 2, isolation="read_committed") == {0: 3, 1: 3},
        "the last stable offset is the end",
    )
    found_values = read_all(lenient.bootstrap, topic, 2, isolation="read_committed")
    assert found_values == {0: [b"one", b"two"], 1: [b"held up"]}


def test_aborts_like_with_older_brokers(run: Run, lenient: Broker, hanging: int, topic: str) -> None:
    arguments = ["--producer-id", str(hanging), "--producer-epoch", "0", "--coordinator-epoch", "0"]
    run("abort", "--topic", topic, "--partition", "1", *arguments)
    assert end_offsets(lenient.bootstrap, topic, 2, isolation="read_committed") == {0: 0, 1: 2}


def test_terminates_a_transaction_by_force(run: Run, lenient: Broker, opened: Open, topic: str) -> None:
    run("forceTerminateTransaction", "--transactionalId", opened.transactional_id)

    listed = row_of(run("list"), opened.transactional_id)
    assert listed is not None
    assert listed["TransactionState"] == "Empty"
    with pytest.raises(KafkaException, match="fenced"):
        opened.producer.commit_transaction(30)
    assert read_all(lenient.bootstrap, topic, 2, isolation="read_committed") == {0: [], 1: []}
    assert end_offsets(lenient.bootstrap, topic, 2, isolation="read_committed")[0] == 3


def produce_alone(connection: WireConnection, topic: str, value: bytes, *, partition: int) -> int:
    """The offset of a record outside of any transaction."""
    answer = produce(connection, topic, batch(value), partition=partition)
    assert answer.error_code is ErrorCode.NONE
    return answer.base_offset
