"""What the node acknowledged about records, and the check that it holds.

An acknowledged produce and a record returned to a consumer are promises: from then on that offset holds that record.
On a topic with flush.messages=1 only deleting the topic or its records ends a promise. On other topics a power cut may
take the end of the log, but only the end, and records written there afterwards have a later leader epoch.

Values name their producer, generation and number, so a log can be checked on its own: the records of a producer are in
the order in which it sent them, without duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.protocol.types import Uuid
from simulator.simulation import BrokenPromise

Key = tuple[Uuid, int]
"""A partition: topic id and index. A topic that was deleted and recreated is a different one."""


class FoundRecord(NamedTuple):
    offset: int
    leader_epoch: int
    value: bytes
    timestamp: int = 0


def make_value(producer: str, generation: int, number: int, padding: int) -> bytes:
    """Numbers rise within a generation. A generation may resend numbers of an earlier one."""
    return f"{producer}/{generation}/{number}/".encode() + b"." * padding


def _sequence_of(value: bytes) -> tuple[bytes, tuple[int, int]]:
    producer, generation, number, _ = value.split(b"/", 3)
    return producer, (int(generation), int(number))


class PartitionLedger:
    def __init__(self, name: str, *, is_durable: bool, may_expire: bool = False) -> None:
        self.name = name
        self.may_expire = may_expire
        """Whether old records expire (retention.ms)."""
        self.is_durable = is_durable
        """Whether promises survive a power cut (flush.messages=1)."""
        self.is_deleted = False
        """Responses about a deleted topic may still arrive, and promise nothing."""
        self.sent: set[bytes] = set()
        self.promised: dict[int, bytes] = {}
        self.acknowledged_count = 0
        self.is_doubtful = False
        """There was a power cut, and the new log end is not known yet. Never true of a durable log."""
        self.has_lost_power = False
        """Whether `is_doubtful` was ever true."""
        self._by_epoch: dict[tuple[int, int], bytes] = {}
        self.start_offset_max = 0
        """The log cannot start later: no client deleted more."""
        self._deletions: list[tuple[float, int]] = []
        self.start_offset_min = 0
        """The log cannot start earlier: this deletion is on disk."""

    # Promises

    def acknowledged(self, base_offset: int, values: Sequence[bytes]) -> None:
        if self.is_deleted:
            return
        for offset, value in enumerate(values, base_offset):
            self._promise(offset, value, "was acknowledged")
        self.acknowledged_count += len(values)

    def read(self, record: FoundRecord) -> None:
        """A record was returned to a consumer."""
        if self.is_deleted:
            return
        if record.value not in self.sent:
            raise self._broken(f"offset {record.offset} holds {record.value!r}, which no client sent here")
        self._promise(record.offset, record.value, "was read")
        known = self._by_epoch.setdefault((record.offset, record.leader_epoch), record.value)
        if known != record.value:
            raise self._broken(
                f"offset {record.offset} was {known!r} and is now {record.value!r},"
                f" both in leader epoch {record.leader_epoch}"
            )

    def _promise(self, offset: int, value: bytes, how: str) -> None:
        known = self.promised.setdefault(offset, value)
        if known != value:
            raise self._broken(f"offset {offset} {how} as {value!r}, but {known!r} was promised there")

    # Deletions

    def deletion_asked(self, offset: int) -> None:
        self.start_offset_max = max(self.start_offset_max, offset)

    def deletion_acknowledged(self, offset: int, *, now: float) -> None:
        self._deletions.append((now, offset))

    def node_ended(self, *, persisted_until: float) -> None:
        """Deletions acknowledged before then are on disk; the others may be lost."""
        kept = [offset for at, offset in self._deletions if at < persisted_until]
        self.start_offset_min = max([self.start_offset_min, *kept])
        self._deletions.clear()

    # Power cuts

    def power_lost(self) -> None:
        if not self.is_durable:
            self.is_doubtful = self.has_lost_power = True

    def found_after_power_cut(self, end_offset: int) -> None:
        """A log that is not durable now ends here, so later promises end. The whole log may be lost."""
        self.is_doubtful = False
        if end_offset == 0:
            self.start_offset_min = 0
        self.promised = {offset: value for offset, value in self.promised.items() if offset < end_offset}

    # Checks

    def end_of_promises(self) -> int:
        """The log cannot end before this offset."""
        return max(self.promised, default=-1) + 1

    def check_log(
        self,
        start_offset: int,
        records: Iterable[FoundRecord],
        *,
        promised: dict[int, bytes],
        end_offset: int,
    ) -> None:
        """Check a whole log. `records` are all records from `start_offset` on; `promised` are the promises made before
        the read.
        """
        self.check_start(start_offset)
        last: dict[bytes, tuple[int, int]] = {}
        expected_offset = start_offset
        for record in records:
            if record.offset != expected_offset:
                raise self._broken(f"offset {expected_offset} is missing; {record.offset} comes next")
            expected_offset += 1
            producer, sequence = _sequence_of(record.value)
            if producer in last and sequence <= last[producer]:
                raise self._broken(
                    f"offset {record.offset} holds {record.value!r}, a duplicate or out of order after {last[producer]}"
                )
            last[producer] = sequence
        if expected_offset < end_offset:
            raise self._broken(f"ends at {end_offset}, but nothing was found from {expected_offset} on")
        lost = [offset for offset in promised if offset >= expected_offset]
        if lost:
            raise self._broken(
                f"ends at {expected_offset}, and {len(lost)} promised records from offset {min(lost)} on are lost"
            )

    def check_start(self, start_offset: int) -> None:
        if start_offset > self.start_offset_max and not self.may_expire:
            raise self._broken(
                f"starts at {start_offset}, but nothing from {self.start_offset_max} on was deleted"
            )
        if start_offset < self.start_offset_min:
            raise self._broken(
                f"starts at {start_offset}, but everything before {self.start_offset_min} was deleted durably"
            )

    def _broken(self, complaint: str) -> BrokenPromise:
        return BrokenPromise(f"{self.name}: {complaint}")


class Ledger:
    """All partitions that ever existed, by topic id and index."""

    def __init__(self) -> None:
        self.partitions: dict[Key, PartitionLedger] = {}
        self.producer_ids: set[int] = set()

    def get(self, topic: str, topic_id: Uuid, index: int) -> PartitionLedger:
        found = self.partitions.get((topic_id, index))
        if found is None:
            name = f"{topic}-{index}"
            found = self.partitions[topic_id, index] = PartitionLedger(
                name, is_durable=is_durable(topic), may_expire=may_expire(topic)
            )
        return found

    def forget(self, topic_id: Uuid) -> None:
        """The topic was deleted, which ends its promises."""
        for key, partition in self.partitions.items():
            if key[0] == topic_id:
                partition.is_deleted = True

    def producer_id_given(self, producer_id: int) -> None:
        if producer_id in self.producer_ids:
            raise BrokenPromise(f"producer id {producer_id} was assigned twice")
        self.producer_ids.add(producer_id)

    def node_ended(self, *, persisted_until: float, lost_power: bool) -> None:
        for partition in self.partitions.values():
            partition.node_ended(persisted_until=persisted_until)
            if lost_power:
                partition.power_lost()

    def acknowledged_count(self) -> int:
        return sum(partition.acknowledged_count for partition in self.partitions.values())


DURABLE = "durable"
"""Topics with this prefix always have flush.messages=1; other topics may have any setting."""


EXPIRING = "expiring"
"""Topics with this suffix have a short retention.ms."""


def is_durable(topic: str) -> bool:
    return topic.startswith(DURABLE)


def may_expire(topic: str) -> bool:
    return topic.endswith(EXPIRING)
