"""Batches to which a producer appends record by record, and the receipts of their records, in plain Python.

A `ProducerBatch` lives from its first record until it is known what became of all of them: it takes records in wire
form, is sealed (compressed, stamped with its producer's numbers and a checksum), perhaps several times because a retry
may need another epoch, perhaps split because the broker finds it too large, and is completed or failed exactly once.
A `Receipt` is one record's view of that: its batch and its index. Batches do not know their receipts, unless somebody
asked for a callback; so a receipt that nobody keeps costs nothing further.

`_appender.pyx` says the same in C, and tests hold them equal. Appending takes no lock here: `intake_twin` does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any

from penstock.records.batch import (
    HEADER_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Buffer,
    Compression,
    Headers,
)
from penstock.records.compression import compress
from penstock.records.delivery import Delivery, Waiting, plain_headers, resolve, tell
from penstock.records.twin import append_record, iterate_records, stamp_header
from penstock.records.varint import wrap_int64

# Batches are completed on one thread and asked about on others: what must not change between two lines is under this.
_lock = threading.RLock()

MURMUR_SEED = 0x9747B28C
MURMUR_FACTOR = 0x5BD1E995
_32_BITS = 0xFFFF_FFFF


def murmur2(data: Buffer) -> int:
    """Kafka's hash of a key, as a signed 32-bit number."""
    data = bytes(data)
    mixed = MURMUR_SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * MURMUR_FACTOR & _32_BITS
        word ^= word >> 24
        mixed = (mixed * MURMUR_FACTOR & _32_BITS) ^ (word * MURMUR_FACTOR & _32_BITS)
    if rest := data[whole:]:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * MURMUR_FACTOR & _32_BITS
    mixed ^= mixed >> 13
    mixed = mixed * MURMUR_FACTOR & _32_BITS
    mixed ^= mixed >> 15
    return mixed - (1 << 32) if mixed >> 31 else mixed


class ProducerBatch:
    def __init__(self, topic: str, partition: int, waiting: Waiting | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.waiting = waiting
        self.record_count = 0
        self.is_done = False
        self.error: Exception | None = None
        self.base_offset = -1
        self.append_time_ms = -1
        self.asked_count = 0
        # Kept here for whoever sends it.
        self.created_ms = 0
        self.charged_bytes = 0
        self.attempts = 0
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self._buffer = bytearray(HEADER_BYTES)
        self._base_timestamp = 0
        self._max_timestamp = 0
        self._sealed: bytearray | None = None
        self._attributes = 0
        self._record_errors: Mapping[int, Exception] | None = None
        self._parts: list[ProducerBatch] | None = None
        self._event: threading.Event | None = None
        self._callbacks: list[tuple[Receipt, Callable[[Receipt], object]]] = []

    @property
    def size_bytes(self) -> int:
        """What it takes uncompressed, with its header."""
        return len(self._buffer)

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Headers = ()
    ) -> Receipt:
        """Add a record of bytes or None and pairs; the receipt of it."""
        if self._sealed is not None or self.is_done:
            raise ValueError("a batch that was sealed takes no more records")
        pairs = plain_headers(headers)
        key = None if key is None else bytes(key)
        value = None if value is None else bytes(value)
        if self.record_count == 0:
            self._base_timestamp = self._max_timestamp = timestamp
        delta = wrap_int64(timestamp - self._base_timestamp)
        append_record(self._buffer, delta, self.record_count, key, value, tuple(pairs))
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.record_count += 1
        return Receipt(self, self.record_count - 1, timestamp)

    def seal(
        self,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        is_transactional: bool = False,
    ) -> memoryview:
        """The batch as it goes over the wire, stamped with its producer's id, epoch and sequence as they are now.

        It takes no more records. Records are compressed the first time, and only the header is written anew after.
        """
        if self.record_count == 0:
            raise ValueError("a batch has one record at least")
        if self._sealed is None:
            self._attributes = compression | (TRANSACTIONAL_MASK if is_transactional else 0)
            self._sealed = bytearray(HEADER_BYTES)
            self._sealed += compress(compression, memoryview(self._buffer)[HEADER_BYTES:], level)
        stamp_header(
            self._sealed,
            BatchHeader(
                base_offset=0,
                size_bytes=0,
                leader_epoch=NO_LEADER_EPOCH,
                magic=MAGIC,
                crc=0,
                attributes=self._attributes,
                last_offset_delta=self.record_count - 1,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                record_count=self.record_count,
            ),
        )
        return memoryview(self._sealed)

    def split(self, limit_bytes: int) -> list[ProducerBatch]:
        """Batches of at most so many bytes, or of one record, that stand for this one from now on: its receipts tell of
        theirs. Calls nobody."""
        if self._sealed is None:
            raise ValueError("only a batch that was sealed can be split")
        parts: list[ProducerBatch] = []
        for record in iterate_records(self._sealed):
            size = len(record.key or b"") + len(record.value or b"")
            if not parts or parts[-1].size_bytes + size > limit_bytes:
                part = ProducerBatch(self.topic, self.partition, self.waiting)
                part.created_ms, part.attempts = self.created_ms, self.attempts
                parts.append(part)
            parts[-1].append(record.timestamp, record.key, record.value, record.headers)
        with _lock:
            callbacks, self._callbacks = self._callbacks, []
            self._parts = parts
            for receipt, callback in callbacks:
                receipt.settle().add_callback(receipt, callback)
            if self._event is not None:
                self._event.set()  # whoever waits looks again, and finds the parts
        return parts

    def complete(self, base_offset: int, append_time_ms: int = -1) -> None:
        """It was written; whoever waits is told, callbacks included."""
        self.base_offset = base_offset
        self.append_time_ms = append_time_ms
        self._finish()

    def fail(self, error: Exception, record_errors: Mapping[int, Exception] | None = None) -> None:
        """It was not, and will not be. `record_errors` are exceptions by index, where they differ from `error`."""
        self.error = error
        self._record_errors = record_errors
        self._finish()

    def add_callback(self, receipt: Receipt, callback: Callable[[Receipt], object]) -> bool:
        """False where it comes too late: the batch is done, or was split."""
        with _lock:
            if self.is_done or self._parts is not None:
                return False
            self._callbacks.append((receipt, callback))
            return True

    def wait_for_change(self, timeout: float | None) -> bool:
        """Return when the batch is done, or was split; False where that did not happen in so many seconds."""
        with _lock:
            if self.is_done or self._parts is not None:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout)

    def parts_of(self, first: int, count: int) -> list[tuple[ProducerBatch, int, int]]:
        """Where these records stand now, as batches with a first index and a count: here, or in the parts of it."""
        if self._parts is None:
            return [(self, first, count)]
        found = []
        start = 0
        for part in self._parts:
            begin, end = max(first, start), min(first + count, start + part.record_count)
            if begin < end:
                found += part.parts_of(begin - start, end - begin)
            start += part.record_count
        return found

    def ask(self, count: int) -> None:
        """The application asks for so many of its records."""
        with _lock:
            self.asked_count += count

    @property
    def odd_records(self) -> list[int]:
        """Indexes of records that were refused for a reason of their own."""
        return sorted(self._record_errors or ())

    def watch(self, callback: Callable[[Receipt], object]) -> None:
        """Have `callback(receipt)` called, with a receipt of its last record, when it is done; at once where it is."""
        Receipt(self, self.record_count - 1, self._max_timestamp).watch(callback)

    @property
    def has_unasked_failure(self) -> bool:
        """Whether it failed and there is a record whose receipt nobody asked."""
        return self.error is not None and self.asked_count < self.record_count

    def part_of(self, index: int) -> tuple[ProducerBatch, int]:
        """The batch that has this record now, and the record's index there."""
        batch = self
        while batch._parts is not None:
            for part in batch._parts:
                if index < part.record_count:
                    break
                index -= part.record_count
            batch = part
        return batch, index

    def error_of(self, index: int) -> Exception | None:
        """Why a record was not written; None where it was."""
        if self.error is None or self._record_errors is None:
            return self.error
        return self._record_errors.get(index, self.error)

    def _finish(self) -> None:
        with _lock:
            self.is_done = True
            if self._event is not None:
                self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for receipt, callback in callbacks:
            tell(callback, receipt)


