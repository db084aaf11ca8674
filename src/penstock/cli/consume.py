"""What `penstock consume` does: where it begins and where it ends. How a record looks is in `records.printers`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.ending import consuming, give_back
from penstock.cli.failures import Misuse, account
from penstock.cli.output import count_of, say
from penstock.cli.records.printers import DEFAULT_LOOK, TABLE_HEAD, Look, make_printer
from penstock.cli.times import EXAMPLES as TIME_EXAMPLES
from penstock.cli.times import parse_time
from penstock.cli.waiting import for_consumer

if TYPE_CHECKING:
    from penstock import Consumer, TopicPartition

BATCH_MAX = 500
POLL_S = 0.5
PROBE_MS = 5_000.0  # after so long without a record before the end, the broker may be away
GROUP_QUIET_MS = 3_000.0  # after so long without a record a group's member is taken to be at the end
GROUP_PATIENCE_MS = 30_000.0  # and after so long without partitions, other members are taken to have them all


@dataclass(frozen=True, slots=True)
class Wish:
    """What to read, and how to show it."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    start: str = "earliest"
    group: str | None = None
    follows: bool = False
    limit: int | None = None
    look: Look = DEFAULT_LOOK

    def check(self) -> None:
        if self.group is not None and self.partitions:
            raise Misuse("a group divides partitions itself; leave out --partition or --group")
        if self.group is not None and self.start not in ("earliest", "latest"):
            raise Misuse(
                "a group goes on where it is; with --group, --from is earliest or latest, for its first time"
            )
        parse_start(self.start, now_ms=0)


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin in a partition. Of the three one is given, or none for the beginning and the end."""

    offset: int | None = None
    before_end: int | None = None
    time_ms: int | None = None
    is_latest: bool = False


def parse_start(text: str, *, now_ms: int) -> Start:
    """What `--from` means."""
    if text in ("earliest", "beginning"):
        return Start()
    if text in ("latest", "end"):
        return Start(is_latest=True)
    if text.isdecimal():
        return Start(offset=int(text))
    if text.startswith("-") and text[1:].isdecimal():
        return Start(before_end=int(text[1:]))
    time_ms = parse_time(text, now_ms=now_ms)
    if time_ms is None:
        raise Misuse(
            f"--from {text}: must be earliest, latest, an offset, -COUNT for so many before the end, {TIME_EXAMPLES}"
        )
    return Start(time_ms=time_ms)


def run(wish: Wish, settings: Mapping[str, object]) -> None:
    """Read and print until the end, the limit, or Ctrl-C."""
    wish.check()
    print_record = make_printer(wish.look, for_consumer(settings))
    chosen = dict(settings)
    if wish.group is not None:
        chosen |= {"group.id": wish.group, "auto.offset.reset": wish.start}
    count = 0
    with (
        account(lambda: f"read {count_of(count, 'record')}"),
        consuming(chosen) as consumer,
    ):
        if wish.group is not None:
            for topic in wish.topics:
                consumer.partitions_for(topic)  # refuses one that does not exist; a group would wait for it
            consumer.subscribe(list(wish.topics))
            ends = None
        else:
            ends = _take_partitions(consumer, wish)
        out = sys.stdout.buffer
        if wish.look.has_head:
            out.write(TABLE_HEAD)
        quiet_ms = 0.0
        while not _is_at_end(consumer, ends, wish, quiet_ms=quiet_ms):
            left = BATCH_MAX if wish.limit is None else min(BATCH_MAX, wish.limit - count)
            began = time.monotonic()
            messages = consumer.poll(timeout=POLL_S, max_records=left)
            quiet_ms = 0.0 if messages else quiet_ms + (time.monotonic() - began) * 1000
            printed = 0
            try:
                for message in messages:
                    if (
                        ends is None
                        or wish.follows
                        or message.offset < ends[message.topic, message.partition]
                    ):
                        count += 1
                        out.write(print_record(message))
                    printed += 1
                out.flush()
            except KeyboardInterrupt:
                give_back(consumer, messages[printed:])
                raise
            if wish.limit is not None and count >= wish.limit:
                break
    if wish.look.has_head and not wish.follows and sys.stdout.isatty():
        say(count_of(count, "record"))


def _take_partitions(consumer: Consumer, wish: Wish) -> dict[tuple[str, int], int]:
    """Take partitions and go where reading begins; where each of them ends now."""
    from penstock import TopicPartition

    partitions: list[TopicPartition] = []
    for topic in wish.topics:
        known = range(len(consumer.partitions_for(topic)))
        if missing := [index for index in wish.partitions if index not in known]:
            raise Misuse(f"{topic} has no partition {missing[0]}: its partitions are 0 to {len(known) - 1}")
        partitions += [TopicPartition(topic, index) for index in wish.partitions or known]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    begins = consumer.beginning_offsets(partitions)
    offsets = _first_offsets(consumer, wish, begins=begins, ends=ends)
    for partition, offset in offsets.items():
        consumer.seek(partition, offset)
    # Nothing is to be read where reading begins at or after the end.
    return {
        (one.topic, one.partition): end if offsets[one] < end else offsets[one] for one, end in ends.items()
    }


def _first_offsets(
    consumer: Consumer,
    wish: Wish,
    *,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    start = parse_start(wish.start, now_ms=time.time_ns() // 1_000_000)
    if start.is_latest:
        return dict(ends)
    if start.time_ms is not None:
        found = consumer.offsets_for_times(dict.fromkeys(ends, start.time_ms))
        return {
            partition: end if (one := found.get(partition)) is None else one.offset
            for partition, end in ends.items()
        }
    if start.before_end is not None:
        return {partition: max(begins[partition], end - start.before_end) for partition, end in ends.items()}
    if start.offset is None:
        return dict(begins)
    return {partition: min(max(begins[partition], start.offset), end) for partition, end in ends.items()}


def _is_at_end(
    consumer: Consumer, ends: Mapping[tuple[str, int], int] | None, wish: Wish, *, quiet_ms: float
) -> bool:
    if wish.follows:
        return False
    if ends is None:
        is_at_end = quiet_ms >= (GROUP_QUIET_MS if consumer.assignment() else GROUP_PATIENCE_MS)
        if is_at_end:
            _check_broker(consumer)
        return is_at_end
    positions = consumer.positions()
    if all(positions.get(one, 0) >= ends[one.topic, one.partition] for one in consumer.assignment()):
        return True
    if quiet_ms >= PROBE_MS:
        _check_broker(consumer)
    return False


def _check_broker(consumer: Consumer) -> None:
    """Raise if no broker answers in time. `poll` itself waits for ever, and returns nothing while a broker is away."""
    if assigned := consumer.assignment():
        consumer.end_offsets(assigned)
    else:
        consumer.topics()
