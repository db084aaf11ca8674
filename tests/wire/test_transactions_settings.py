"""Transactions that time out, ids that expire, and clusters of older transaction versions.

Also run against Apache Kafka (`--broker=kafka`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.committed_reads import READ_UNCOMMITTED, aborted, read, seen
from harness.requests import ask, create_topic
from harness.transactions import (
    ADDING,
    VERIFYING,
    TransactionalProducer,
    add_to_one,
    await_state,
    await_transactions,
    describe,
    init,
    listed,
    partition_of,
    produce,
    state_of,
)
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.records import kernel

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
STATE_TOPIC = "__transaction_state"
UPGRADE, SAFE_DOWNGRADE = 1, 2
SHORT_MS = 1500  # long enough for a busy machine to add a partition and write to it

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "20",
}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, make_broker: Any) -> Iterator[Broker]:
    """A broker that looks often for transactions which took too long."""
    broker: Broker = make_broker(tmp_path_factory.mktemp("hasty"), settings=SETTINGS)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def connection(hasty: Broker) -> Iterator[WireConnection]:
    with WireConnection(hasty.port) as connection:
        yield connection


@pytest.fixture
def topic(connection: WireConnection) -> str:
    name = new_name("written")
    create_topic(connection, name, partitions=3)
    return name


# -- timeouts


@pytest.mark.parametrize("version", [VERIFYING, ADDING])
def test_a_transaction_that_times_out_is_aborted(
    connection: WireConnection, topic: str, version: int
) -> None:
    slow = TransactionalProducer.started(connection, new_name("slow"), timeout_ms=SHORT_MS)
    if version < ADDING:
        slow.add({topic: [0]})
    slow.send(topic, b"a", version=version)
    name, (mine, epoch) = slow.transactional_id, slow.identity

    await_state(connection, name, "CompleteAbort")

    data = read(connection, topic)
    assert (aborted(data), seen(data)) == ([(mine, 0)], [(0, [b"a"]), (1, "abort")])
    described = describe(connection, name)
    assert (described.producer_id, described.producer_epoch, described.topics) == (mine, epoch + 1, [])
    assert add_to_one(connection, name, mine, epoch, topic) is FENCED
    for partition in (0, 1):
        late = slow.attempt(topic, b"b", partition=partition, version=version)
        assert (late.error_code, late.base_offset) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    for is_commit in (True, False):
        assert slow.end(committed=is_commit, version=4) == (FENCED, -1, -1)
    assert slow.end(committed=True) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
    assert slow.end(committed=False) == (NONE, mine, epoch + 1), "as it would have done itself"
    again = init(connection, name, producer_id=mine, producer_epoch=epoch)
    assert again == (NONE, mine, epoch + 1), "and so it can go on"


def test_an_empty_transaction_times_out_too(connection: WireConnection) -> None:
    slow = TransactionalProducer.started(connection, new_name("slow"), timeout_ms=SHORT_MS)
    slow.add({})

    await_state(connection, slow.transactional_id, "CompleteAbort")


def test_the_timeout_is_that_of_the_last_init(connection: WireConnection, topic: str) -> None:
    fast, slow = (
        TransactionalProducer.started(connection, new_name("slow"), timeout_ms=timeout_ms)
        for timeout_ms in (SHORT_MS, 60_000)
    )
    fast.timeout_ms, slow.timeout_ms = 60_000, SHORT_MS
    for producer in (fast, slow):
        producer.init()
        producer.send(topic, b"a")

    await_state(connection, slow.transactional_id, "CompleteAbort")
    assert state_of(connection, fast.transactional_id) == "Ongoing"


# -- ids that expire


def test_ids_expire_but_not_those_in_a_transaction(tmp_path: Any, make_broker: Any) -> None:
    broker = make_broker(tmp_path / "broker", settings={**SETTINGS, "transactional.id.expiration.ms": "3000"})
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            create_topic(connection, "orders")
            busy, done, idle = (
                TransactionalProducer.started(connection, name) for name in ("busy", "done", "idle")
            )
            busy.send("orders", b"a")
            done.send("orders", b"b")
            renewed = done.end(committed=True)
            assert renewed.error is NONE
            done.go_on_with(renewed)
            wait_until(lambda: list(listed(connection)) == ["busy"], "the others are gone")

            for gone in (done, idle):
                unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
                assert (
                    describe(connection, gone.transactional_id).error_code
                    is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
                )
                assert last_record(connection, gone.transactional_id) is None, "a tombstone"
                assert gone.end(committed=True) == (unknown, -1, -1)
                assert add_to_one(connection, gone.transactional_id, *gone.identity, "orders") is unknown
                late = produce(
                    connection,
                    "orders",
                    gone.batch("orders", b"c", base_sequence=0),
                    transactional_id=gone.transactional_id,
                )
                assert (late.error_code, late.base_offset) == (unknown, -1)
            mine, epoch = idle.identity
            fresh = init(connection, "idle", producer_id=mine, producer_epoch=epoch)
            assert (fresh.error, fresh.producer_epoch) == (NONE, 0)
            assert fresh.producer_id != mine
            assert busy.end(committed=True).error is NONE
    finally:
        broker.close()
        broker.check_output()


def last_record(connection: WireConnection, transactional_id: str) -> bytes | None:
    """The value of the last record about a transactional id."""
    key = struct.pack(">hh", 0, len(transactional_id)) + transactional_id.encode()
    data = read(
        connection,
        STATE_TOPIC,
        partition=partition_of(transactional_id),
        isolation_level=READ_UNCOMMITTED,
    )
    found, position = [], 0
    for header in kernel.read_headers(data.records or b""):
        found += [
            record.value for record in kernel.iterate_records(data.records, position) if record.key == key
        ]
        position += header.size_bytes
    return found[-1]


# -- without verification


def test_partitions_need_not_be_verified(tmp_path: Any, make_broker: Any) -> None:
    settings = {"transaction.partition.verification.enable": "false"}
    broker = make_broker(tmp_path / "broker", settings=settings)
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            create_topic(connection, "orders", partitions=2)
            producer = TransactionalProducer.started(connection, "writer")

            assert producer.send("orders", b"a", version=VERIFYING) == 0
            assert state_of(connection, "writer") == "Empty", "its coordinator knows nothing of it"
            assert read(connection, "orders").last_stable_offset == 0, "so nobody ends it"
            assert producer.send("orders", b"b", partition=1) == 0
            producer.commit()
            assert seen(read(connection, "orders", partition=1)) == [(0, [b"b"]), (1, "commit")]
    finally:
        broker.close()
        broker.check_output()


# -- older transaction versions


def set_level(connection: WireConnection, level: int, upgrade_type: int) -> ErrorCode:
    update = FeatureUpdateKey(
        feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type
    )
    return ErrorCode(ask(connection, UpdateFeaturesRequest(feature_updates=[update]), 2).error_code)


def level_of(connection: WireConnection) -> int:
    request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
    features = ask(connection, request, 4).finalized_features
    return {each.name: each.max_version_level for each in features}.get("transaction.version", 0)


def test_clusters_of_every_transaction_version_serve_older_producers(broker: Broker) -> None:
    """Of version 0 on, the log is written so that Kafka before 4.0 can read it."""
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders", partitions=3)
        assert level_of(connection) == 2
        assert set_level(connection, 3, UPGRADE) is ErrorCode.INVALID_UPDATE_VERSION
        expected = 0
        for level, upgrade_type in [(1, SAFE_DOWNGRADE), (0, SAFE_DOWNGRADE), (1, UPGRADE), (2, UPGRADE)]:
            assert set_level(connection, level, upgrade_type) is NONE
            wait_until(lambda level=level: level_of(connection) == level, f"the level is {level}")
            older = TransactionalProducer.started(connection, f"older at {level}-{upgrade_type}")
            older.add({"orders": [0, 2]})
            assert older.send("orders", b"a", version=VERIFYING) == expected
            value = last_record(connection, older.transactional_id)
            older.commit(version=4)
            expected += 2

            assert value is not None
            assert value[:2] == struct.pack(">h", 1 if level else 0)
            if not level:
                head = struct.pack(">hqhib", 0, *older.identity, 60_000, 1)
                topics = struct.pack(">ih", 1, 6) + b"orders" + struct.pack(">iii", 2, 0, 2)
                assert value == head + topics + value[-16:], "with times at its end, and no tagged fields"
        assert committed_at_every_level(connection) == 4


@pytest.mark.parametrize(
    "level",
    [
        pytest.param(
            0, marks=pytest.mark.penstock_only("Kafka cannot write the record, and never gets over it")
        ),
        1,
    ],
)
def test_newer_producers_work_with_any_transaction_version(broker: Broker, level: int) -> None:
    """Clients read the level once; one that read it before a downgrade continues."""
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders")
        assert set_level(connection, level, SAFE_DOWNGRADE) is NONE
        wait_until(lambda: level_of(connection) == level, f"the level is {level}")
        newer = TransactionalProducer.started(connection, "newer")
        mine, epoch = newer.identity

        newer.send("orders", b"a")
        newer.commit()
        newer.send("orders", b"b")
        newer.abort()

        assert newer.identity == (mine, epoch + 2)
        data = read(connection, "orders")
        assert seen(data) == [(0, [b"a"]), (1, "commit"), (2, [b"b"]), (3, "abort")]
        assert (data.last_stable_offset, aborted(data)) == (4, [(mine, 2)])


def committed_at_every_level(connection: WireConnection) -> int:
    data = read(connection, "orders")
    assert (data.last_stable_offset, aborted(data)) == (8, [])
    return sum(1 for _, content in seen(data) if content == "commit")


def test_a_level_0_transaction_can_be_taken_over_by_a_newer_producer(broker: Broker) -> None:
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders")
        await_transactions(connection, "writer")
        assert set_level(connection, 0, SAFE_DOWNGRADE) is NONE
        wait_until(lambda: level_of(connection) == 0, "the level is 0")
        older = TransactionalProducer.started(connection, "writer")
        older.add({"orders": [0]})
        older.send("orders", b"a", version=VERIFYING)

        assert set_level(connection, 2, UPGRADE) is NONE
        wait_until(lambda: level_of(connection) == 2, "the level is 2")
        mine, epoch = older.identity
        older.commit()
        assert older.identity == (mine, epoch + 1)
        older.send("orders", b"b")
        older.commit()
        assert seen(read(connection, "orders")) == [(0, [b"a"]), (1, "commit"), (2, [b"b"]), (3, "commit")]
