"""Checks that a log holds every acknowledged record: once, at its offset, in order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

from confluent_kafka import Consumer, TopicPartition

from harness.wire import WireConnection, end_offset
from torture.writers import Ledger

READ_SECONDS = 300.0
SHOWN_COUNT = 5


def read_partition(port: int, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """All records that a consumer reads: (offset, value)."""
    with WireConnection(port) as connection:
        end = end_offset(connection, topic, partition)
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "error", "check.crcs": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + READ_SECONDS
    while not found or found[-1][0] < end - 1:
        for message in consumer.consume(10_000, timeout=1.0):
            assert message.error() is None, message.error()
            found.append((message.offset(), message.value()))
        assert time.monotonic() < deadline, f"{topic}-{partition}: read {len(found)} of {end} in time"
    consumer.close()
    return found


def faults(found: Sequence[tuple[int, bytes]], ledger: Ledger, *, is_complete: bool) -> list[str]:
    """The faults of one partition; empty if there are none."""
    name = f"partition {ledger.partition}"
    faults = [f"{name}: {error}" for error in ledger.errors[:SHOWN_COUNT]]
    offsets = [offset for offset, _ in found]
    if offsets != list(range(len(found))):
        gap = next(at for at, offset in enumerate(offsets) if at != offset)
        faults.append(f"{name}: offsets are not contiguous, {offsets[gap]} is where {gap} should be")
    by_offset = dict(found)
    lost = [offset for offset, value in ledger.acknowledged.items() if by_offset.get(offset) != value]
    faults += [
        f"{name}: offset {offset} was acknowledged for {ledger.acknowledged[offset]!r}, found {by_offset.get(offset)!r}"
        for offset in lost[:SHOWN_COUNT]
    ]
    if len(lost) > SHOWN_COUNT:
        faults.append(f"{name}: and {len(lost) - SHOWN_COUNT} more acknowledged records are missing")
    sequences = [int(value.rpartition(b":")[2]) for _, value in found]
    for before, after in pairwise(sequences):
        if after <= before:
            faults.append(f"{name}: record {after} comes after {before}: a duplicate, or out of order")
            break
    if is_complete and sequences != list(range(ledger.sent)):
        missing = len(set(range(ledger.sent)) - set(sequences))
        faults.append(f"{name}: of {ledger.sent} records, {missing} are missing and {len(found)} are there")
    return faults
