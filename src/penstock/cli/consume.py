"""What `penstock consume` does: where it begins, where it ends, and how each record is printed."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.cli.ending import consuming, give_back
from penstock.cli.failures import Misuse, account
from penstock.cli.output import count_of, printable, say, show_time, to_json
from penstock.cli.records.formatters import ReadRecord
from penstock.cli.records.line_reader import from_bytes

if TYPE_CHECKING:
    from penstock import Consumer, TopicPartition

BATCH_MAX = 500
POLL_S = 0.5
PROBE_MS = 5_000.0  # after so long without a record before the end, the broker may be away
GROUP_QUIET_MS = 3_000.0  # after so long without a record a group's member is taken to be at the end
GROUP_PATIENCE_MS = 30_000.0  # and after so long without partitions, other members are taken to have them all
KEY_WIDTH = 16

AGO = re.compile(r"(\d+)(ms|s|m|h|d)")
AGO_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

PrintRecord = Callable[[ReadRecord], bytes]


@dataclass(frozen=True, slots=True)
class Wish:
    """What to read, and how to show it."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...] = ()
    start: str = "earliest"
    group: str | None = None
    follows: bool = False
    limit: int | None = None
    format: str = "table"
    template: str | None = None
    separator: str = "\n"

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
    if match := AGO.fullmatch(text):
        return Start(time_ms=now_ms - int(match[1]) * AGO_MS[match[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(
            f"--from {text}: must be earliest, latest, an offset, -COUNT for so many before the end, "
            "a time such as 2026-03-14T09:26, or how long ago, such as 15m"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Start(time_ms=round(moment.timestamp() * 1000))


def run(wish: Wish, settings: Mapping[str, object]) -> None:
    """Read and print until the end, the limit, or Ctrl-C."""
    wish.check()
    print_record = make_printer(wish)
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
        if wish.format == "table" and wish.template is None:
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
    if wish.format == "table" and not wish.follows and sys.stdout.isatty():
        say(count_of(count, "record"))


def _take_partitions(consumer: Consumer, wish: Wish) -> dict[tuple[str, int], int]:
    """Take partitions and go where reading begins; where each of them ends now."""
    from penstock import TopicPartition

    partitions: list[TopicPartition] = []
    for topic in wish.topics:
        known = range(len(consumer.partitions_for(topic)))
        if missing := [index for index in wish.partitions if index not in known]:
            raise Misuse(f"{topic} has partitions 0 to {len(known) - 1}, and no {missing[0]}")
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


# -- how a record looks


def make_printer(wish: Wish) -> PrintRecord:
    """What is printed for a record, with the end of its line."""
    if wish.template is not None:
        return _template(wish.template)
    match wish.format:
        case "json":
            return _json
        case "raw":
            end = wish.separator.encode()
            return lambda message: (message.value or b"") + end
        case "key-value":
            return lambda message: (message.key or b"") + b"\t" + (message.value or b"") + b"\n"
        case _:
            return _row


TABLE_HEAD = (
    f"{'topic':<16}  {'partition':>9}  {'offset':>10}  {'timestamp':<24}  {'key':<{KEY_WIDTH}}  value\n"
).encode()


def _row(message: ReadRecord) -> bytes:
    headers = " ".join(f"{name}={_text(value)}" for name, value in message.headers)
    return (
        f"{message.topic:<16}  {message.partition:>9}  {message.offset:>10}  {show_time(message.timestamp_ms):<24}  "
        f"{_text(message.key):<{KEY_WIDTH}}  {_text(message.value)}{f'  [{headers}]' if headers else ''}\n"
    ).encode("utf-8", "backslashreplace")


def _json(message: ReadRecord) -> bytes:
    facts = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": from_bytes(message.key),
        "value": from_bytes(message.value),
        "headers": [[name, from_bytes(value)] for name, value in message.headers],
    }
    return f"{to_json(facts)}\n".encode()


def _template(template: str) -> PrintRecord:
    """A text with names in braces, which is checked before anything is read."""
    names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    text = template.replace("\\n", "\n").replace("\\t", "\t")
    try:
        text.format(**dict.fromkeys(names, ""))
    except (KeyError, IndexError, ValueError) as problem:
        raise Misuse(
            f"--template {template}: {problem} is not known; braces may hold {', '.join(names)}"
        ) from problem

    def print_record(message: ReadRecord) -> bytes:
        filled = text.format(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            timestamp=show_time(message.timestamp_ms),
            key=_text(message.key),
            value=_text(message.value),
            headers=",".join(f"{name}={_text(value)}" for name, value in message.headers),
        )
        return f"{filled}\n".encode("utf-8", "backslashreplace")

    return print_record


def _text(data: bytes | None) -> str:
    return "-" if data is None else printable(data.decode("utf-8", "backslashreplace"))
