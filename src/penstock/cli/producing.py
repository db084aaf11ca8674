"""Records of any source into a topic: what `penstock produce` and Kafka's console producer share."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.cli.ending import producing
from penstock.cli.failures import Refusal, account
from penstock.cli.output import count_of

if TYPE_CHECKING:
    from penstock import Receipt
    from penstock.cli.records.line_reader import NewRecord

NOTE_EVERY = 1_000  # records between two notes of the progress


@dataclass(slots=True)
class Written:
    """What brokers have acknowledged."""

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
    note: Callable[[Written], None] = lambda written: None,
) -> Written:
    """Write all records, and return when they are acknowledged. The first that was not written is raised.

    Ctrl-C ends it at once, and only what is acknowledged by then is told to be written. A failure says the same after
    its reason.
    """
    written = Written()
    sent = 0
    pending: deque[tuple[Receipt, int]] = deque()

    def tell() -> str:
        while pending and _is_written(pending[0][0]):
            written.add(*pending.popleft())
        rest = f"; {sent - written.records:,} more not acknowledged" if sent > written.records else ""
        return f"wrote {written} to {topic}{rest}"

    with (
        account(tell),
        _counting_before_bad_lines(topic, written, pending),
        _reason_first(lambda: f"; {tell()}" if sent else ""),
        producing(settings) as producer,
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
            if waits_for_each:
                receipt.result()
            pending.append((receipt, len(record.value or b"") + len(record.key or b"")))
            while pending and pending[0][0].done():
                written.add(*pending.popleft())
            if sent % NOTE_EVERY == 0:
                note(written)
    for receipt, size in pending:
        written.add(receipt, size)
    return written


@contextmanager
def _counting_before_bad_lines(
    topic: str, written: Written, pending: deque[tuple[Receipt, int]]
) -> Iterator[None]:
    """Have a bad line also say how many records before it were written. The producer inside is closed by then."""
    from penstock.cli.records.line_reader import BadLine

    try:
        yield
    except BadLine as bad:
        for receipt, size in pending:
            if _is_written(receipt):
                written.add(receipt, size)
        raise BadLine(
            f"{bad}; before it, {written} went to {topic}, and nothing after it was written"
        ) from bad


@contextmanager
def _reason_first(tell: Callable[[], str]) -> Iterator[None]:
    """Have a failure begin with its reason and end with what was written. The producer inside is closed by then."""
    from penstock.cli.suggestions import sentence
    from penstock.errors import ClientClosed, DeliveryTimedOut, PenstockError

    try:
        yield
    except (DeliveryTimedOut, ClientClosed) as late:
        reason = late.__cause__
        words = sentence(reason) if isinstance(reason, PenstockError) else sentence(late)
        raise Refusal(f"{words}{tell()}") from late
    except PenstockError as problem:
        if not (told := tell()):
            raise
        raise Refusal(f"{sentence(problem)}{told}") from problem


def _is_written(receipt: Receipt) -> bool:
    return receipt.done() and receipt.exception(0) is None
