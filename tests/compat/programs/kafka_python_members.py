"""Group members of kafka-python, the newest or that of 2019, with the commands and events of compat.groups.members."""

import warnings

warnings.simplefilter("ignore")

from kafka import ConsumerRebalanceListener, KafkaConsumer  # noqa: E402, after warnings are silenced
from kafka.coordinator.assignors.range import RangePartitionAssignor  # noqa: E402
from kafka.errors import KafkaError  # noqa: E402
from member_host import run_in_threads  # noqa: E402

try:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
except ImportError:
    CooperativeStickyAssignor = None  # before 3.0

# It returns at once when there are records. A shorter timeout may end in the middle of a rebalance; kafka-python
# 3.0.12 then considers it done, and waits forever.
POLL_MS = 2_000
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Listener(ConsumerRebalanceListener):
    def __init__(self, member):
        self.member = member

    def on_partitions_revoked(self, partitions):
        self.member.report("revoked", partitions)

    def on_partitions_lost(self, partitions):
        self.member.report("lost", partitions)

    def on_partitions_assigned(self, partitions):
        self.member.report("assigned", partitions)


def run(member):
    settings = dict(member.order["settings"])
    assignor = ASSIGNORS[settings.pop("assignor")]
    if "api_version" in settings:
        settings["api_version"] = tuple(settings["api_version"])
    consumer = KafkaConsumer(
        bootstrap_servers=member.order["bootstrap"],
        group_id=member.order["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=True,  # its listener must not commit; it commits itself before a rebalance and at the end
        auto_commit_interval_ms=100,
        partition_assignment_strategy=[assignor],
        **settings,
    )
    consumer.subscribe(member.order["topics"], listener=Listener(member))
    while not member.leaving.is_set():
        try:
            found = consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as error:
            if not error.retriable:
                raise
            continue  # the broker is down for a moment
        for records in found.values():
            for record in records:
                member.read(record.partition, record.offset, record.value)
        member.tell_records()
    # It leaves without calling its listener; from here on it reads nothing.
    member.report("revoked", consumer.assignment())
    consumer.close()


if __name__ == "__main__":
    run_in_threads(run)
