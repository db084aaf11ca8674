"""One partition's log: segments in a folder, appended to at the end, read anywhere (`readable_log`).

All methods run on the event loop and none but `flush`, `truncate` and `close` awaits; the hot ones are `append` (one
write) and `read` (no read at all at the tail). The log believes what it is given: batches were checked before
they come here. It never looks into a batch for writing, and gives out whole batches only.

Methods that look something up may raise `pages.ColdPages`, and have changed nothing then. So may the first append after
a start, which reads the index of the active segment.

Offsets, in order: `start_offset` <= `recovery_point` <= `end_offset`. What is below the recovery point
survives a power cut; what is between it and the end survives a crash of this process. `durable_end_offset` is
where acknowledgements and readers must stop: the end, unless `flush.messages` makes appends wait for the
disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.protocol.types import Uuid
from penstock.records.batch import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, BatchHeader, place
from penstock.records.control import EndedTransaction, EndTransaction
from penstock.runtime.workers import Lane
from penstock.storage.copied import copied_parts
from penstock.storage.durability import Durability
from penstock.storage.errors import BatchTooLarge, LogBusy, LogClosed, OffsetOutOfRange, OutOfOrderSequence
from penstock.storage.layout import LOG_SUFFIX
from penstock.storage.loading import LoadedLog
from penstock.storage.log_files import LogFiles
from penstock.storage.pages import when_loaded
from penstock.storage.producer_state import ProducedBatch, ProducerState
from penstock.storage.readable_log import ReadableLog
from penstock.storage.rebuilding import rebuild_producers
from penstock.storage.recall import recall
from penstock.storage.retention import expired_count
from penstock.storage.segment import RELATIVE_OFFSET_MAX
from penstock.storage.settings import LogSettings
from penstock.storage.transactions.batches import note_batch
from penstock.storage.transactions.guards import VerificationGuard
from penstock.storage.trash import Trash
from penstock.storage.volume import Volume

logger = logging.getLogger(__name__)


class AppendInfo(NamedTuple):
    """Where batches went; for a duplicate, where they went the first time."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    """-1 unless the batches carry LogAppendTime."""
    log_start_offset: int
    is_duplicate: bool


class Log(ReadableLog):
    """Made and owned by `LogDirectory`; `loaded` is what was found on disk."""

    __slots__ = ("_durability", "_files", "_truncation")

    def __init__(
        self,
        volume: Volume,
        trash: Trash,
        *,
        topic: str,
        partition: int,
        topic_id: Uuid,
        settings: LogSettings,
        loaded: LoadedLog,
    ) -> None:
        super().__init__(
            volume, topic=topic, partition=partition, topic_id=topic_id, settings=settings, loaded=loaded
        )
        self._files = LogFiles(volume, trash, loaded.folder, self._segments, loaded.snapshots)
        self._durability = Durability(
            self,
            recovery_point=loaded.recovery_point,
            unsynced_names=loaded.unsynced_names,
            is_folder_synced=loaded.is_folder_synced,
        )
        self._truncation: asyncio.Future[None] | None = None
        """Done when the truncation that is under way is."""
        self._segments.active.jitter_ms = self._files.draw_jitter(settings)

    def take_up(self, settings: LogSettings) -> None:
        """Begin to serve with the topic's own settings, which nobody knew when the log was loaded."""
        self.settings = settings
        self._durability.policy_known()

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
        """Write batches that a client sent to this leader, which get their offsets and epoch here, in place.

        They are valid and final in all else. Raises OutOfOrderSequence, InvalidProducerEpoch or
        InvalidTransactionState and writes nothing; a batch that was written before is answered with where it is.
        A batch that begins a transaction needs the `guard` that is in force; what ends one has `append_marker`.
        """
        if self._refusal is not None:
            raise self._refusal()
        first_offset = end_offset = self.end_offset
        position, latest, is_tracked = 0, NO_TIMESTAMP, False
        for header in headers:
            place(batches, position, base_offset=end_offset, leader_epoch=leader_epoch)
            position += header.size_bytes
            end_offset += header.last_offset_delta + 1
            if header.max_timestamp > latest:
                latest = header.max_timestamp
            if header.producer_id >= 0:
                is_tracked = True
        if is_tracked:
            duplicate = self._check_producers(headers, guard)
            if duplicate is not None:
                return AppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp_ms,
                    self.start_offset,
                    True,
                )
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
        """Read what the next append needs of the disk; ColdPages where that is not in memory."""
        with self._working("reading"):
            self._segments.active.activate()

    def _check_producers(
        self, headers: Sequence[BatchHeader], guard: VerificationGuard | None
    ) -> ProducedBatch | None:
        try:
            return self.producers.check(headers, guard)
        except OutOfOrderSequence:
            with self._working("reading"):
                if not recall(self.producers, headers, self._segments):
                    raise
        return self.producers.check(headers, guard)

    def append_marker(
        self,
        batch: memoryview,
        header: BatchHeader,
        marker: EndedTransaction,
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendInfo:
        """Write the end of a transaction, as its coordinator has decided; it gets its offset and epoch here.

        Raises InvalidProducerEpoch or CoordinatorFenced and writes nothing.
        """
        if self._refusal is not None:
            raise self._refusal()
        self.producers.check_marker(marker)
        offset = self.end_offset
        place(batch, 0, base_offset=offset, leader_epoch=leader_epoch)
        self._write(batch, (header,), offset, offset + 1, header.max_timestamp, now_ms)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, offset)
        self.producers.transactions.advance(self.high_watermark)
        aborted = self.producers.update_marker(
            header, EndTransaction(marker.is_commit, marker.coordinator_epoch), base_offset=offset
        )
        if aborted is not None:
            self._segments.active.add_aborted(aborted)
        self._advance_end(offset + 1)
        append_time_ms = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else NO_TIMESTAMP
        return AppendInfo(offset, offset, append_time_ms, self.start_offset, False)

    def append_as_follower(self, batches: memoryview, *, now_ms: int) -> AppendInfo:
        """Write batches as the leader has them; half a batch at the end, as a fetch may leave it, is not taken."""
        if self._refusal is not None:
            raise self._refusal()
        first_offset = self.end_offset
        self.producers.transactions.advance(self.high_watermark)
        for part, headers in copied_parts(
            batches, end_offset=first_offset, part_bytes_max=self._settings.segment_bytes
        ):
            latest = max([header.max_timestamp for header in headers])
            self._write(part, headers, None, headers[-1].next_offset, latest, now_ms)
            position = 0
            for header in headers:
                if header.leader_epoch > self.epochs.latest:
                    self.epochs.assign(header.leader_epoch, header.base_offset)
                if header.producer_id >= 0:
                    aborted = note_batch(
                        self.producers, header, part, position, base_offset=header.base_offset
                    )
                    if aborted is not None:
                        self._segments.active.add_aborted(aborted)
                position += header.size_bytes
            self._advance_end(headers[-1].next_offset)
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
        segment = self._segments.active
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
                segment = self._segments.active
            segment.append(
                batches, headers, first_offset=first_offset, interval=self._settings.index_interval_bytes
            )
        except OSError as error:
            raise self.volume.fail(error, f"appending to {segment.path(LOG_SUFFIX)}") from error

    def _advance_end(self, end_offset: int) -> None:
        self.end_offset = end_offset
        if self._has_flush_policy:
            self._durability.appended()
        else:
            self._durability.end_offset = end_offset

    def _roll(self, first_offset: int, end_offset: int) -> None:
        """Seal the active segment and begin a new one, for batches from `first_offset` to `end_offset`.

        Segments follow one another without a gap, even where offsets have one: recovery takes a gap for lost
        data. Only offsets that could not be indexed otherwise make an exception.
        """
        base_offset = self.end_offset
        if end_offset - base_offset > RELATIVE_OFFSET_MAX:
            base_offset = first_offset
        sealed_offset = self._segments.active.base_offset
        self._durability.sealed(sealed_offset, self._files.roll(base_offset, self._settings, self.producers))
        self._durability.request(base_offset)
        logger.info("%s rolled to a new segment at offset %d", self, base_offset)

    # Flushing

    @property
    def recovery_point(self) -> int:
        """What is below it survives a power cut."""
        return self._durability.recovery_point

    @property
    def scan_offset(self) -> int:
        """Where a scan has to begin after a crash; what the checkpoint of recovery points says."""
        return self._durability.scan_offset

    @property
    def durable_end_offset(self) -> int:
        """Where acknowledgements and readers stop: the end, unless `flush.messages` makes appends wait."""
        return self._durability.end_offset

    @property
    def on_durable(self) -> Callable[[], None] | None:
        """Called after a sync moved `durable_end_offset`, or when none will: the directory is offline."""
        return self._durability.on_advance

    @on_durable.setter
    def on_durable(self, callback: Callable[[], None] | None) -> None:
        self._durability.on_advance = callback

    async def flush(self) -> None:
        """Return when everything appended so far survives a power cut. One sync serves all who wait."""
        if self._refusal is not None:
            raise self._refusal()
        await self._durability.flush()

    def recovered(self) -> None:
        """For `LogDirectory`: what a crash left is in service, and becomes safe in the background."""
        self._durability.recovered()

    # Shortening

    def advance_start(self, offset: int) -> None:
        """Let the log start at `offset`: what is before it is gone for readers now, from the disk later."""
        if self._refusal is not None:
            raise self._refusal()
        if offset > self.end_offset:
            raise OffsetOutOfRange(str(self), offset, self.start_offset, self.end_offset)
        if offset > self.start_offset:
            self.start_offset = offset
            self.high_watermark = max(self.high_watermark, offset)
            self.epochs.truncate_start(offset)

    def enforce_retention(self, now_ms: int, *, high_watermark: int) -> int:
        """Drop segments that are too old or too many, or that end before the log starts; returns how many."""
        with self._working("deleting old segments of"):
            count, reason = expired_count(
                self._segments,
                self._settings,
                start_offset=self.start_offset,
                end_offset=self.end_offset,
                high_watermark=high_watermark,
                now_ms=now_ms,
            )
            if count == 0:
                return 0
            if count == len(self._segments):
                self._roll(self.end_offset, self.end_offset)
            self.advance_start(self._segments[count].base_offset)
            self._files.discard(self._segments.take_first(count), self._settings)
            self._durability.is_folder_changed = True
        logger.info(
            "%s dropped %d segments because %s; it starts at %d", self, count, reason, self.start_offset
        )
        return count

    async def truncate(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, or before the batch that holds it.

        It refuses everything else until the cut is safe from a power cut (`LogBusy`): were anything written before
        that, a crash could bring back what was cut, behind a recovery point that speaks of what came after.
        """
        await self._shorten(lambda: self._cut(offset))

    async def truncate_fully(self, start_offset: int) -> None:
        """Drop everything and begin anew at `start_offset`; otherwise as `truncate`."""
        await self._shorten(lambda: self._empty(start_offset))

    async def when_settled(self) -> None:
        """Return when no truncation is under way."""
        if self._truncation is not None:
            await asyncio.wait([self._truncation])

    async def _shorten(self, cut: Callable[[], bool]) -> None:
        if await when_loaded(cut, self.volume.workers):
            await asyncio.shield(self._finish_cut())  # the worker goes on if the caller is cancelled

    def _finish_cut(self) -> asyncio.Future[None]:
        """Have a worker make the cut safe; done when the log serves again, or with the reason why it does not."""
        truncation = self._truncation = asyncio.get_running_loop().create_future()
        truncation.add_done_callback(lambda done: done.exception())  # the caller may be gone
        busy = self._refusal = lambda: LogBusy(f"{self} is being truncated to offset {self.end_offset}")
        for segment in self._segments:
            segment.allow_blocking_reads(True)

        def finished(work: asyncio.Future[ProducerState]) -> None:
            for segment in self._segments:
                segment.allow_blocking_reads(False)
            self._truncation = None
            error = work.exception()
            if self._refusal is not busy:
                assert self._refusal is not None
                truncation.set_exception(self._refusal())  # it was deleted, or its directory failed
            elif error is not None:
                truncation.set_exception(self.volume.fail(error, f"truncating {self.folder}"))
            else:
                self.producers, self._refusal = work.result(), None
                truncation.set_result(None)
                logger.info("%s was truncated and ends at offset %d", self, self.end_offset)

        self.volume.workers.run(self._make_cut_safe(), lane=Lane.SYNC).add_done_callback(finished)
        return truncation

    def _cut(self, offset: int) -> bool:
        """Whether there was something to cut."""
        with self._working("truncating"):
            if offset >= self.end_offset:
                self.epochs.truncate_end(self.end_offset)
                return False
            if offset < self._segments[0].base_offset:
                return self._empty(offset)
            slot = self._segments.slot_of(offset)
            end_offset = self._segments[slot].truncate(offset)
            self._files.discard(self._segments.take_after(slot), self._settings)
            self._end_at(end_offset)
        return True

    def _empty(self, start_offset: int) -> bool:
        with self._working("truncating"):
            self._files.start_anew(start_offset, self._settings)
            self.start_offset = start_offset
            self._end_at(start_offset)
        return True

    def _end_at(self, end_offset: int) -> None:
        """Let all that knows of offsets forget those from `end_offset` on; producers follow when the cut is safe."""
        self._reader.forget()
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.epochs.truncate_end(end_offset)
        self._durability.truncated()

    def _make_cut_safe(self) -> Callable[[], ProducerState]:
        """Work for a worker, which has the files of the log for itself until it is done."""
        disk, folder, active = self.volume.disk, self.folder, self._segments.active.file()
        checkpoints = self.volume.checkpoint_writes()
        snapshots, segments = self._files.snapshots, list(self._segments)
        end_offset, high_watermark = self.end_offset, self.high_watermark

        def work() -> ProducerState:
            active.sync()
            disk.sync_directory(folder)
            for write in checkpoints:
                write()
            snapshots.remove_above(end_offset)
            return rebuild_producers(
                snapshots, segments, end_offset=end_offset, high_watermark=high_watermark
            )

        return work

    # The end

    async def close(self) -> None:
        """Write everything down, so that the next start has nothing to scan."""
        await self.when_settled()
        self._durability.stop()
        if self._refusal is not None:
            return
        with self._working("closing"):
            active = self._segments.active
            self._durability.sealed(active.base_offset, active.seal())
            if self.end_offset > 0:
                self._durability.owe(*self._files.take_snapshot(self.end_offset, self.producers))
        await self.flush()
        self._refusal = lambda: LogClosed(f"{self} is closed")
        self._files.release()

    @property
    def generation(self) -> int:
        """Grows with every truncation: offsets that were copied before it may hold something else now."""
        return self._durability.generation

    def sync_now(self) -> None:
        """Make everything safe on the event loop, for one who can not let go of it just now."""
        with self._working("syncing"):
            self._durability.sync_now()

    def continue_in(self, copy: Log, folder: str) -> None:
        """Go on in the files of `copy`, which holds the same and is all synced, and whose folder now is
        `folder`.

        What the copy can not know stays: producers, the high watermark, and who wants to be told of what.
        """
        on_durable = self.on_durable
        self._durability.retire(lambda: LogClosed(f"{self} was moved to {copy.directory}"))
        self._files.release()
        copy._durability.retire(lambda: LogClosed(f"{self} took over"))
        self.volume, self.folder = copy.volume, folder
        self._files, self._segments, self._reader = copy._files, copy._segments, copy._reader
        self._files.move(folder)
        self.epochs.is_dirty = True
        self._durability = Durability(
            self, recovery_point=copy.recovery_point, unsynced_names=[], is_folder_synced=False
        )
        self.on_durable = on_durable
        if on_durable is not None:
            on_durable()

    def retire(self) -> None:
        """Take the log out of service for good; its files go elsewhere, and slices of them live on."""
        self._refusal = lambda: LogClosed(f"{self} was deleted")
        self._durability.retire(self._refusal)
        self._files.release()

    def go_offline(self) -> None:
        """The directory failed: refuse everything, and tell those who wait for the disk."""
        self._refusal = self.volume.refusal
        self._durability.fail()
