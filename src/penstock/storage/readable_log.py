"""The part of a log that is for looking: what it is, what it holds, and where that is found.

Nothing here changes the log. `log.Log` is the rest: how it is written, made safe, shortened and closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.protocol.types import Uuid
from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.runtime.network import FileSlice
from penstock.storage.errors import OffsetOutOfRange, StorageError
from penstock.storage.layout import LOG_SUFFIX
from penstock.storage.loading import LoadedLog
from penstock.storage.reading import Reader, TimedBatch, TimestampedOffset
from penstock.storage.segment import Segment
from penstock.storage.segments import Segments
from penstock.storage.settings import NEVER, LogSettings
from penstock.storage.transactions.aborted import AbortedTransaction
from penstock.storage.volume import Volume


class ReadableLog:
    __slots__ = (
        "_has_flush_policy",
        "_reader",
        "_refusal",
        "_segments",
        "_settings",
        "end_offset",
        "epochs",
        "folder",
        "high_watermark",
        "partition",
        "producers",
        "start_offset",
        "topic",
        "topic_id",
        "volume",
    )

    def __init__(
        self,
        volume: Volume,
        *,
        topic: str,
        partition: int,
        topic_id: Uuid,
        settings: LogSettings,
        loaded: LoadedLog,
    ) -> None:
        self.volume = volume
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.folder = loaded.folder
        self.start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.high_watermark = loaded.start_offset
        """Set by the partition's owner; retention and the checkpoint of high watermarks read it."""
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.settings = settings
        self._segments = Segments(loaded.segments)
        for segment in self._segments:
            segment.allow_blocking_reads(False)
        self._reader = Reader(self._segments)
        self._refusal: Callable[[], StorageError] | None = None
        """Why nothing can be done with this log any more, if so."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def directory(self) -> str:
        """The entry of `log.dirs` that holds this log."""
        return self.volume.path

    @property
    def settings(self) -> LogSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: LogSettings) -> None:
        self._settings = settings
        self._has_flush_policy = settings.flush_messages != NEVER or settings.flush_ms != NEVER

    # Reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int,
        at_least_one: bool,
        aborted: list[AbortedTransaction] | None = None,
    ) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, below `end_offset` (exclusive), of one segment.

        None where there is nothing, or where not even one batch fits `max_bytes` and `at_least_one` does not
        insist. Transactions that were aborted and may have records in the slice are added to `aborted`.
        """
        log_end_offset = self.end_offset
        if self._refusal is not None:
            raise self._refusal()
        if not self.start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRange(str(self), offset, self.start_offset, log_end_offset)
        if end_offset > log_end_offset:
            end_offset = log_end_offset
        if offset >= end_offset:
            return None
        try:
            return self._reader.slice(
                offset,
                max_bytes=max_bytes,
                end_offset=end_offset,
                log_end_offset=log_end_offset,
                at_least_one=at_least_one,
                aborted=aborted,
            )
        except OSError as error:
            raise self.volume.fail(error, f"reading {self.folder}") from error

    def size_from(self, offset: int) -> int:
        """Bytes of all batches from the one that holds `offset` on."""
        with self._working("reading"):
            return self._reader.size_from(offset)

    def has_segment_between(self, offset: int, end_offset: int) -> bool:
        """Whether what is below `end_offset` goes on in a later segment than the one that holds `offset`.

        What is read from `offset` on ends with its segment then, however much there is.
        """
        segments = self._segments
        return segments[segments.slot_of(end_offset - 1)].base_offset > offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those that may have records from `start_offset` on, below `end_offset`, in the order of their markers."""
        found: list[AbortedTransaction] = []
        with self._working("reading"):
            self._reader.collect_aborted(start_offset, end_offset, found)
        return found

    def offset_for_timestamp(
        self, timestamp_ms: int, *, end_offset: int, limit_bytes: int = DECOMPRESSED_BYTES_MAX
    ) -> TimestampedOffset | None:
        """The first record below `end_offset` whose time is `timestamp_ms` or later.

        `TooLarge` if more than `limit_bytes` would be decompressed for it: then look into `batch_at_time`, in a worker.
        """
        with self._working("reading"):
            return self._reader.offset_for_timestamp(
                timestamp_ms, start_offset=self.start_offset, end_offset=end_offset, limit_bytes=limit_bytes
            )

    def max_timestamp(
        self, *, end_offset: int, limit_bytes: int = DECOMPRESSED_BYTES_MAX
    ) -> TimestampedOffset | None:
        """The first record with the latest time; None if nothing has a time, or not below `end_offset`."""
        with self._working("reading"):
            return self._reader.max_timestamp(
                start_offset=self.start_offset, end_offset=end_offset, limit_bytes=limit_bytes
            )

    def batch_at_time(self, timestamp_ms: int, *, from_offset: int) -> TimedBatch | None:
        """The first batch from `from_offset` on that may hold a record of `timestamp_ms` or later."""
        with self._working("reading"):
            return self._reader.batch_at_time(
                timestamp_ms, start_offset=max(from_offset, self.start_offset), end_offset=self.end_offset
            )

    def batch_of_latest_time(self) -> TimedBatch | None:
        """The batch in which `max_timestamp` is."""
        with self._working("reading"):
            return self._reader.batch_of_latest_time(start_offset=self.start_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and where it ended; (-1, -1) if that is not known."""
        return self.epochs.end_offset_for(leader_epoch, log_end_offset=self.end_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction begins that is open, or whose end is not committed; None if there is none.

        Of one that began before the log's start, only what is still there counts.
        """
        transactions = self.producers.transactions
        if not transactions.open and not transactions.ended:
            return None
        transactions.advance(self.high_watermark)
        first_offset = transactions.first_offset()
        return None if first_offset is None else max(first_offset, self.start_offset)

    @property
    def active_segment(self) -> Segment:
        return self._segments.active

    def size_bytes(self) -> int:
        return self._segments.size_bytes()

    def segment_times(self) -> list[tuple[int, int]]:
        """First offset and time of last writing of every segment, for the oldest way to ask for offsets."""
        disk = self.volume.disk
        with self._working("reading"):
            return [(s.base_offset, disk.modified_ms(s.path(LOG_SUFFIX))) for s in self._segments]

    def first_base_offset(self) -> int:
        return self._segments[0].base_offset

    def segment_count(self) -> int:
        return len(self._segments)

    @contextmanager
    def _working(self, doing: str) -> Iterator[None]:
        """Refuse if out of service; an OSError inside takes the directory offline. Not for hot paths."""
        if self._refusal is not None:
            raise self._refusal()
        try:
            yield
        except OSError as error:
            raise self.volume.fail(error, f"{doing} {self.folder}") from error
