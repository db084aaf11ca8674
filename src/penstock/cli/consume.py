"""`penstock consume`: where it starts and ends. `records.printers` formats the records."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli.clients import open_consumer, seek_back
from penstock.cli.failures import Misuse, report_when_stopped
from penstock.cli.output import count_of, say
from penstock.cli.records.printers import DEFAULT_STYLE, TABLE_HEADER, RecordStyle, make_printer
from penstock.cli.timeouts import for_calls
from penstock.cli.times import EXAMPLES as TIME_EXAMPLES
from penstock.cli.times import parse_time

if TYPE_CHECKING:
    from penstock import Consumer, TopicPartition

BATCH_MAX = 500
POLL_S = 0.5
PROBE_MS = 5_000.0  # without a record for this long before the end, check that the broker is available
GROUP_QUIET_MS = 3_000.0  # without a record for this long, a member of a group is at the end
GROUP_PATIENCE_MS = 30_000.0  # without partitions for this long, other members have them all


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """What to read, and how to print it."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    start: str = "earliest"
    group: str | None = None
    follows: bool = False
    limit: int | None = None
    style: RecordStyle = DEFAULT_STYLE

    def check(self) -> None:
        if self.group is not None and self.partitions:
            raise Misuse("give --partition or --group, not both: a group assigns partitions itself")
        if self.group is not None and self.start not in ("earliest", "latest"):
            raise Misuse(
                "with --group, --from must be earliest or latest: it applies only if the group has no committed offset"
            )
        parse_start(self.start, now_ms=0)


@dataclass(frozen=True, slots=True)
class Start:
    """Where to start in a partition: at most one of the first three is set; none means the beginning or the end."""

    offset: int | None = None
    before_end: int | None = None
    time_ms: int | None = None
    is_latest: bool = False


def parse_start(text: str, *, now_ms: int) -> Start:
    """The value of `--from`."""
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
            f"--from {text}: must be earliest, latest, an offset, -COUNT for the last COUNT records, {TIME_EXAMPLES}"
        )
    return Start(time_ms=time_ms)


def run(options: ConsumeOptions, settings: Mapping[str, object]) -> None:
    """Read and print until the end, the limit, or Ctrl-C."""
    options.check()
    print_record = make_printer(options.style, for_calls(settings))
    chosen = dict(settings)
    if options.group is not None:
        chosen |= {"group.id": options.group, "auto.offset.reset": options.start}
    count = 0
    with (
        report_when_stopped(lambda: f"read {count_of(count, 'record')}"),
        open_consumer(chosen) as consumer,
    ):
        if options.group is not None:
            for topic in options.topics:
                consumer.partitions_for(topic)  # fails if it does not exist; a group would wait for it
            consumer.subscribe(list(options.topics))
            ends = None
        else:
            ends = _assign_partitions(consumer, options)
        out = sys.stdout.buffer
        if options.style.has_header:
            out.write(TABLE_HEADER)
        quiet_ms = 0.0
        while not _is_at_end(consumer, ends, options, quiet_ms=quiet_ms):
            left = BATCH_MAX if options.limit is None else min(BATCH_MAX, options.limit - count)
            began = time.monotonic()
            messages = consumer.poll(timeout=POLL_S, max_records=left)
            quiet_ms = 0.0 if messages else quiet_ms + (time.monotonic() - began) * 1000
            printed = 0
            try:
                for message in messages:
                    if (
                        ends is None
                        or options.follows
                        or message.offset < ends[message.topic, message.partition]
                    ):
                        count += 1
                        out.write(print_record(message))
                    printed += 1
                out.flush()
            except KeyboardInterrupt:
                seek_back(consumer, messages[printed:])
                raise
            if options.limit is not None and count >= options.limit:
                break
    if options.style.has_header and not options.follows and sys.stdout.isatty():
        say(count_of(count, "record"))


def _assign_partitions(consumer: Consumer, options: ConsumeOptions) -> dict[tuple[str, int], int]:
    """Assign the partitions and seek to the start. Returns the current end of each."""
    from penstock import TopicPartition

    partitions: list[TopicPartition] = []
    for topic in options.topics:
        known = range(len(consumer.partitions_for(topic)))
        if missing := [index for index in options.partitions if index not in known]:
            raise Misuse(f"{topic} has no partition {missing[0]}: its partitions are 0 to {len(known) - 1}")
        partitions += [TopicPartition(topic, index) for index in options.partitions or known]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    begins = consumer.beginning_offsets(partitions)
    offsets = _first_offsets(consumer, options, begins=begins, ends=ends)
    for partition, offset in offsets.items():
        consumer.seek(partition, offset)
    # Nothing to read if the start is at or after the end.
    return {
        (one.topic, one.partition): end if offsets[one] < end else offsets[one] for one, end in ends.items()
    }


def _first_offsets(
    consumer: Consumer,
    options: ConsumeOptions,
    *,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    start = parse_start(options.start, now_ms=time.time_ns() // 1_000_000)
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
    consumer: Consumer,
    ends: Mapping[tuple[str, int], int] | None,
    options: ConsumeOptions,
    *,
    quiet_ms: float,
) -> bool:
    if options.follows:
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
    """Raise if no broker answers in time. `poll` itself waits forever and returns nothing."""
    if assigned := consumer.assignment():
        consumer.end_offsets(assigned)
    else:
        consumer.topics()