class Receipt:
    """What `send` gives: a promise that tells what becomes of the record."""

    __slots__ = ("_batch", "_index", "_is_asked", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp
        self._is_asked = False

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    def done(self) -> bool:
        """Whether it is known what became of the record."""
        return self.settle().is_done

    def result(self, timeout: float | None = None) -> Delivery:
        """Where the record was written; waits for that, and raises why it was not. `timeout` is in seconds."""
        self._wait(timeout)
        return self._delivery()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Why the record was not written, or None where it was; waits like `result`."""
        self._wait(timeout)
        return self._batch.error_of(self._index)

    def add_done_callback(self, callback: Callable[[Receipt], object]) -> None:
        """Have `callback(receipt)` called when it is known what became of the record; at once where it is already.

        It is called on the client's own thread or loop, so it must not block.
        """
        self._ask()
        self.watch(callback)

    def watch(self, callback: Callable[[Receipt], object]) -> None:
        """Have `callback(receipt)` called like any other, without that counting as a question of the application."""
        while not (batch := self.settle()).is_done:
            if batch.add_callback(self, callback):
                return
        tell(callback, self)

    def outcome(self) -> tuple[Delivery | None, Exception | None]:
        """The delivery and the error, one of which is None; of a record that is done, and not as a question."""
        error = self._batch.error_of(self._index)
        return (self._delivery(), None) if error is None else (None, error)

    def __await__(self) -> Generator[Any, None, Delivery]:
        batch = self._ask()
        if not batch.is_done:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self.watch(lambda receipt: resolve(future, loop))
            yield from future.__await__()
        return self._delivery()

    def __repr__(self) -> str:
        batch = self.settle()
        state = "pending" if not batch.is_done else "failed" if batch.error_of(self._index) else "written"
        return f"<Receipt of {batch.topic}-{batch.partition}, {state}>"

    def settle(self) -> ProducerBatch:
        """Follow the batch to the part of it that has the record, where it was split."""
        with _lock:
            batch, self._index = self._batch.part_of(self._index)
            if batch is not self._batch and self._is_asked:
                batch.asked_count += 1
            self._batch = batch
            return batch

    def _ask(self) -> ProducerBatch:
        with _lock:
            batch = self.settle()
            if not self._is_asked:
                self._is_asked = True
                batch.asked_count += 1
            return batch

    def _wait(self, timeout: float | None) -> None:
        batch = self._ask()
        while not batch.is_done:
            assert batch.waiting is not None, "whoever makes a batch that is waited for says how"
            batch.waiting.wait_for(batch, timeout)
            batch = self.settle()

    def _delivery(self) -> Delivery:
        batch = self._batch
        error = batch.error_of(self._index)
        if error is not None:
            raise error.with_traceback(None)
        return Delivery(
            batch.topic,
            batch.partition,
            batch.base_offset + self._index if batch.base_offset >= 0 else -1,
            batch.append_time_ms if batch.append_time_ms >= 0 else self._timestamp,
        )


def place_of(receipt: Receipt) -> tuple[ProducerBatch, int]:
    """The batch that has a receipt's record now, and the record's index there."""
    batch = receipt.settle()
    return batch, receipt._index
