"""What a fetch brought of one partition, as messages, in plain Python: reference and fallback for `_fetched.pyx`.

`FetchedRecords` steps through the bytes of an answer and makes a `Message` only when one is asked for. It leaves out
what no consumer may see (control records, and with `aborted` given the records of aborted transactions) and what lies
before the position that was asked for.

Invariant: `next_offset` is the place from which a reader who has all that was given so far goes on; a message that
cannot be given (damaged bytes, a decoder that raises) is never passed over: asking again raises again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, NoReturn

from penstock.records.batch import (
    ATTRIBUTES_AT,
    CRC_START,
    HEADER_BYTES,
    LENGTH_AT,
    LENGTH_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Buffer,
    Record,
    TimestampType,
)
from penstock.records.column_twin import OFFSET_MAX, ColumnBuilder
from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.records.crc import crc32c
from penstock.records.errors import CorruptBatch, InvalidBatch, RecordsError, UnsupportedMagic
from penstock.records.message_twin import MESSAGE_BYTES_MIN
from penstock.records.twin import iterate_records, read_header
from penstock.records.varint import wrap_int64

ABORT_KEY = b"\x00\x00\x00\x00"  # version 0, type 0: how the key of an abort marker begins
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_INT32 = Struct(">i")
_INT64 = Struct(">q")


@dataclass(frozen=True, slots=True)
class Message:
    """One record of a topic, as a consumer is given it; never changes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = NO_TIMESTAMP
    """Milliseconds since 1970, or -1 where the record has no time."""

    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """Whether the time is the producer's or that of the broker's append."""

    key: Any = None
    value: Any = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    leader_epoch: int | None = None

    @property
    def time(self) -> datetime.datetime | None:
        """`timestamp_ms` as a datetime in UTC."""
        return message_time(self.timestamp_ms)

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_message, (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )


def rebuild_message(*fields: Any) -> Message:
    """Unpickles a message, whichever of the two implementations wrote it."""
    from penstock.records import kernel

    return kernel.Message(*fields)


def message_time(timestamp_ms: int) -> datetime.datetime | None:
    """None where there is no time, or one that no calendar of Python's reaches."""
    if timestamp_ms == NO_TIMESTAMP:
        return None
    try:
        return EPOCH + datetime.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None


