"""Loads a log from its folder.

After a clean shutdown everything on disk is trusted: only sizes, the last index entries and the last few batches are
read. After an unclean one, everything from the recovery point on is scanned (`recovery`) and truncated at the first
invalid batch, and its indexes, leader epochs and producer state are rebuilt. A log with missing or implausible indexes
is treated as unclean.

Blocking; runs in a worker, on a folder that is not in use yet.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.protocol.types import Uuid
from penstock.records.batch import NO_LEADER_EPOCH
from penstock.runtime.disk import File
from penstock.storage import scan
from penstock.storage.checkpoints import decode_epochs
from penstock.storage.deletion import remove_files
from penstock.storage.directory_io import DirectoryIO
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.errors import CorruptFile
from penstock.storage.files import read_if_exists
from penstock.storage.index import MemoryIndex
from penstock.storage.layout import (
    DELETED_SUFFIX,
    LEADER_EPOCHS,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_segment_file,
    segment_file,
)
from penstock.storage.meta_properties import read_topic_id
from penstock.storage.producer_state import ProducerState
from penstock.storage.rebuilding import rebuild_producers
from penstock.storage.recovery import RecoveryReport, scan_segment
from penstock.storage.replacement import complete_replacements
from penstock.storage.segment import Segment
from penstock.storage.settings import LogSettings
from penstock.storage.snapshots import SnapshotFiles

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The parts of a `Log`."""

    folder: str
    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerState
    snapshots: SnapshotFiles
    start_offset: int
    end_offset: int
    recovery_point: int
    topic_id: Uuid | None
    report: RecoveryReport
    unsynced_names: list[str] = field(default_factory=list)
    """Files in the folder that are durable only after the next flush."""
    is_folder_synced: bool
    """Whether the folder and the names in it are known to be durable."""


def new_log(io: DirectoryIO, folder: str, *, start_offset: int = 0) -> LoadedLog:
    """The parts of an empty log in a new folder."""
    return LoadedLog(
        folder=folder,
        segments=[Segment.create(io, folder, start_offset)],
        epochs=LeaderEpochs(),
        producers=ProducerState(),
        snapshots=SnapshotFiles(io.disk, folder, ()),
        start_offset=start_offset,
        end_offset=start_offset,
        recovery_point=start_offset,
        topic_id=None,
        report=RecoveryReport(partition=os.path.basename(folder)),
        is_folder_synced=False,
    )


def load_log(
    io: DirectoryIO,
    folder: str,
    settings: LogSettings,
    *,
    is_clean: bool,
    recovery_point: int,
    start_offset: int,
    high_watermark: int,
    cleaned_offset: int = 0,
) -> LoadedLog:
    """The parts of the log in `folder`; all offsets are from the checkpoints."""
    return _Loader(io, folder, settings, high_watermark).load(
        is_clean=is_clean,
        recovery_point=recovery_point,
        start_offset=start_offset,
        cleaned_offset=cleaned_offset,
    )


