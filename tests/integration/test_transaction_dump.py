"""Apache Kafka's DumpLogSegments reads the files of transactions: their log, markers and indexes.

It prints the same for Kafka's own files (`--broker=kafka`). Needs the jars of Apache Kafka (`.cache/kafka/libs`, or
PENSTOCK_KAFKA_JARS). Without them it is skipped, but not in CI.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.group_requests import await_coordinator
from harness.requests import ask, create_topic
from harness.transactions import TransactionalProducer, partition_of
from harness.wire import WireConnection
from oracle import jars as kafka_jars
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

KEPT, DROPPED = "kept", "dropped"


class Left(NamedTuple):
    """The files of a broker, and the producers that wrote them."""

    folder: Path
    kept_id: int
    dropped_id: int

    def files(self, partition: str) -> list[Path]:
        return sorted(path for path in (self.folder / partition).iterdir() if path.stem.isdigit())


@pytest.fixture(scope="module")
def jars() -> Path:
    return kafka_jars.libs()


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, make_broker: Any) -> Left:
    """One producer committed records and offsets, another aborted records in several segments, and a third has an
    open transaction."""
    broker = make_broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            create_topic(connection, "orders", partitions=2, segment_bytes=str(1 << 20))
            await_coordinator(connection, "readers")
            kept, dropped, still_open = (
                TransactionalProducer.started(connection, name) for name in (KEPT, DROPPED, "open")
            )
            kept.send("orders", b"a")
            commit_offset(kept)
            for _ in range(5):
                dropped.send("orders", bytes(400_000))
            kept.commit()
            dropped.send("orders", b"b", partition=1)
            dropped.abort()
            still_open.send("orders", b"c")
    finally:
        broker.close()
        broker.check_output()
    (folder,) = broker.log_directories
    return Left(folder, kept.producer_id, dropped.producer_id)


def commit_offset(producer: TransactionalProducer) -> None:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=42, committed_metadata="note"
    )
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id="readers",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )
    (answered,) = ask(producer.connection, request, 5).topics
    assert [each.error_code for each in answered.partitions] == [ErrorCode.NONE]


def dump(jars: Path, files: list[Path], *options: str) -> str:
    tool = ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command = [*tool, "--files", ",".join(map(str, files)), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    noise = ("SLF4J", "Non-consecutive offsets in", "  -1 is followed by")  # also for Kafka's own files
    assert [line for line in done.stderr.splitlines() if not line.startswith(noise)] == []
    assert "isvalid: false" not in done.stdout
    return done.stdout


def test_the_transaction_log(jars: Path, left: Left) -> None:
    kept = states_of(jars, left, KEPT)
    assert [state["transactionStatus"] for state in kept] == [0, 1, 1, 2, 4]
    assert {state["producerId"] for state in kept} == {left.kept_id}
    assert [state["producerEpoch"] for state in kept] == [0, 0, 0, 1, 1]
    assert [state.get("clientTransactionVersion") for state in kept] == [None, 2, 2, 2, 2]
    offsets = {"topic": "__consumer_offsets", "partitionIds": [partition_of("readers")]}
    assert kept[3]["transactionPartitions"] == [{"topic": "orders", "partitionIds": [0]}, offsets]

    dropped = states_of(jars, left, DROPPED)
    assert [state["transactionStatus"] for state in dropped] == [0, 1, 1, 3, 5]
    assert dropped[3]["transactionPartitions"] == [{"topic": "orders", "partitionIds": [0, 1]}]
    assert dropped[4]["transactionPartitions"] == []


def states_of(jars: Path, left: Left, transactional_id: str) -> list[dict[str, Any]]:
    """As the tool reads them from the log."""
    files = left.files(f"__transaction_state-{partition_of(transactional_id)}")
    listed = dump(jars, files, "--transaction-log-decoder")
    found = re.findall(r"key: (\{.*\}) payload: (\{.*\})$", listed, re.MULTILINE)
    key = {"type": "0", "data": {"transactionalId": transactional_id}}
    return [json.loads(value)["data"] for name, value in found if json.loads(name) == key]


def test_offsets_and_their_markers(jars: Path, left: Left) -> None:
    files = left.files(f"__consumer_offsets-{partition_of('readers')}")
    listed = dump(jars, files, "--offsets-decoder")

    assert '"group":"readers","topic":"orders","partition":0' in listed
    assert '"offset":42' in listed
    assert f"producerId: {left.kept_id} producerEpoch: 0" in listed
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in listed


def test_records_markers_and_indexes(jars: Path, left: Left) -> None:
    for partition in ("orders-0", "orders-1"):
        files = left.files(partition)
        listed = dump(jars, files, "--deep-iteration")
        assert listed.count("Dumping ") == len(files)
        markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", listed)
        assert markers == ([("COMMIT", "0"), ("ABORT", "0")] if partition == "orders-0" else [("ABORT", "0")])
        dump(jars, files, "--index-sanity-check")

    aborted = [
        line
        for path in left.files("orders-0") + left.files("orders-1")
        if path.suffix == ".txnindex" and path.stat().st_size
        for line in dump(jars, [path]).splitlines()
        if line.startswith("version")
    ]
    first = f"producerId: {left.dropped_id} firstOffset: 1 lastOffset: 7 lastStableOffset: 8"
    second = f"producerId: {left.dropped_id} firstOffset: 0 lastOffset: 1 lastStableOffset: 2"
    assert aborted == [f"version: 0 {first}", f"version: 0 {second}"]


def test_snapshots_name_open_transactions(jars: Path, left: Left) -> None:
    snapshots = [path for path in left.files("orders-0") if path.suffix == ".snapshot"]
    listed = dump(jars, snapshots[-1:])

    assert f"producerId: {left.kept_id} producerEpoch: 1" in listed
    assert "currentTxnFirstOffset: 8" in listed or "currentTxnFirstOffset: OptionalLong[8]" in listed
