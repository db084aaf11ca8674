"""What the node promised about records, and the complaint when it breaks a promise.

A promise is made when a produce is acknowledged and when a consumer is given a record: from then on that offset
holds that record. On a topic with flush.messages=1 nothing ends such a promise but the deletion of the topic or of the
records. On any other topic the page cache is all there is: a power cut may take the end of the log, but only the
end, and what is written there afterwards belongs to a later leader epoch.

Values name their producer, generation and number, so that a log can be checked by itself: a producer's records
stand in the order in which it sent them, and none stands there twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.protocol.types import Uuid
from penstock.testing.simulation import BrokenPromise

Key = tuple[Uuid, int]
"""A partition: the topic's id and the index. A topic that was deleted and made anew is another one."""


class FoundRecord(NamedTuple):
    offset: int
    leader_epoch: int
    value: bytes
    timestamp: int = 0


def make_value(producer: str, generation: int, number: int, padding: int) -> bytes:
    """Within one generation numbers rise; a generation may send the numbers of an earlier one again."""
    return f"{producer}/{generation}/{number}/".encode() + b"." * padding


def _place_of(value: bytes) -> tuple[bytes, tuple[int, int]]:
    producer, generation, number, _ = value.split(b"/", 3)
    return producer, (int(generation), int(number))


class PartitionLedger:
    def __init__(self, name: str, *, is_durable: bool, may_expire: bool = False) -> None:
        self.name = name
        self.may_expire = may_expire
        """Whether old records go by themselves (retention.ms)."""
        self.is_durable = is_durable
        """Whether what is promised survives a power cut (flush.messages=1)."""
        self.is_deleted = False
        """Answers about a deleted topic may still be on their way, and promise nothing."""
        self.sent: set[bytes] = set()
        self.promised: dict[int, bytes] = {}
        self.acknowledged_count = 0
        self.is_doubtful = False
        """A power cut came, and nobody has looked what it left; only for a log that is not durable."""
        self.has_lost_power = False
        """As `is_doubtful`, at any time."""
        self._by_epoch: dict[tuple[int, int], bytes] = {}
        self.start_offset_max = 0
        """The log can not start later: nobody asked for more to be deleted."""
        self._deletions: list[tuple[float, int]] = []
        self.start_offset_min = 0
        """The log can not start earlier: this deletion is on disk."""

    # Promises

    def acknowledged(self, base_offset: int, values: Sequence[bytes]) -> None:
        if self.is_deleted:
            return
        for offset, value in enumerate(values, base_offset):
            self._promise(offset, value, "was acknowledged")
        self.acknowledged_count += len(values)

    def read(self, record: FoundRecord) -> None:
        """A consumer was given this record."""
        if self.is_deleted:
            return
        if record.value not in self.sent:
            raise self._broken(f"offset {record.offset} holds {record.value!r}, which nobody sent here")
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
            raise self._broken(f"offset {offset} {how} as {value!r}, but was promised to {known!r}")

    # Deletions

    def deletion_asked(self, offset: int) -> None:
        self.start_offset_max = max(self.start_offset_max, offset)

    def deletion_acknowledged(self, offset: int, *, now: float) -> None:
        self._deletions.append((now, offset))

    def node_ended(self, *, persisted_until: float) -> None:
        """Deletions that were acknowledged before then are on disk; of the others nobody can be sure."""
        kept = [offset for at, offset in self._deletions if at < persisted_until]
        self.start_offset_min = max([self.start_offset_min, *kept])
        self._deletions.clear()

    # Power cuts

    def power_lost(self) -> None:
        if not self.is_durable:
            self.is_doubtful = self.has_lost_power = True

    def found_after_power_cut(self, end_offset: int) -> None:
        """A log that is not durable ends here: promises beyond are void. It may even be gone altogether."""
        self.is_doubtful = False
        if end_offset == 0:
            self.start_offset_min = 0
        self.promised = {offset: value for offset, value in self.promised.items() if offset < end_offset}

    # Checks

    def end_of_promises(self) -> int:
        """The log can not end before this offset."""
        return max(self.promised, default=-1) + 1

    def check_log(
        self,
        start_offset: int,
        records: Iterable[FoundRecord],
        *,
        promised: dict[int, bytes],
        end_offset: int,
    ) -> None:
        """`records` are all that a consumer finds from `start_offset` on, and `promised` what had been promised before
        it began to look.
        """
        self.check_start(start_offset)
        last: dict[bytes, tuple[int, int]] = {}
        expected_offset = start_offset
        for record in records:
            if record.offset != expected_offset:
                raise self._broken(f"offset {expected_offset} is missing; {record.offset} comes next")
            expected_offset += 1
            producer, place = _place_of(record.value)
            if producer in last and place <= last[producer]:
                raise self._broken(
                    f"offset {record.offset} holds {record.value!r}, twice or out of order after {last[producer]}"
                )
            last[producer] = place
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
                f"starts at {start_offset}, but nothing from {self.start_offset_max} on was ever deleted"
            )
        if start_offset < self.start_offset_min:
            raise self._broken(
                f"starts at {start_offset}, but all before {self.start_offset_min} was deleted for good"
            )

    def _broken(self, complaint: str) -> BrokenPromise:
        return BrokenPromise(f"{self.name}: {complaint}")


class Ledger:
    """All partitions that ever were, by topic id and index."""

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
        """The topic was deleted, and its promises with it."""
        for key, partition in self.partitions.items():
            if key[0] == topic_id:
                partition.is_deleted = True

    def producer_id_given(self, producer_id: int) -> None:
        if producer_id in self.producer_ids:
            raise BrokenPromise(f"producer id {producer_id} was given out twice")
        self.producer_ids.add(producer_id)

    def node_ended(self, *, persisted_until: float, lost_power: bool) -> None:
        for partition in self.partitions.values():
            partition.node_ended(persisted_until=persisted_until)
            if lost_power:
                partition.power_lost()

    def acknowledged_count(self) -> int:
        return sum(partition.acknowledged_count for partition in self.partitions.values())


DURABLE = "durable"
"""Topics whose names begin so have flush.messages=1 all their life; the others have what they like."""


EXPIRING = "expiring"
"""Topics whose names end so have a short retention.ms."""


def is_durable(topic: str) -> bool:
    return topic.startswith(DURABLE)


def may_expire(topic: str) -> bool:
    return topic.endswith(EXPIRING)
