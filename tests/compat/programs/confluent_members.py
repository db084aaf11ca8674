"""Group members of confluent-kafka, with the commands and events of compat.groups.members."""

import contextlib

from confluent_kafka import Consumer, KafkaException
from member_host import run_in_threads

BATCH_RECORDS = 100


def run(member):
    fatal = []
    consumer = Consumer(
        {
            "bootstrap.servers": member.order["bootstrap"],
            "group.id": member.order["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            "error_cb": lambda error: fatal.append(error) if error.fatal() else None,
            **member.order["settings"],
        }
    )

    def on_revoke(consumer, partitions):
        member.tell_records()
        with contextlib.suppress(KafkaException):  # nothing was read since the last commit
            consumer.commit(asynchronous=False)
        member.report("revoked", partitions)

    consumer.subscribe(
        member.order["topics"],
        on_assign=lambda _, partitions: member.report("assigned", partitions),
        on_revoke=on_revoke,
        on_lost=lambda _, partitions: member.report("lost", partitions),
    )
    while not member.leaving.is_set():
        message = consumer.poll(0.05)
        count = 0
        while message is not None and count < BATCH_RECORDS:
            if message.error() is None:
                member.read(message.partition(), message.offset(), message.value())
                count += 1
            elif message.error().fatal():
                raise KafkaException(message.error())
            message = consumer.poll(0)
        if message is not None and message.error() is None:
            member.read(message.partition(), message.offset(), message.value())
        if fatal:
            raise KafkaException(fatal[0])
        member.tell_records()
        if count:
            consumer.commit(asynchronous=True)
    consumer.close()


if __name__ == "__main__":
    run_in_threads(run)
