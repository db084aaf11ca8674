"""Every call of a producer, with its results. Never run: type checkers read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from uuid import UUID

from penstock import (
    Consumer,
    Delivery,
    GroupMetadata,
    Offset,
    OutgoingRecord,
    Partitioner,
    PartitionInfo,
    PreparedTransaction,
    Producer,
    ProducerInterceptor,
    Receipt,
    RowsReceipt,
    TopicPartition,
    Transaction,
    errors,
)

FIRST = TopicPartition("orders", 0)


class Stamping(ProducerInterceptor):
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        print(record.topic, record.key, record.value, record.partition, record.timestamp_ms)
        return dataclasses.replace(record, headers={"seen": b"yes", "by": None} | dict(record.headers or {}))

    def on_acknowledgement(self, delivery: Delivery | None, error: Exception | None) -> None:
        print(delivery, error)

    def close(self) -> None: ...


class ByLength(Partitioner):
    def partition(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partitions: Sequence[int],
        available: Sequence[int],
    ) -> int:
        return partitions[len(value or b"") % len(partitions)]


def make() -> list[Producer]:
    return [
        Producer(),
        Producer("localhost:9092", serializer="json", key_serializer=UUID, linger_ms=5, acks="all"),
        Producer(["a:9092", "b:9092"], settings={"linger.ms": "5"}, compression_type="zstd", acks=1),
        Producer({"bootstrap.servers": "localhost:9092"}, interceptor_classes=[Stamping()]),
        Producer(
            "localhost:9092", partitioner_class=ByLength(), serializer=lambda value: str(value).encode()
        ),
        Producer(
            "localhost:9092", transactional_id="shop", security_protocol="SASL_SSL", ssl_key_password="x"
        ),
        Producer(transactional_id="shop", transaction_two_phase_commit_enable=True),
    ]


def send(producer: Producer) -> None:
    producer.send("orders", b"value")
    producer.send("orders", headers=[("trace", b"1"), ("trace", None)])
    receipt: Receipt = producer.send(
        "orders", {"id": 1}, key="alice", headers={"trace": "1"}, partition=0, timestamp_ms=5
    )
    ask(receipt)
    producer.flush(timeout=5)
    partitions: list[PartitionInfo] = producer.partitions_for("orders")
    for partition in partitions:
        print(
            partition.index, partition.leader, partition.replicas, partition.isr, partition.offline_replicas
        )
    counts: dict[str, int] = producer.metrics()
    print(producer.settings.get("linger.ms"), counts)
    producer.close(timeout=5)


def send_table(producer: Producer, table: object) -> None:
    producer.send_arrow(table)
    receipt: RowsReceipt = producer.send_arrow(table, topic="orders")
    counts: dict[TopicPartition, int] = receipt.result(timeout=10)
    error: Exception | None = receipt.exception(10)
    is_done: bool = receipt.done()
    print(counts, error, is_done, receipt.count, receipt.result())


def ask(receipt: Receipt) -> None:
    delivery: Delivery = receipt.result(timeout=10)
    place: tuple[str, int, int, int] = (
        delivery.topic,
        delivery.partition,
        delivery.offset,
        delivery.timestamp_ms,
    )
    error: Exception | None = receipt.exception(10)
    is_done: bool = receipt.done()
    receipt.add_done_callback(lambda done: print(done.topic))
    receipt.watch(lambda done: print(done.partition))
    outcome: tuple[Delivery | None, Exception | None] = receipt.outcome()
    receipt.settle()
    print(place, error, is_done, outcome, receipt.topic, receipt.partition)


def transact(producer: Producer, consumer: Consumer) -> None:
    with producer.transaction() as transaction:
        inside(transaction, consumer)
    try:
        producer.begin()
        producer.send_offsets(
            {FIRST: Offset(5, metadata="note")}, GroupMetadata("billing", 3, "member", None)
        )
        producer.commit()
    except errors.ProducerFenced:
        producer.close()
    except errors.PenstockError:
        producer.abort()


def prepare(producer: Producer) -> str:
    found: PreparedTransaction | None = producer.init_transactions(keep_prepared=True)
    if found is not None:
        was_committed: bool = producer.complete_transaction(found)
        print(was_committed)
    producer.begin()
    prepared: PreparedTransaction = producer.prepare_transaction()
    print(prepared.transactional_id, prepared.producer_id, prepared.producer_epoch, prepared.is_empty)
    if prepared.record is not None:
        print(prepared.record.topic, prepared.record.partition, prepared.record.offset)
    assert PreparedTransaction.parse(str(prepared)) == prepared
    return str(prepared)


def inside(transaction: Transaction, consumer: Consumer) -> None:
    transaction.send_offsets(consumer)
    transaction.send_offsets({FIRST: 5}, "billing")


def with_block() -> None:
    with Producer() as producer:
        producer.send("orders", "value")
