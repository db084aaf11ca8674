"""Every call of an async producer, with its results. Never run: type checkers read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from uuid import UUID

from penstock import errors
from penstock.aio import (
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


async def send(producer: Producer) -> None:
    await producer.send("orders", b"value")
    await producer.send("orders", headers=[("trace", b"1"), ("trace", None)])
    receipt: Receipt = await producer.send(
        "orders", {"id": 1}, key="alice", headers={"trace": "1"}, partition=0, timestamp_ms=5
    )
    await ask(receipt)
    await producer.flush(timeout=5)
    partitions: list[PartitionInfo] = await producer.partitions_for("orders")
    for partition in partitions:
        print(
            partition.index, partition.leader, partition.replicas, partition.isr, partition.offline_replicas
        )
    counts: dict[str, int] = producer.metrics()
    print(producer.settings.get("linger.ms"), counts)
    await producer.close(timeout=5)


async def send_table(producer: Producer, table: object) -> None:
    await producer.send_arrow(table)
    receipt: RowsReceipt = await producer.send_arrow(table, topic="orders")
    counts: dict[TopicPartition, int] = await receipt
    error: Exception | None = receipt.exception(10)
    is_done: bool = receipt.done()
    print(counts, error, is_done, receipt.count, receipt.result())


async def ask(receipt: Receipt) -> None:
    delivery: Delivery = await receipt
    same: Delivery = receipt.result()
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
    print(same, place, error, is_done, outcome, receipt.topic, receipt.partition)


async def transact(producer: Producer, consumer: Consumer) -> None:
    async with producer.transaction() as transaction:
        await inside(transaction, consumer)
    try:
        await producer.begin()
        await producer.send_offsets(
            {FIRST: Offset(5, metadata="note")}, GroupMetadata("billing", 3, "member", None)
        )
        await producer.commit()
    except errors.ProducerFenced:
        await producer.close()
    except errors.PenstockError:
        await producer.abort()


async def prepare(producer: Producer) -> str:
    found: PreparedTransaction | None = await producer.init_transactions(keep_prepared=True)
    if found is not None:
        was_committed: bool = await producer.complete_transaction(found)
        print(was_committed)
    await producer.begin()
    prepared: PreparedTransaction = await producer.prepare_transaction()
    print(prepared.transactional_id, prepared.producer_id, prepared.producer_epoch, prepared.is_empty)
    if prepared.record is not None:
        print(prepared.record.topic, prepared.record.partition, prepared.record.offset)
    assert PreparedTransaction.parse(str(prepared)) == prepared
    return str(prepared)


async def inside(transaction: Transaction, consumer: Consumer) -> None:
    await transaction.send_offsets(consumer)
    await transaction.send_offsets({FIRST: 5}, "billing")


async def with_block() -> None:
    async with Producer() as producer:
        await producer.send("orders", "value")
