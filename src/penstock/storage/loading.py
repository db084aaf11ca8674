"""From a folder on disk to the parts of a log.

After a clean stop everything on disk is believed: sizes, the last index entries and the last few batches are
read, and nothing else. After an unclean one all from the recovery point on is scanned (`recovery`), cut at
the first batch that is not whole, and its indexes, epochs and producer state are built anew. A log whose
indexes are missing or make no sense is treated as unclean.

Blocking; runs in a worker, on a folder that nobody else uses yet.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.protocol.types import Uuid
from penstock.runtime.disk import File
from penstock.storage import scan
from penstock.storage.checkpoints import decode_epochs
from penstock.storage.epochs import UNDEFINED_EPOCH, LeaderEpochs
from penstock.storage.errors import CorruptFile
from penstock.storage.files import read_if_there
from penstock.storage.identity import read_topic_id
from penstock.storage.index import LiveIndex
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
from penstock.storage.producer_state import ProducerState
from penstock.storage.rebuilding import rebuild_producers
from penstock.storage.recovery import RecoveryReport, scan_segment
from penstock.storage.segment import Segment
from penstock.storage.settings import LogSettings
from penstock.storage.snapshots import SnapshotFiles
from penstock.storage.trash import remove_files
from penstock.storage.volume import Volume

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """What `Log` is made of."""

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
    """Files in the folder that are safe only after the next flush."""
    is_folder_synced: bool
    """Whether the folder and the names in it are known to be safe."""


def new_log(volume: Volume, folder: str, *, start_offset: int = 0) -> LoadedLog:
    """The parts of an empty log in a new folder."""
    return LoadedLog(
        folder=folder,
        segments=[Segment.create(volume, folder, start_offset)],
        epochs=LeaderEpochs(),
        producers=ProducerState(),
        snapshots=SnapshotFiles(volume.disk, folder, ()),
        start_offset=start_offset,
        end_offset=start_offset,
        recovery_point=start_offset,
        topic_id=None,
        report=RecoveryReport(partition=os.path.basename(folder)),
        is_folder_synced=False,
    )


def load_log(
    volume: Volume,
    folder: str,
    settings: LogSettings,
    *,
    is_clean: bool,
    recovery_point: int,
    start_offset: int,
    high_watermark: int,
) -> LoadedLog:
    """The parts of the log in `folder`; all offsets as the checkpoints say."""
    return _Loader(volume, folder, settings, high_watermark).load(
        is_clean=is_clean, recovery_point=recovery_point, start_offset=start_offset
    )


class _Loader:
    def __init__(self, volume: Volume, folder: str, settings: LogSettings, high_watermark: int) -> None:
        self._volume = volume
        self._disk = volume.disk
        self._folder = folder
        self._settings = settings
        self._high_watermark = high_watermark
        self._segments: list[Segment] = []
        self._unsynced_names: list[str] = []
        self._report = RecoveryReport(partition=os.path.basename(folder))

    def load(self, *, is_clean: bool, recovery_point: int, start_offset: int) -> LoadedLog:
        offsets = self._list()
        self._find_segments(offsets)
        snapshots = SnapshotFiles(self._disk, self._folder, offsets[SNAPSHOT_SUFFIX])
        epochs = self._read_epochs()
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
                logger.warning("%s was stopped in order and has been damaged since: %s", self._folder, error)
                is_clean, recovery_point = False, min(recovery_point, last.base_offset)
        if not is_clean and self._segments:
            end_offset, producers = self._recover(recovery_point, epochs, snapshots)
        if self._segments and end_offset < start_offset:
            logger.warning("%s ends at %d, before its start at %d: its segments are dropped",
                           self._folder, end_offset, start_offset)  # fmt: skip
            self._drop(self._segments)
            self._segments, producers = [], None
        if not self._segments:
            end_offset = start_offset
            self._segments = [Segment.create(self._volume, self._folder, start_offset)]
            epochs.clear()
        start_offset = max(start_offset, self._segments[0].base_offset)
        epochs.truncate_end(end_offset)
        epochs.truncate_start(start_offset)
        self._cover_start(epochs, start_offset)
        snapshots.remove_above(end_offset)
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
            # It may have been written just before a kill, and without it the records would be nobody's.
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
        """The offsets in the names of files, by suffix.

        Files that were on their way out, half-written replacements and indexes without a log are removed.
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
            segment = Segment(self._volume, self._folder, base_offset, size=0)
            segment.size = segment.file().size()
            segment.has_stored_aborted = base_offset in offsets[TRANSACTION_INDEX_SUFFIX]
            if segment.size == 0:
                segment.adopt_index(LiveIndex())
            self._segments.append(segment)

    def _read_epochs(self) -> LeaderEpochs:
        path = os.path.join(self._folder, LEADER_EPOCHS)
        try:
            data = read_if_there(self._disk, path)
            return LeaderEpochs(decode_epochs(data, name=path) if data is not None else ())
        except CorruptFile as error:
            logger.warning("%s is not used: %s", path, error)
            return LeaderEpochs()

    def _cover_start(self, epochs: LeaderEpochs, start_offset: int) -> None:
        """A moved start that was not safe goes back in a crash, before what the epochs' file begins with. The
        batches in between say themselves which epochs they are of.
        """
        if epochs.epoch_for(start_offset) != UNDEFINED_EPOCH:
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
        self, recovery_point: int, epochs: LeaderEpochs, snapshots: SnapshotFiles
    ) -> tuple[int, ProducerState]:
        """Scan from the segment that holds the recovery point; returns the end of the log and its producers."""
        first = self._slot_of(recovery_point)
        next_offset = self._segments[first].base_offset
        epochs.truncate_end(next_offset)
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
        """Remove segments durably: if another crash brought them back, their offsets might fit."""
        for segment in segments:
            segment.release_files()
            remove_files(self._disk, [segment.path(suffix) for suffix in SEGMENT_SUFFIXES])
        if segments:
            self._disk.sync_directory(self._folder)

    def _remove_stray_snapshots(self, snapshots: SnapshotFiles) -> None:
        """Keep those where a segment begins, and the newest, which a clean stop left at the end of the log."""
        bases = {segment.base_offset for segment in self._segments}
        newest = snapshots.newest()
        for offset in snapshots.offsets():
            if offset not in bases and offset != newest:
                snapshots.remove(offset)


def _first_doubtful(segments: Sequence[Segment]) -> Segment | None:
    """The first segment whose indexes are missing or can not be right, where all should be well."""
    for slot, segment in enumerate(segments):
        if segment.size == 0:
            continue
        try:
            segment.check_index(is_last=slot == len(segments) - 1)
        except (CorruptFile, FileNotFoundError) as error:
            logger.warning("the index of %s is built anew: %s", segment.path(LOG_SUFFIX), error)
            return segment
    return None
