"""One partition's log: segments in a folder, appended to at the end.

All methods run on the event loop; only `flush`, `truncate` and `close` await. The hot ones are `append` (one write) and
`read` (no disk read at the end of the log). Batches were validated before they come here. The log never looks into a
batch in order to write it, and returns whole batches only.

Parts: `reader` (lookups), `durability` (what has been synced), `LogTruncation`, `SegmentReplacement` (compaction),
`LogFiles` (segments on disk).

Methods that look something up may raise `pages.ColdPages`, and have changed nothing then. So may the first append after
a start, which reads the index of the active segment.

Offsets, in order: `start_offset` <= `recovery_point` <= `end_offset`. Records below the recovery point survive a power
cut; those between it and the end survive a crash of this process. `durability.end_offset` is where acknowledgements
and readers must stop: the end, unless `flush.messages` makes appends wait for the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from penstock.protocol.types import Uuid
from penstock.records.batch import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, BatchHeader, assign_offsets
from penstock.records.control import EndTransactionMarker, TxnMarkerEntry
from penstock.runtime.network import FileSlice
from penstock.storage.deletion import DelayedDeletion
from penstock.storage.directory_io import DirectoryIO
from penstock.storage.durability import Durability
from penstock.storage.errors import (
    BatchTooLarge,
    LogBusy,
    LogClosed,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StartsInsideBatch,
    StorageError,
)
from penstock.storage.folder_use import FolderUse
from penstock.storage.follower_batches import LEADER_EPOCH_MAX, check_copied, note_copied, split_batches
from penstock.storage.layout import LOG_SUFFIX
from penstock.storage.loading import LoadedLog
from penstock.storage.log_files import LogFiles
from penstock.storage.log_reader import LogReader
from penstock.storage.producer_history import restore_batches
from penstock.storage.producer_state import ProducedBatch
from penstock.storage.replacement import SegmentReplacement
from penstock.storage.retention import expired_count
from penstock.storage.segment import RELATIVE_OFFSET_MAX
from penstock.storage.segments import Segments
from penstock.storage.settings import NEVER, LogSettings
from penstock.storage.transactions.aborted import AbortedTransaction
from penstock.storage.transactions.guards import VerificationGuard
from penstock.storage.truncation import LogTruncation, finish_all

logger = logging.getLogger(__name__)


class AppendInfo(NamedTuple):
    """The offsets of appended batches; for a duplicate, those of the original."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    """-1 unless the batches carry LogAppendTime."""
    log_start_offset: int
    is_duplicate: bool


class Log:
    """Created and owned by `LogDirectory`; `loaded` is what was found on disk."""

    __slots__ = (
        "_files",
        "_has_flush_policy",
        "_settings",
        "durability",
        "end_offset",
        "epochs",
        "folder",
        "folder_use",
        "high_watermark",
        "io",
        "is_configured",
        "partition",
        "producers",
        "reader",
        "refusal",
        "replacement",
        "segments",
        "start_offset",
        "topic",
        "topic_id",
        "truncation",
    )

    def __init__(
        self,
        io: DirectoryIO,
        deletion: DelayedDeletion,
        *,
        topic: str,
        partition: int,
        topic_id: Uuid,
        settings: LogSettings,
        loaded: LoadedLog,
    ) -> None:
        self.io = io
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.folder = loaded.folder
        self.start_offset = loaded.start_offset
        self.end_offset = loaded.end_offset
        self.high_watermark = loaded.start_offset
        """Set by the partition; retention and the high watermark checkpoint read it."""
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.settings = settings
        self.is_configured = False
        """Whether `settings` are the topic's. A log is loaded before the metadata; until then they are defaults, and
        nothing may be deleted by them."""
        self.folder_use: FolderUse | None = None
        """Of a running compaction."""
        self.segments = Segments(loaded.segments)
        for segment in self.segments:
            segment.allow_blocking_reads(False)
        self.refusal: Callable[[], StorageError] | None = None
        """Makes the error that every call raises, while the log is truncated or after it was closed or failed."""
        self.reader = LogReader(self)
        self._files = LogFiles(io, deletion, loaded.folder, self.segments, loaded.snapshots)
        self.durability = Durability(
            self,
            recovery_point=loaded.recovery_point,
            unsynced_names=loaded.unsynced_names,
            is_folder_synced=loaded.is_folder_synced,
        )
        self.truncation = LogTruncation(self, self._files)
        self.replacement = SegmentReplacement(self, self._files)
        self.segments.active.jitter_ms = self._files.draw_jitter(settings)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def directory(self) -> str:
        """The entry of `log.dirs` that holds this log."""
        return self.io.path

    @property
    def settings(self) -> LogSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: LogSettings) -> None:
        self._settings = settings
        self._has_flush_policy = settings.flush_messages != NEVER or settings.flush_ms != NEVER

    def set_topic_settings(self, settings: LogSettings) -> None:
        """Apply the topic's settings, which were not known when the log was loaded."""
        self.settings = settings
        self.is_configured = True
        self.durability.apply_flush_policy()

    @contextmanager
    def in_service(self, doing: str) -> Iterator[None]:
        """Raise if the log is out of service; an OSError inside takes the directory offline. Not for hot paths."""
        if self.refusal is not None:
            raise self.refusal()
        try:
            yield
        except OSError as error:
            raise self.io.fail(error, f"{doing} {self.folder}") from error

    # Appending

    def append(
        self,
        batches: memoryview,
        headers: Sequence[BatchHeader],
        *,
        leader_epoch: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Append a producer's validated batches as leader: assign offsets and epoch in place, then write.

        Raises OutOfOrderSequence, InvalidProducerEpoch or InvalidTransactionState and writes nothing. A duplicate is
        not written again. The first batch of a transaction needs the current `guard`; markers use `append_marker`.
        """
        if self.refusal is not None:
            raise self.refusal()
        first_offset = end_offset = self.end_offset
        position, latest, is_tracked = 0, NO_TIMESTAMP, False
        for header in headers:
            assign_offsets(batches, position, base_offset=end_offset, leader_epoch=leader_epoch)
            position += header.size_bytes
            end_offset += header.last_offset_delta + 1
            if header.max_timestamp > latest:
                latest = header.max_timestamp
            if header.producer_id >= 0:
                is_tracked = True
        if is_tracked:
            duplicate = self._check_producers(headers, guard)
            if duplicate is not None:
                first, last, timestamp_ms = (
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp_ms,
                )
                return AppendInfo(first, last, timestamp_ms, self.start_offset, True)
        if position > self._settings.segment_bytes:
            raise BatchTooLarge(
                f"{position} bytes for {self} do not fit into segment.bytes={self._settings.segment_bytes}"
            )
        self._write(batches, headers, first_offset, end_offset, latest, now_ms)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        if is_tracked:
            offset = first_offset
            for header in headers:
                if header.producer_id >= 0:
                    self.producers.update(header, base_offset=offset)
                offset += header.last_offset_delta + 1
        self._advance_end(end_offset)
        append_time_ms = latest if headers[0].attributes & TIMESTAMP_TYPE_MASK else NO_TIMESTAMP
        return AppendInfo(first_offset, end_offset - 1, append_time_ms, self.start_offset, False)

    def prepare_append(self) -> None:
        """Read what the next append needs from disk; may raise ColdPages."""
        with self.in_service("reading"):
            self.segments.active.activate()

    def _check_producers(
        self, headers: Sequence[BatchHeader], guard: VerificationGuard | None
    ) -> ProducedBatch | None:
        try:
            return self.producers.check(headers, guard)
        except OutOfOrderSequence:
            with self.in_service("reading"):
                if not restore_batches(self.producers, headers, self.segments):
                    raise
        return self.producers.check(headers, guard)

    def append_marker(
        self,
        batch: memoryview,
        header: BatchHeader,
        marker: TxnMarkerEntry,
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendInfo:
        """Append a transaction marker. Raises InvalidProducerEpoch or CoordinatorFenced and writes nothing."""
        if self.refusal is not None:
            raise self.refusal()
        self.producers.check_marker(marker)
        offset = self.end_offset
        assign_offsets(batch, 0, base_offset=offset, leader_epoch=leader_epoch)
        self._write(batch, (header,), offset, offset + 1, header.max_timestamp, now_ms)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, offset)
        self.producers.transactions.advance(self.high_watermark)
        aborted = self.producers.update_marker(
            header, EndTransactionMarker(marker.is_commit, marker.coordinator_epoch), base_offset=offset
        )
        if aborted is not None:
            self.segments.active.add_aborted(aborted)
        self._advance_end(offset + 1)
        append_time_ms = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else NO_TIMESTAMP
        return AppendInfo(offset, offset, append_time_ms, self.start_offset, False)

    def append_as_follower(
        self, batches: memoryview, *, now_ms: int, leader_epoch_max: int = LEADER_EPOCH_MAX
    ) -> AppendInfo:
        """Append batches with the leader's offsets and epochs; an incomplete batch at the end is ignored, and so are
        batches of an epoch above `leader_epoch_max` and all after them.

        If a batch is damaged or does not continue the log, nothing is written. The same if ColdPages is raised.

        The leader's log may start inside a batch, after DeleteRecords. An empty log that starts there, too, prepares a
        segment for the whole batch and raises LogBusy until that is on disk.
        """
        if self.refusal is not None:
            raise self.refusal()
        first_offset = self.end_offset
        active = self.segments.active
        is_empty = active.size == 0 and first_offset == self.start_offset
        try:
            batches, headers = check_copied(
                batches,
                end_offset=first_offset,
                leader_epoch_max=leader_epoch_max,
                base_offset_min=active.base_offset if is_empty else first_offset,
            )
        except StartsInsideBatch as start:
            if not is_empty:
                raise
            finish_all([self.truncation.begin_inside_batch(start.base_offset)])
            raise LogBusy(f"{self} is preparing a segment for the batch at {start.base_offset}") from start
        self.producers.transactions.advance(self.high_watermark)
        for part, held in split_batches(batches, headers, part_bytes_max=self._settings.segment_bytes):
            end_offset = held[-1].next_offset
            latest = max([header.max_timestamp for header in held])
            self._write(part, held, None, end_offset, latest, now_ms)
            self._advance_end(end_offset)  # at once: it must not be written again, whatever fails
            note_copied(part, held, self.epochs, self.producers, self.segments.active)
        if is_empty and headers and headers[0].base_offset < first_offset:
            self.epochs.truncate_start(first_offset)
        return AppendInfo(first_offset, self.end_offset - 1, NO_TIMESTAMP, self.start_offset, False)

    def _write(
        self,
        batches: memoryview,
        headers: Sequence[BatchHeader],
        first_offset: int | None,
        end_offset: int,
        latest: int,
        now_ms: int,
    ) -> None:
        segment = self.segments.active
        try:
            if segment.index is None:
                segment.activate()
            if segment.is_full(
                self._settings,
                size=len(batches),
                last_offset=end_offset - 1,
                timestamp_ms=latest,
                now_ms=now_ms,
            ):
                self._roll(headers[0].base_offset if first_offset is None else first_offset, end_offset)
                segment = self.segments.active
            segment.append(
                batches, headers, first_offset=first_offset, interval=self._settings.index_interval_bytes
            )
        except OSError as error:
            raise self.io.fail(error, f"appending to {segment.path(LOG_SUFFIX)}") from error

    def _advance_end(self, end_offset: int) -> None:
        self.end_offset = end_offset
        if self._has_flush_policy:
            self.durability.appended()
        else:
            self.durability.end_offset = end_offset

    def _roll(self, first_offset: int, end_offset: int) -> None:
        """Roll to a new segment, for batches from `first_offset` to `end_offset`.

        It starts where the log ends, even if offsets have a gap, because recovery takes a gap between segments for
        lost data. The only exception is a gap too large for the index.
        """
        base_offset = self.end_offset
        if end_offset - base_offset > RELATIVE_OFFSET_MAX:
            base_offset = first_offset
        sealed_offset = self.segments.active.base_offset
        self.durability.add_sealed_segment(
            sealed_offset, self._files.roll(base_offset, self._settings, self.producers)
        )
        self.durability.request(base_offset)
        logger.info("%s rolled to a new segment at offset %d", self, base_offset)

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

        None if there are none, or if the first does not fit into `max_bytes` and `at_least_one` is false. Aborted
        transactions that may have records in the slice are added to `aborted`.
        """
        log_end_offset = self.end_offset
        if self.refusal is not None:
            raise self.refusal()
        if not self.start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRange(str(self), offset, self.start_offset, log_end_offset)
        if end_offset > log_end_offset:
            end_offset = log_end_offset
        if offset >= end_offset:
            return None
        try:
            return self.reader.slice(
                offset,
                max_bytes=max_bytes,
                end_offset=end_offset,
                log_end_offset=log_end_offset,
                at_least_one=at_least_one,
                aborted=aborted,
            )
        except OSError as error:
            raise self.io.fail(error, f"reading {self.folder}") from error

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above `leader_epoch` and where it ended; (-1, -1) if unknown."""
        return self.epochs.end_offset_for(leader_epoch, log_end_offset=self.end_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open or whose marker is not committed; None if none.

        Not below the log's start offset.
        """
        transactions = self.producers.transactions
        if not transactions.open and not transactions.ended:
            return None
        transactions.advance(self.high_watermark)
        first_offset = transactions.first_offset()
        return None if first_offset is None else max(first_offset, self.start_offset)

    # Flushing, deleting, truncating

    async def flush(self) -> None:
        """Return when everything appended so far is durable. One sync serves all waiting callers."""
        if self.refusal is not None:
            raise self.refusal()
        await self.durability.flush()

    def advance_start(self, offset: int) -> None:
        """Move the log start offset up to `offset`. Readers stop seeing older records now; retention deletes them."""
        if self.refusal is not None:
            raise self.refusal()
        if offset > self.end_offset:
            raise OffsetOutOfRange(str(self), offset, self.start_offset, self.end_offset)
        if offset > self.start_offset:
            self.start_offset = offset
            self.high_watermark = max(self.high_watermark, offset)
            self.epochs.truncate_start(offset)

    def enforce_retention(self, now_ms: int, *, high_watermark: int) -> int:
        """Delete segments by `retention.ms`, `retention.bytes` or the log start offset; returns how many."""
        with self.in_service("enforcing the retention of"):
            count, reason = expired_count(
                self.segments,
                self._settings,
                start_offset=self.start_offset,
                end_offset=self.end_offset,
                high_watermark=high_watermark,
                now_ms=now_ms,
            )
            if count == 0:
                return 0
            if count == len(self.segments):
                self._roll(self.end_offset, self.end_offset)
            self.advance_start(self.segments[count].base_offset)
            self._files.discard(self.segments.take_first(count), self._settings)
            self.durability.is_folder_changed = True
        message = "%s: deleted %d segments because %s; the log start offset is now %d"
        logger.info(message, self, count, reason, self.start_offset)
        return count

    async def truncate(self, offset: int) -> None:
        """Truncate the log to `offset`, or to the start of the batch that holds it.

        Everything else raises `LogBusy` until the truncation is durable (`truncation`).
        """
        await self.truncation.run(offset)

    async def truncate_fully(self, start_offset: int) -> None:
        """Delete everything and start again at `start_offset`; otherwise as `truncate`."""
        await self.truncation.run_fully(start_offset)

    def move_end_back(self, end_offset: int) -> None:
        """For `LogTruncation`: forget all offsets from `end_offset` on; producers follow when that is durable."""
        self.reader.forget()
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.epochs.truncate_end(end_offset)
        self.durability.truncated()

    # Closing

    async def close(self) -> None:
        """Flush everything, so that the next start has nothing to scan."""
        await self.truncation.wait()
        self.durability.stop()
        if self.refusal is not None:
            return
        with self.in_service("closing"):
            active = self.segments.active
            self.durability.add_sealed_segment(active.base_offset, active.seal())
            if self.end_offset > 0:
                self.durability.add_unsynced(*self._files.take_snapshot(self.end_offset, self.producers))
        await self.flush()
        self.refusal = lambda: LogClosed(f"{self} is closed")
        self._files.release()

    def switch_to_copy(self, copy: Log, folder: str) -> None:
        """Switch to the files of `copy`, which are identical and synced, and whose folder now is `folder`.

        Producers, the high watermark and `durability.on_advance` stay.
        """
        on_advance = self.durability.on_advance
        self._end_folder_uses()
        self.durability.retire(lambda: LogClosed(f"{self} was moved to {copy.directory}"))
        self._files.release()
        copy.durability.retire(lambda: LogClosed(f"{self} now uses its files"))
        self.io, self.folder = copy.io, folder
        self._files, self.segments = copy._files, copy.segments
        self.reader = LogReader(self)
        self.truncation = LogTruncation(self, self._files)
        self.replacement = SegmentReplacement(self, self._files)
        self._files.move(folder)
        self.epochs.is_dirty = True
        self.durability = Durability(
            self, recovery_point=copy.durability.recovery_point, unsynced_names=[], is_folder_synced=False
        )
        self.durability.on_advance = on_advance
        if on_advance is not None:
            on_advance()

    def retire(self) -> None:
        """Take the log out of service for good. Slices of its files stay valid."""
        self.refusal = lambda: LogClosed(f"{self} was deleted")
        self._end_folder_uses()
        self.durability.retire(self.refusal)
        self._files.release()

    def _end_folder_uses(self) -> None:
        if self.folder_use is not None:
            self.folder_use.end()
            self.folder_use = None

    def go_offline(self) -> None:
        """The log directory failed: refuse everything, and fail all waiting flushes."""
        self.refusal = self.io.refusal
        self.durability.fail()
