"""Records of any source into a topic: what `penstock produce` and Kafka's console producer share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.cli.failures import account
from penstock.cli.output import count_of

if TYPE_CHECKING:
    from penstock.cli.records.line_reader import NewRecord

NOTE_EVERY = 1_000  # records between two notes of the progress


@dataclass(slots=True)
class Written:
    """What was handed to the producer, and after `write_records` has returned, written."""

    records: int = 0
    bytes: int = 0
    partitions: Counter[int] = field(default_factory=Counter)

    def __str__(self) -> str:
        return f"{count_of(self.records, 'record')} ({count_of(self.bytes, 'byte')})"


def standard_input(prompt: str | None = None) -> Iterator[str]:
    """Lines of stdin, whatever bytes are in them; with a prompt before each where a person types them."""
    stream = sys.stdin
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    while True:
        if prompt is not None:
            print(prompt, end="", flush=True)
        line = stream.readline()
        if not line:
            return
        yield line


def write_records(
    topic: str,
    records: Iterable[NewRecord],
    settings: Mapping[str, object],
    *,
    waits_for_each: bool = False,
    counts_partitions: bool = False,
    note: Callable[[Written], None] = lambda written: None,
) -> Written:
    """Write all records, and return when they are written. The first that was not is raised.

    Ctrl-C ends it at once: what the producer already has is still sent, within its own time limit, and told.
    """
    from penstock import Producer

    written = Written()
    with account(lambda: f"wrote {written} to {topic}"), Producer(dict(settings)) as producer:
        for record in records:
            receipt = producer.send(
                topic,
                record.value,
                key=record.key,
                headers=record.headers or None,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            if waits_for_each:
                receipt.result()
            written.records += 1
            written.bytes += len(record.value or b"") + len(record.key or b"")
            if counts_partitions:
                written.partitions[receipt.partition] += 1
            if written.records % NOTE_EVERY == 0:
                note(written)
    return written
