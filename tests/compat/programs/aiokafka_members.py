"""Group members of aiokafka, with the commands and events of compat.groups.members."""

import asyncio
import contextlib
import sys
import traceback

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError
from member_host import Member, orders

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, member, consumer):
        self.member = member
        self.consumer = consumer

    async def on_partitions_revoked(self, revoked):
        # From before this call to after the next one the library delivers nothing.
        if revoked:
            await commit(self.consumer)
            self.member.report("revoked", revoked)

    async def on_partitions_assigned(self, assigned):
        self.member.report("assigned", assigned)


async def commit(consumer):
    """Records that cannot be committed, because the group has a new generation, are read again; the test decides
    whether that is allowed."""
    with contextlib.suppress(CommitFailedError):
        await consumer.commit()


async def run(member):
    settings = dict(member.order["settings"])
    assignor = ASSIGNORS[settings.pop("assignor")]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=member.order["bootstrap"],
        group_id=member.order["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignor],
        **settings,
    )
    await consumer.start()
    consumer.subscribe(member.order["topics"], listener=Listener(member, consumer))
    try:
        while not member.leaving.is_set():
            found = await consumer.getmany(timeout_ms=50)
            for records in found.values():
                for record in records:
                    member.read(record.partition, record.offset, record.value)
            member.tell_records()
            if found:
                await commit(consumer)
        assignment = consumer.assignment()
        if assignment:
            member.report("revoked", assignment)
    finally:
        await consumer.stop()


async def guarded(member):
    try:
        await run(member)
        member.report("left")
    except Exception:
        member.report("failed", error=traceback.format_exc()[-3000:])


async def main():
    members, tasks = {}, []
    lines = orders()
    while order := await asyncio.to_thread(next, lines, None):
        if order["do"] == "join":
            member = members[order["member"]] = Member(order)
            tasks.append(asyncio.create_task(guarded(member)))
        else:
            members[order["member"]].leaving.set()
    for member in members.values():
        member.leaving.set()
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
