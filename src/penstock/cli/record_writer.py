"""Write records to a topic; shared by `penstock produce` and Kafka's console producer."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.cli.clients import open_producer
from penstock.cli.failures import Refusal, report_when_stopped
from penstock.cli.output import count_of

if TYPE_CHECKING:
    from penstock import Receipt
    from penstock.cli.records.line_reader import NewRecord

PROGRESS_EVERY = 1_000  # records between two progress updates


@dataclass(slots=True)
class Written:
    """The acknowledged records."""

    records: int = 0
    bytes: int = 0
    partitions: Counter[int] = field(default_factory=Counter)

    def add(self, receipt: Receipt, size: int) -> None:
        self.records += 1
        self.bytes += size
        self.partitions[receipt.partition] += 1

    def __str__(self) -> str:
        return f"{count_of(self.records, 'record')} ({count_of(self.bytes, 'byte')})"


def standard_input(prompt: str | None = None) -> Iterator[str]:
    """Lines of stdin with any bytes, with an optional prompt before each."""
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
    on_progress: Callable[[Written], None] = lambda written: None,
) -> Written:
    """Write all records, and return when they are acknowledged. Raises the error of the first that failed.

    Ctrl-C stops at once. Then, and on an error, the message also counts the records acknowledged so far.
    """
    written = Written()
    sent = 0
    pending: deque[tuple[Receipt, int]] = deque()

    def summary() -> str:
        while pending and _is_written(pending[0][0]):
            written.add(*pending.popleft())
        rest = f"; {sent - written.records:,} more not acknowledged" if sent > written.records else ""
        return f"wrote {written} to {topic}{rest}"

    with (
        report_when_stopped(summary),
        _count_before_bad_line(topic, written, pending),
        _reason_first(lambda: f"; {summary()}" if sent else ""),
        open_producer(settings) as producer,
    ):
        for record in records:
            receipt = producer.send(
                topic,
                record.value,
                key=record.key,
                headers=record.headers or None,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            sent += 1
            pending.append((receipt, len(record.value or b"") + len(record.key or b"")))
            if waits_for_each:
                receipt.result()  # after the append, so that Ctrl-C during this wait still counts the record
            while pending and pending[0][0].done():
                written.add(*pending.popleft())
            if sent % PROGRESS_EVERY == 0:
                on_progress(written)
    for receipt, size in pending:
        written.add(receipt, size)
    return written


@contextmanager
def _count_before_bad_line(
    topic: str, written: Written, pending: deque[tuple[Receipt, int]]
) -> Iterator[None]:
    """Add to the error of a bad line how many records before it were written. The producer is closed by then."""
    from penstock.cli.records.line_reader import BadLine

    try:
        yield
    except BadLine as bad:
        for receipt, size in pending:
            if _is_written(receipt):
                written.add(receipt, size)
        raise BadLine(f"{bad}; wrote {written} before it to {topic}, and nothing after it") from bad


@contextmanager
def _reason_first(summary: Callable[[], str]) -> Iterator[None]:
    """Begin an error with its reason and end it with the summary. The producer is closed by then."""
    from penstock.cli.suggestions import sentence
    from penstock.errors import ClientClosed, DeliveryTimedOut, PenstockError

    try:
        yield
    except (DeliveryTimedOut, ClientClosed) as late:
        reason = late.__cause__
        message = sentence(reason) if isinstance(reason, PenstockError) else sentence(late)
        raise Refusal(f"{message}{summary()}") from late
    except PenstockError as problem:
        if not (text := summary()):
            raise
        raise Refusal(f"{sentence(problem)}{text}") from problem


def _is_written(receipt: Receipt) -> bool:
    return receipt.done() and receipt.exception(0) is None
