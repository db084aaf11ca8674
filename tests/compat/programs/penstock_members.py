"""Group members of Penstock's own client, with the commands and events of compat.groups.members."""

import contextlib

from member_host import run_in_threads

from penstock import Consumer, errors


class Listener:
    def __init__(self, member, consumer):
        self.member = member
        self.consumer = consumer

    def on_partitions_assigned(self, partitions):
        self.member.report("assigned", partitions)

    def on_partitions_revoked(self, partitions):
        self.member.tell_records()
        self.consumer.commit()
        self.member.report("revoked", partitions)

    def on_partitions_lost(self, partitions):
        self.member.report("lost", partitions)


def run(member):
    consumer = Consumer(
        settings={
            "bootstrap.servers": member.order["bootstrap"],
            "group.id": member.order["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **member.order["settings"],
        }
    )
    consumer.subscribe(member.order["topics"], listener=Listener(member, consumer))
    while not member.leaving.is_set():
        messages = consumer.poll(timeout=0.05)
        for message in messages:
            member.read(message.partition, message.offset, message.value)
        member.tell_records()
        if messages:
            with contextlib.suppress(errors.CommitFailed, errors.RebalanceInProgress):
                consumer.commit()
    consumer.close()


if __name__ == "__main__":
    run_in_threads(run)