class _Loader:
    def __init__(self, io: DirectoryIO, folder: str, settings: LogSettings, high_watermark: int) -> None:
        self._io = io
        self._disk = io.disk
        self._folder = folder
        self._settings = settings
        self._high_watermark = high_watermark
        self._segments: list[Segment] = []
        self._unsynced_names: list[str] = []
        self._report = RecoveryReport(partition=os.path.basename(folder))

    def load(
        self, *, is_clean: bool, recovery_point: int, start_offset: int, cleaned_offset: int
    ) -> LoadedLog:
        complete_replacements(self._disk, self._folder)
        offsets = self._list()
        self._find_segments(offsets)
        snapshots = SnapshotFiles(self._disk, self._folder, offsets[SNAPSHOT_SUFFIX])
        epochs = self._read_epochs()
        durable_offset = max(recovery_point, cleaned_offset)  # only what is synced was compacted
        trusted = self._segments if is_clean else self._segments[: self._slot_of(recovery_point)]
        doubtful = _first_doubtful(trusted)
        if doubtful is not None:
            is_clean, recovery_point = False, min(recovery_point, doubtful.base_offset)
        end_offset, producers = 0, None
        if is_clean and self._segments:
            last = self._segments[-1]
            try:
                end_offset = last.next_offset()
            except CorruptFile as error:
                logger.warning("%s was shut down cleanly but is damaged: %s", self._folder, error)
                is_clean, recovery_point = False, min(recovery_point, last.base_offset)
        if not is_clean and self._segments:
            end_offset, producers = self._recover(
                recovery_point, epochs, snapshots, durable_offset=durable_offset
            )
        if self._segments and end_offset < start_offset:
            logger.warning("%s ends at %d, before its log start offset %d: deleting its segments",
                           self._folder, end_offset, start_offset)  # fmt: skip
            self._drop(self._segments)
            self._segments, producers = [], None
        if not self._segments:
            end_offset = start_offset
            self._segments = [Segment.create(self._io, self._folder, start_offset)]
            epochs.clear()
        start_offset = max(start_offset, self._segments[0].base_offset)
        epochs.truncate_end(end_offset)
        epochs.truncate_start(start_offset)
        self._cover_start(epochs, start_offset)
        snapshots.remove_above(end_offset)
        if all(segment.size == 0 for segment in self._segments):
            snapshots.remove_below(end_offset)  # records between it and the end of the log are not known
        self._remove_stray_snapshots(snapshots)
        if producers is None:
            producers = rebuild_producers(
                snapshots,
                self._segments,
                end_offset=end_offset,
                high_watermark=self._high_watermark,
                is_trusted=is_clean,
            )
        for segment in self._segments:
            segment.release_files()
        topic_id = read_topic_id(self._disk, self._folder)
        if topic_id is not None and not is_clean:
            # It may have been written just before a kill, and without it the log would belong to no topic.
            self._unsynced_names.append(PARTITION_METADATA)
        return LoadedLog(
            folder=self._folder,
            segments=self._segments,
            epochs=epochs,
            producers=producers,
            snapshots=snapshots,
            start_offset=start_offset,
            end_offset=end_offset,
            recovery_point=end_offset if is_clean else min(recovery_point, end_offset),
            topic_id=topic_id,
            report=self._report,
            unsynced_names=self._unsynced_names,
            is_folder_synced=is_clean,
        )

    def _list(self) -> dict[str, set[int]]:
        """The offsets in file names, by suffix.

        Files to be deleted, incomplete replacements and indexes without a log are removed.
        """
        offsets: dict[str, set[int]] = {suffix: set() for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)}
        leftovers = []
        for name in self._disk.list(self._folder):
            parsed = parse_segment_file(name)
            if parsed is not None and parsed[1] in offsets:
                offsets[parsed[1]].add(parsed[0])
            elif name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
                leftovers.append(name)
        for suffix in SEGMENT_SUFFIXES:
            orphans = offsets[suffix] - offsets[LOG_SUFFIX]
            leftovers += [segment_file(offset, suffix) for offset in sorted(orphans)]
        remove_files(self._disk, [os.path.join(self._folder, name) for name in leftovers])
        return offsets

    def _find_segments(self, offsets: dict[str, set[int]]) -> None:
        for base_offset in sorted(offsets[LOG_SUFFIX]):
            segment = Segment(self._io, self._folder, base_offset, size=0)
            segment.size = segment.file().size()
            segment.has_transaction_index = base_offset in offsets[TRANSACTION_INDEX_SUFFIX]
            if segment.size == 0:
                segment.adopt_index(MemoryIndex())
            self._segments.append(segment)

    def _read_epochs(self) -> LeaderEpochs:
        path = os.path.join(self._folder, LEADER_EPOCHS)
        try:
            data = read_if_exists(self._disk, path)
            return LeaderEpochs(decode_epochs(data, name=path) if data is not None else ())
        except CorruptFile as error:
            logger.warning("%s is not used: %s", path, error)
            return LeaderEpochs()

    def _cover_start(self, epochs: LeaderEpochs, start_offset: int) -> None:
        """A crash can move the log start offset back, before the first entry of the leader epoch file. The batches in
        between have their epochs."""
        if epochs.epoch_for(start_offset) != NO_LEADER_EPOCH:
            return
        known = epochs.entries()
        known_offset = known[0][1] if known else start_offset + 1
        found = LeaderEpochs()
        for segment in self._segments:
            if segment.base_offset >= known_offset:
                break
            position = segment.position_of(start_offset) if segment.size > 0 else 0
            for _, header in scan.headers(
                segment.file(), position=position, end=segment.size, chunk_bytes=scan.REPLAY_CHUNK_BYTES
            ):
                if header.base_offset >= known_offset:
                    break
                if header.leader_epoch > found.latest:
                    found.assign(header.leader_epoch, max(start_offset, header.base_offset))
        for epoch, offset in reversed(found.entries()):
            epochs.extend_back(epoch, offset)

    def _slot_of(self, offset: int) -> int:
        """The segment that holds `offset`, or the first one."""
        bases = [segment.base_offset for segment in self._segments]
        return max(0, bisect_right(bases, offset) - 1)

    def _recover(
        self, recovery_point: int, epochs: LeaderEpochs, snapshots: SnapshotFiles, *, durable_offset: int
    ) -> tuple[int, ProducerState]:
        """Scan from the segment that holds the recovery point; returns the log end offset and the producer state.

        Below `durable_offset` nothing can be lost: a gap between segments was left by compaction. The leader epochs
        there are kept, because the first batches of an epoch may be compacted away.
        """
        first = self._slot_of(recovery_point)
        next_offset = self._segments[first].base_offset
        epochs.truncate_end(max(next_offset, durable_offset))
        snapshots.remove_above(next_offset)
        producers = rebuild_producers(
            snapshots,
            self._segments[:first],
            end_offset=next_offset,
            high_watermark=self._high_watermark,
        )
        scanned_bytes = cut_bytes = 0
        kept, reason = first, ""
        while kept < len(self._segments) and not reason:
            segment = self._segments[kept]
            if segment.base_offset > next_offset and segment.base_offset <= durable_offset:
                next_offset = segment.base_offset
            if segment.base_offset != next_offset:
                reason = f"offsets {next_offset} to {segment.base_offset - 1} are lost"
                break
            if next_offset > 0:
                self._owe(snapshots.save(next_offset, producers))
            scanned = scan_segment(
                segment.file(),
                segment.base_offset,
                interval=self._settings.index_interval_bytes,
                epochs=epochs,
                producers=producers,
            )
            scanned_bytes += segment.size
            if scanned.reason:
                reason = f"{segment.path(LOG_SUFFIX)}, {scanned.reason}"
                cut_bytes = segment.size - scanned.valid_bytes
                segment.file().truncate(scanned.valid_bytes)
                segment.file().sync()
            segment.size = scanned.valid_bytes
            segment.first_timestamp_ms = scanned.first_timestamp_ms
            segment.adopt_index(scanned.index)
            self._owe(segment.file())
            next_offset = scanned.next_offset
            kept += 1
        dropped = self._segments[kept:]
        del self._segments[kept:]
        self._drop(dropped)
        for segment in self._segments[first:-1]:
            self._owe(*segment.seal())
        self._report = RecoveryReport(
            partition=os.path.basename(self._folder),
            scanned_segments=kept - first,
            scanned_bytes=scanned_bytes,
            cut_bytes=cut_bytes + sum(segment.size for segment in dropped),
            dropped_segments=len(dropped),
            end_offset=next_offset,
            reason=reason,
        )
        return next_offset, producers

    def _owe(self, *files: File | None) -> None:
        """The next sync must cover these files; until then they need not be open."""
        self._unsynced_names += [os.path.basename(file.path) for file in files if file is not None]

    def _drop(self, segments: Sequence[Segment]) -> None:
        """Delete segments durably: if another crash brought them back, their offsets might fit."""
        for segment in segments:
            segment.release_files()
            remove_files(self._disk, [segment.path(suffix) for suffix in SEGMENT_SUFFIXES])
        if segments:
            self._disk.sync_directory(self._folder)

    def _remove_stray_snapshots(self, snapshots: SnapshotFiles) -> None:
        """Keep those at the start of a segment, and the newest, which a clean shutdown left at the end of the log."""
        bases = {segment.base_offset for segment in self._segments}
        newest = snapshots.newest()
        for offset in snapshots.offsets():
            if offset not in bases and offset != newest:
                snapshots.remove(offset)


def _first_doubtful(segments: Sequence[Segment]) -> Segment | None:
    """The first segment whose indexes are missing or implausible."""
    for slot, segment in enumerate(segments):
        if segment.size == 0:
            continue
        try:
            segment.check_index(is_last=slot == len(segments) - 1)
        except (CorruptFile, FileNotFoundError) as error:
            logger.warning("rebuilding the index of %s: %s", segment.path(LOG_SUFFIX), error)
            return segment
    return None
