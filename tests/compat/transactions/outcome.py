"""The result of a pipeline: whether its output matches its input one to one, and whether a transaction is open."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from harness.admin import WAIT_SECONDS, admin
from harness.load import Offset

READ_SECONDS = 120.0  # for a busy machine, and a broker that restarts meanwhile
SHOWN_COUNT = 5
Found = Mapping[int, Sequence[bytes]]
"""The values of an output, by partition, in order."""


class Reader:
    """Reads an output while it grows, with read_committed."""

    def __init__(
        self, bootstrap: str, topic: str, partition_count: int, *, isolation: str = "read_committed"
    ) -> None:
        self.found: dict[int, list[bytes]] = {number: [] for number in range(partition_count)}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "check.crcs": True,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in self.found])

    @property
    def count(self) -> int:
        return sum(map(len, self.found.values()))

    def read_until(self, count: int, *, errors: Sequence[str] = ()) -> None:
        """Read until there are so many values, or an error."""
        deadline = time.monotonic() + READ_SECONDS
        while self.count < count and not errors:
            assert time.monotonic() < deadline, (
                f"read {self.count} of {count} in {READ_SECONDS:.0f} s: {[*map(len, self.found.values())]}"
            )
            self.read(0.05)

    def read(self, wait_s: float) -> None:
        for message in self._consumer.consume(1_000, timeout=wait_s):
            if message.error() is None:
                self.found[message.partition()].append(message.value())

    def close(self) -> None:
        self._consumer.close()


def read_all(bootstrap: str, topic: str, partition_count: int, *, isolation: str) -> dict[int, list[bytes]]:
    """All values visible with an isolation level."""
    ends = end_offsets(bootstrap, topic, partition_count, isolation=isolation)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partition_count)])
    found: dict[int, list[bytes]] = {number: [] for number in range(partition_count)}
    reached: dict[int, int] = {}
    deadline = time.monotonic() + READ_SECONDS
    # Markers are not returned, so only the library's end-of-partition event shows how far it read.
    while any(reached.get(number, -1) < end for number, end in ends.items()):
        assert time.monotonic() < deadline, f"read up to {reached} of {ends} in time"
        for message in consumer.consume(1_000, timeout=0.1):
            if message.error() is None:
                found[message.partition()].append(message.value())
            else:
                reached[message.partition()] = message.offset()
    consumer.close()
    return found


def end_offsets(bootstrap: str, topic: str, partition_count: int, *, isolation: str) -> dict[int, int]:
    client = admin(bootstrap)
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partition_count)}
    level = IsolationLevel[isolation.upper()]
    answers = client.list_offsets(wanted, isolation_level=level)
    return {place.partition: future.result(WAIT_SECONDS).offset for place, future in answers.items()}


def open_partitions(bootstrap: str, topic: str, partition_count: int) -> list[int]:
    """Partitions in which an open transaction blocks read_committed consumers."""
    stable = end_offsets(bootstrap, topic, partition_count, isolation="read_committed")
    ends = end_offsets(bootstrap, topic, partition_count, isolation="read_uncommitted")
    return [number for number in range(partition_count) if stable[number] < ends[number]]


def faults(written: Mapping[Offset, int], found: Found) -> list[str]:
    """The differences between an output and its input, one to one and in order; empty if there are none."""
    result = []
    for partition, values in found.items():
        expected = [
            b"%d:%d:%d" % (partition, offset, number)
            for (its_partition, offset), number in sorted(written.items())
            if its_partition == partition
        ]
        if list(values) == expected:
            continue
        known, seen = set(expected), set(values)
        name = f"partition {partition}"
        missing = [value for value in expected if value not in seen]
        strange = [value for value in values if value not in known]
        twice = len(values) - len(seen)
        if missing:
            result.append(f"{name}: {len(missing)} of {len(expected)} are missing: {missing[:SHOWN_COUNT]}")
        if strange:
            result.append(f"{name}: {len(strange)} were never written: {strange[:SHOWN_COUNT]}")
        if twice:
            repeated = (
                [value for at, value in enumerate(values) if value in set(values[:at])] if twice < 100 else []
            )
            result.append(f"{name}: {twice} are there twice: {repeated[:SHOWN_COUNT]}")
        if not (missing or strange or twice):
            at = next(at for at, value in enumerate(values) if value != expected[at])
            result.append(f"{name}: out of order at {at}: {values[at]!r} instead of {expected[at]!r}")
    return result
