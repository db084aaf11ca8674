"""Consume, transform, produce with kafka-python, with the order and events of compat.transactions.transformers."""

import warnings

warnings.simplefilter("ignore")

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata  # noqa: E402, after warnings are silenced
from kafka.errors import KafkaError  # noqa: E402
from transformer_host import Order, report, run_until_stopped, transformed  # noqa: E402

POLL_MS = 2_000  # see kafka_python_members


def transform(order):
    producer = KafkaProducer(
        bootstrap_servers=order.bootstrap,
        transactional_id=order.transactional_id,
        **order.producer_settings,
    )
    consumer = KafkaConsumer(
        order.input,
        bootstrap_servers=order.bootstrap,
        group_id=order.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=order.batch_records,
        **order.consumer_settings,
    )
    try:
        producer.init_transactions()
        while not order.ending.is_set():
            try:
                found = consumer.poll(timeout_ms=POLL_MS)
            except KafkaError as error:
                if not error.retriable:
                    raise
                continue  # the broker is down for a moment
            if found and not transform_batch(order, producer, consumer, found):
                for partition in consumer.assignment():
                    consumer.seek(partition, consumer.committed(partition) or 0)
    finally:
        consumer.close()
        producer.close(timeout=5)


def transform_batch(order, producer, consumer, found):
    count = sum(map(len, found.values()))
    producer.begin_transaction()
    try:
        for partition, records in found.items():
            for record in records:
                value = transformed(partition.partition, record.offset, record.value)
                producer.send(order.output, value, key=record.key, partition=partition.partition)
        ends = {
            partition: OffsetAndMetadata(records[-1].offset + 1, "", -1)
            for partition, records in found.items()
        }
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        if not order.is_to_abort():
            producer.commit_transaction()
            report("committed", count)
            return True
    except KafkaError as error:
        producer.abort_transaction()
        report("aborted", count, repr(error))
        return False
    producer.abort_transaction()
    report("aborted", count, "on purpose")
    return False


def is_worth_another(error):
    return isinstance(error, KafkaError)


if __name__ == "__main__":
    run_until_stopped(Order(), transform, is_worth_another)
