"""`kafka-dump-log.sh` prints the same lines as Apache Kafka's DumpLogSegments for the same files.

The files are those of a node with producers, transactions, and groups of both protocols. Needs the jars of Apache
Kafka, like `test_dump_log_segments`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.admin import create_topics
from harness.brokers import PenstockBroker
from oracle import jars as kafka_jars
from penstock.cli.main import main

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
WAIT_SECONDS = 60.0
FIRST = "00000000000000000000"

pytestmark = pytest.mark.penstock_only("tests Penstock's files")


@pytest.fixture(scope="module")
def jars() -> Path:
    return kafka_jars.libs()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    broker = PenstockBroker(tmp_path_factory.mktemp("dump"), settings=SETTINGS)
    broker.start()
    try:
        create_topics(broker.bootstrap, "plain", config={"index.interval.bytes": "200"})
        create_topics(broker.bootstrap, "txn")
        produce(broker.bootstrap)
        transact_and_consume(broker.bootstrap)
    finally:
        broker.close()
    return broker.log_directories[0]


def produce(bootstrap: str) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
        for number in range(20):
            producer.produce(
                "plain", key=f"{codec}-{number}", value="x" * 100, headers={"h": b"1", "none": None}
            )
        producer.produce("plain", value=None, key="deleted")
        producer.produce("plain", value="no key")
        assert producer.flush(WAIT_SECONDS) == 0


def transact_and_consume(bootstrap: str) -> None:
    servers = {"bootstrap.servers": bootstrap}
    producer = Producer({**servers, "transactional.id": "tx"})
    producer.init_transactions(WAIT_SECONDS)
    for ends_well in (True, False):
        producer.begin_transaction()
        producer.produce("txn", b"value")
        producer.flush(WAIT_SECONDS)
        producer.commit_transaction(WAIT_SECONDS) if ends_well else producer.abort_transaction(WAIT_SECONDS)
    for protocol in ("classic", "consumer"):
        settings = {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        consumer = Consumer({**servers, **settings, "enable.auto.commit": False})
        consumer.subscribe(["plain"])
        assert consumer.poll(WAIT_SECONDS) is not None
        consumer.commit(asynchronous=False)
        if protocol == "classic":
            producer.begin_transaction()
            offsets = [TopicPartition("plain", 0, 2)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_SECONDS)
            producer.commit_transaction(WAIT_SECONDS)
        consumer.close()


@pytest.mark.parametrize(
    "line",
    [
        f"--files plain-0/{FIRST}.log",
        f"--files plain-0/{FIRST}.log --print-data-log",
        f"--files plain-0/{FIRST}.index,plain-0/{FIRST}.timeindex --deep-iteration",
        f"--files txn-0/{FIRST}.log,txn-0/{FIRST}.txnindex,SNAPSHOT --print-data-log",
        f"--files __consumer_offsets-0/{FIRST}.log --offsets-decoder",
        f"--files __transaction_state-0/{FIRST}.log --transaction-log-decoder",
        f"--files __cluster_metadata-0/{FIRST}.log --cluster-metadata-decoder",
        f"--files __cluster_metadata-0/{FIRST}.log --cluster-metadata-decoder --skip-record-metadata",
    ],
)
def test_both_print_the_same_lines(
    line: str, data: Path, jars: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(data)
    snapshot = str(next(Path("txn-0").glob("*.snapshot")))
    arguments = line.replace("SNAPSHOT", snapshot).split()
    kafka = subprocess.run(
        ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )

    assert main(["kafka-dump-log", *arguments]) == 0

    assert capfd.readouterr().out.splitlines() == kafka.stdout.splitlines()
    assert len(kafka.stdout.splitlines()) > 2