class FetchedRecords:
    """The bytes of one partition in a fetch answer; an iterator of messages."""

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_at",
        "_batch_start",
        "_checks_crcs",
        "_decode_key",
        "_decode_value",
        "_end",
        "_explain",
        "_failure",
        "_limit_bytes",
        "_next_batch_offset",
        "_pending",
        "_reader",
        "_view",
        "end_epoch",
        "end_offset",
        "is_exhausted",
        "leader_epoch",
        "next_offset",
        "partition",
        "size_bytes",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        records: Buffer,
        position: int,
        *,
        aborted: Sequence[tuple[int, int]] | None = None,
        checks_crcs: bool = True,
        decode_key: Callable[[bytes], Any] | None = None,
        decode_value: Callable[[bytes], Any] | None = None,
        explain: Callable[[Exception, int, bytes | None, bool], BaseException] | None = None,
        limit_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        """`aborted` are pairs of producer id and first offset, as the answer has them, and None for a reader who
        wants everything. `decode_key` and `decode_value` make what the reader wants to see of bytes. `explain` makes of
        what went wrong the exception to raise: it is given the error, the offset, the bytes that could not be decoded
        (None where the records themselves are damaged) and whether they are a key."""
        self.topic = topic
        self.partition = partition
        self.next_offset = position
        self.leader_epoch = NO_LEADER_EPOCH
        """Of the batch that `next_offset` follows; -1 before the first."""

        self.is_exhausted = False
        self.size_bytes = len(records)
        self._view = memoryview(records)
        self._aborted = (
            None if aborted is None else sorted((offset, producer) for producer, offset in aborted)
        )
        self._aborted_producers: set[int] = set()
        self._checks_crcs = checks_crcs
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._explain = explain
        self._limit_bytes = limit_bytes
        self._at = 0
        self._batch_start = 0
        self._next_batch_offset = position
        self._reader: Iterator[Record] | None = None
        self._pending: list[Message] = []
        self._failure: BaseException | None = None
        self.end_offset, self.end_epoch, self._end = self._survey(position)
        """Where the next fetch begins, and the leader epoch of what stands before it."""

    def _survey(self, position: int) -> tuple[int, int, int]:
        """Go from header to header up to an incomplete one, or to one that is for `_next_batch` to complain of."""
        at, end_offset, end_epoch = 0, position, NO_LEADER_EPOCH
        view = self._view
        while len(view) - at > MAGIC_AT:
            size = _INT32.unpack_from(view, at + LENGTH_AT)[0] + LENGTH_BYTES
            if size < _size_min(view[at + MAGIC_AT]):
                return end_offset, end_epoch, len(view)
            if size > len(view) - at:
                break
            if view[at + MAGIC_AT] > MAGIC:
                return end_offset, end_epoch, len(view)
            offset, epoch = _end_of(view, at)
            if offset > end_offset:
                end_offset, end_epoch = offset, epoch
            at += size
        return end_offset, end_epoch, at

    def __iter__(self) -> FetchedRecords:
        return self

    def __next__(self) -> Message:
        message = self._next()
        if message is None:
            raise StopIteration
        return message

    def take(self, count_max: int) -> list[Message]:
        """Up to `count_max` messages; fewer only at the end, or before one that cannot be given."""
        messages: list[Message] = []
        try:
            while len(messages) < count_max:
                message = self._next()
                if message is None:
                    break
                messages.append(message)
        except Exception:
            if not messages:  # otherwise it is raised when its turn comes
                raise
        return messages

    def fill(self, builder: ColumnBuilder, *, end_offset: int = OFFSET_MAX, rows_max: int) -> bool:
        """Append whole batches to `builder` until it has `rows_max` rows; False where nothing is left below
        `end_offset`."""
        if self._failure is not None:
            raise self._failure
        if self._reader is not None:  # half of a batch was given as messages
            self._reader, self._at = None, self._batch_start
        self._pending.clear()
        try:
            while builder.row_count < rows_max:
                if self.next_offset >= end_offset:
                    return False
                if not self._next_batch():
                    self.is_exhausted = True
                    return False
                if _INT64.unpack_from(self._view, self._batch_start)[0] >= end_offset:
                    self._at = self._batch_start
                    return False
                batch, start = self._view, self._batch_start
                if self._view[start + MAGIC_AT] != MAGIC:
                    batch, start = memoryview(self._as_batch()), 0
                builder.append(
                    batch,
                    start,
                    first_offset=self.next_offset,
                    end_offset=end_offset,
                    limit_bytes=self._limit_bytes,
                )
                if self._next_batch_offset > end_offset:  # for whoever wants the rest
                    self._at = self._batch_start
                self._pass_to(min(self._next_batch_offset, end_offset))
        except RecordsError as error:
            self._fail(error)
        return True

    def drop(self) -> None:
        """Give nothing more: the reader goes on elsewhere."""
        self._reader = None
        self._failure = None
        self._pending.clear()
        self._next_batch_offset = self.next_offset
        self._at = self._end
        self.is_exhausted = True

    def _next(self) -> Message | None:
        """The next message, decoded; the one that cannot be is kept for the next time."""
        message = self._pending.pop() if self._pending else self._read()
        if message is None:
            self.is_exhausted = True
            return None
        if self._decode_key is not None or self._decode_value is not None:
            message = self._decode(message)
        self.next_offset = message.offset + 1
        return message

    def _decode(self, message: Message) -> Message:
        key, value = message.key, message.value
        is_key = True
        try:
            if key is not None and self._decode_key is not None:
                key = self._decode_key(key)
            is_key = False
            if value is not None and self._decode_value is not None:
                value = self._decode_value(value)
        except BaseException as error:
            self._pending.append(message)
            if self._explain is not None and isinstance(error, Exception):
                data = message.key if is_key else message.value
                raise self._explain(error, message.offset, data, is_key) from error
            raise
        return replace(message, key=key, value=value)

    def _read(self) -> Message | None:
        if self._failure is not None:
            raise self._failure
        try:
            while True:
                if self._pending:
                    return self._pending.pop()
                if self._reader is None:
                    self._pass_to(self._next_batch_offset)
                    if not self._next_batch():
                        return None
                    self._open_batch()
                    continue
                record = next(self._reader, None)
                if record is None:
                    self._reader = None
                elif record.offset >= self.next_offset:
                    return self._message(record, self._timestamp_type(), self.leader_epoch)
        except RecordsError as error:
            self._fail(error)

    def _fail(self, error: RecordsError) -> NoReturn:
        """From now on nothing is given."""
        self._failure = error
        if self._explain is not None:
            self._failure = self._explain(error, self.next_offset, None, False)
            raise self._failure from error
        raise error

    def _next_batch(self) -> bool:
        """Find the next batch with records to show; the offsets of others are passed."""
        view = self._view
        while self._at < self._end:
            start = self._at
            magic = view[start + MAGIC_AT]
            size = _INT32.unpack_from(view, start + LENGTH_AT)[0] + LENGTH_BYTES
            if magic > MAGIC:
                raise UnsupportedMagic(f"format {magic} at {start} is not batch format {MAGIC}")
            if not _size_min(magic) <= size <= len(view) - start:
                raise CorruptBatch(f"the batch at {start} claims {size} of {len(view) - start} bytes")
            self._batch_start, self._at = start, start + size
            self._next_batch_offset, self.leader_epoch = _end_of(view, start)
            if magic < MAGIC:
                return True
            header = read_header(view, start)
            if self._checks_crcs:
                crc = crc32c(view[start + CRC_START : start + size])
                if crc != header.crc:
                    raise CorruptBatch(
                        f"the batch at {start} has checksum {crc:#x}, its header says {header.crc:#x}"
                    )
            is_aborted = self._is_aborted(header)  # asked for markers too, which end what it notes
            if not header.is_control and not is_aborted:
                return True
            if is_aborted and header.is_control and self._is_abort_marker():
                self._aborted_producers.discard(header.producer_id)
            self._pass_to(self._next_batch_offset)
        return False

    def _is_aborted(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to a transaction that was aborted."""
        if self._aborted is None or not header.has_producer_id:
            return False
        while self._aborted and self._aborted[0][0] < self._next_batch_offset:
            self._aborted_producers.add(self._aborted.pop(0)[1])
        return header.is_transactional and header.producer_id in self._aborted_producers

    def _is_abort_marker(self) -> bool:
        records = iter(iterate_records(self._view, self._batch_start, limit_bytes=self._limit_bytes))
        record = next(records, None)
        return record is not None and (record.key or b"").startswith(ABORT_KEY)

    def _open_batch(self) -> None:
        start = self._batch_start
        if self._view[start + MAGIC_AT] == MAGIC:
            self._reader = iter(iterate_records(self._view, start, limit_bytes=self._limit_bytes))
            return
        records, timestamp_type = read_old_message(self._view[start : self._at], self._limit_bytes)
        self._pending = [
            self._message(record, timestamp_type, NO_LEADER_EPOCH)
            for record in reversed(records)
            if record.offset >= self.next_offset
        ]

    def _as_batch(self) -> bytearray:
        """The message of an old format at the start of the batch, as a batch."""
        return old_message_as_batch(self._view[self._batch_start : self._at], self._limit_bytes)

    def _timestamp_type(self) -> TimestampType:
        attributes = self._view[self._batch_start + ATTRIBUTES_AT + 1]
        return TimestampType((attributes & TIMESTAMP_TYPE_MASK) >> 3)

    def _message(self, record: Record, timestamp_type: TimestampType, leader_epoch: int) -> Message:
        return Message(
            self.topic,
            self.partition,
            record.offset,
            record.timestamp,
            timestamp_type,
            record.key,
            record.value,
            tuple(record.headers),
            None if leader_epoch == NO_LEADER_EPOCH else leader_epoch,
        )

    def _pass_to(self, offset: int) -> None:
        self.next_offset = max(self.next_offset, offset)


class MessageStream:
    """Messages one after another without end; `refill` is asked for a source and how many of it to give at most.

    It is asked only when the next message is wanted, so that whatever it does (rebalance, commit) happens between two
    messages. None ends the stream.
    """

    __slots__ = ("_left", "_refill", "_source")

    def __init__(self, refill: Callable[[], tuple[FetchedRecords, int] | None]) -> None:
        self._refill = refill
        self._source: FetchedRecords | None = None
        self._left = 0

    def __iter__(self) -> MessageStream:
        return self

    def __next__(self) -> Message:
        while True:
            if self._source is not None and self._left > 0:
                message = next(self._source, None)
                if message is not None:
                    self._left -= 1
                    return message
            self._source = None
            following = self._refill()
            if following is None:
                raise StopIteration
            self._source, self._left = following


def read_old_message(view: Buffer, limit_bytes: int) -> tuple[list[Record], TimestampType]:
    """The records of one message of format 0 or 1, which may be a wrapper of many."""
    from penstock.records.message_set import read_message_set  # which imports the kernel

    messages = read_message_set(view, limit_bytes=limit_bytes)
    return messages.records, messages.timestamp_type


def old_message_as_batch(view: Buffer, limit_bytes: int) -> bytearray:
    from penstock.records import kernel

    records, timestamp_type = read_old_message(view, limit_bytes)
    try:
        return kernel.build_batch(records, timestamp_type=timestamp_type)
    except ValueError as exc:
        raise InvalidBatch(f"a message set does not fit a batch: {exc}") from exc


def _size_min(magic: int) -> int:
    return LENGTH_BYTES + MESSAGE_BYTES_MIN if magic < MAGIC else HEADER_BYTES


def _end_of(view: memoryview, at: int) -> tuple[int, int]:
    """The offset after the batch or message at `at`, and its leader epoch."""
    if view[at + MAGIC_AT] < MAGIC:
        return wrap_int64(_INT64.unpack_from(view, at)[0] + 1), NO_LEADER_EPOCH
    header = read_header(view, at)
    return wrap_int64(header.next_offset), header.leader_epoch
