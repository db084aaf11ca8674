"""A compacted topic on three nodes that are killed: it keeps the last value of each key, on every replica.

A million updates and deletes of ten thousand keys, transactions among them, are checked against a dictionary. Apache
Kafka's tools read what is left.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.penstock_cluster import PenstockCluster, PenstockNode
from oracle import jars
from penstock import Admin, Consumer, Producer
from penstock.records import kernel

pytestmark = pytest.mark.penstock_only("runs a cluster of Penstock's nodes")

TOPIC = "table"
UPDATES = 1_000_000
KEYS = 10_000
DELETE_CHANCE = 0.1
ABORT_CHANCE = 0.3
TRANSACTIONS = 50
KILLS = 3
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.segment.bytes": str(2 << 20),
    "log.segment.delete.delay.ms": "1000",
    "broker.session.timeout.ms": "3000",
}
WAIT_S = 120.0

Table = dict[bytes, bytes]
Row = tuple[bytes | None, bytes | None]
Changes = dict[bytes, bytes | None]
"""None: the key was deleted."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PenstockCluster]:
    cluster = PenstockCluster(tmp_path / "cluster", settings=SETTINGS)
    cluster.start()
    yield cluster
    cluster.close()


def test_every_replica_keeps_the_last_value_of_each_key_while_leaders_are_killed(
    cluster: PenstockCluster,
) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=1, replication_factor=3, config={"cleanup.policy": "compact"})
    with ThreadPoolExecutor() as pool:
        killing = pool.submit(kill_leaders, cluster)
        table = write_updates(cluster.bootstrap)
        killing.result()
    table |= write_last_keys(cluster.bootstrap)
    cluster.await_in_sync(TOPIC)

    for node in cluster.nodes.values():
        await_compacted(node)
    rows = read_rows(cluster.bootstrap)
    assert fold(rows) == table
    assert len(rows) < UPDATES // 4
    assert read_rows_with_java(cluster.bootstrap, len(rows)) == rows
    folders = [folder_of(node) for node in cluster.nodes.values()]
    for node in cluster.nodes.values():
        node.stop()
    for folder in folders:
        assert table_on_disk(folder) == table
    check_with_kafka(folders[0])


def write_updates(bootstrap: str) -> Table:
    """Each key is written by one producer only, so that its last value is known."""
    rng = random.Random(1)
    changes: Changes = {}
    plain = Producer(bootstrap, buffer_memory=256 << 20)
    transactional = Producer(bootstrap, transactional_id="updates")
    with plain, transactional:
        for number in range(UPDATES):
            write(plain, changes, b"plain-%d" % rng.randrange(KEYS), number, rng)
            if number % (UPDATES // TRANSACTIONS) == 0:
                changes |= write_transaction(transactional, number, rng)
    return {key: value for key, value in changes.items() if value is not None}


def write_transaction(producer: Producer, number: int, rng: random.Random) -> Changes:
    changes: Changes = {}
    try:
        with producer.transaction():
            for _ in range(100):
                write(producer, changes, b"txn-%d" % rng.randrange(KEYS), number, rng)
            if rng.random() < ABORT_CHANCE:
                raise _Abort
    except _Abort:
        return {}
    return changes


def write(producer: Producer, changes: Changes, key: bytes, number: int, rng: random.Random) -> None:
    value = None if rng.random() < DELETE_CHANCE else b"%d" % number
    producer.send(TOPIC, value, key=key)
    changes[key] = value


class _Abort(Exception):
    pass


def write_last_keys(bootstrap: str) -> Table:
    """Enough for the segments before to be sealed and compacted."""
    rows = {b"last-%d" % number: b"x" * 1000 for number in range(5_000)}
    with Producer(bootstrap) as producer:
        for key, value in rows.items():
            producer.send(TOPIC, value, key=key)
    return rows


def kill_leaders(cluster: PenstockCluster) -> None:
    """One after the other, each when the others are in sync again; also while the log is compacted."""
    rng = random.Random(2)
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.5, 1.5))
        cluster.kill(cluster.leader_of(TOPIC))
        cluster.heal()
        cluster.await_in_sync(TOPIC)


def folder_of(node: PenstockNode) -> Path:
    return node.log_directories[0] / f"{TOPIC}-0"


def await_compacted(node: PenstockNode) -> None:
    """Until every sealed segment of the log is clean, as the checkpoint says."""
    deadline = time.monotonic() + WAIT_S
    while True:
        active_offset = max(int(path.stem) for path in folder_of(node).glob("*.log"))
        checkpoint = node.log_directories[0] / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        if f"{TOPIC} 0 {active_offset}" in lines:
            return
        assert time.monotonic() < deadline, (
            f"{folder_of(node)} is not compacted up to {active_offset}: {lines}"
        )
        time.sleep(0.05)


def read_rows(bootstrap: str) -> list[Row]:
    with Consumer(
        TOPIC, bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        return [(each.key, each.value) for each in consumer.read(until="end").to_messages()]


def read_rows_with_java(bootstrap: str, count: int) -> list[Row]:
    printed = run_java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", TOPIC, "--from-beginning"),
        *("--isolation-level", "read_committed", "--max-messages", str(count), "--timeout-ms", "60000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "null.literal=NULL"),
    )
    pairs = [line.encode().split(b"\t") for line in printed.splitlines()]
    return [(key, None if value == b"NULL" else value) for key, value in pairs]


def fold(rows: Iterable[Row]) -> Table:
    table: Table = {}
    for key, value in rows:
        assert key is not None
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    return table


def table_on_disk(folder: Path) -> Table:
    """Every transaction has ended, and what was aborted is compacted, or in the active segment, which has none."""

    def rows() -> Iterator[Row]:
        for path in sorted(folder.glob("*.log")):
            data = path.read_bytes()
            position = 0
            for header in kernel.check_batches(data):
                if not header.is_control:
                    for record in kernel.iterate_records(data, position):
                        yield record.key, record.value
                position += header.size_bytes

    return fold(rows())


def check_with_kafka(folder: Path) -> None:
    """Apache Kafka's tool reads all files, and finds nothing wrong."""
    files = sorted([*folder.glob("*.log"), *folder.glob("*.index"), *folder.glob("*.timeindex")])
    printed = run_java(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--files", ",".join(str(path) for path in files)),
    )
    assert "isvalid: true" in printed
    for complaint in ("isvalid: false", "Found timestamp mismatch", "Mismatches in", "out of order"):
        assert complaint not in printed


def run_java(*arguments: str) -> str:
    done = subprocess.run(
        ["java", "-XX:+UseSerialGC", "-cp", f"{jars.libs()}/*", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    return done.stdout
