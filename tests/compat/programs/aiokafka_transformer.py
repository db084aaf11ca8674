"""Consume, transform, produce with aiokafka, with the order and events of compat.transactions.transformers."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from transformer_host import Order, report, run_until_stopped, transformed


async def transform(order):
    common = {"bootstrap_servers": order.bootstrap, "retry_backoff_ms": 50}
    producer = AIOKafkaProducer(transactional_id=order.transactional_id, **common, **order.producer_settings)
    consumer = AIOKafkaConsumer(
        order.input,
        group_id=order.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=order.batch_records,
        **common,
        **order.consumer_settings,
    )
    await producer.start()  # this also ends the open transaction of an earlier producer with this id
    try:
        await consumer.start()
        try:
            while not order.ending.is_set():
                found = await consumer.getmany(timeout_ms=50)
                if found and not await transform_batch(order, producer, consumer, found):
                    await rewind(consumer)
        finally:
            await consumer.stop()
    finally:
        await producer.stop()


async def transform_batch(order, producer, consumer, found):
    count = sum(map(len, found.values()))
    await producer.begin_transaction()
    for partition, records in found.items():
        for record in records:
            value = transformed(partition.partition, record.offset, record.value)
            await producer.send(order.output, value, key=record.key, partition=partition.partition)
    ends = {partition: records[-1].offset + 1 for partition, records in found.items()}
    await producer.send_offsets_to_transaction(ends, order.group)
    if order.is_to_abort():
        await producer.abort_transaction()
        report("aborted", count, "on purpose")
        return False
    await producer.commit_transaction()
    report("committed", count)
    return True


async def rewind(consumer):
    for partition in consumer.assignment():
        consumer.seek(partition, await consumer.committed(partition) or 0)


def is_worth_another(error):
    return isinstance(error, KafkaError)


if __name__ == "__main__":
    run_until_stopped(Order(), lambda order: asyncio.run(transform(order)), is_worth_another)
