"""Puts compacted segments in the place of the originals, so that a crash at any moment leaves one or the other.

1. A worker has written the new segment, synced it, and renamed its files to `.swap`; that is durable. From here on, the
   next start completes the replacement (`complete_replacements`).
2. `begin`, in one step of the event loop: the originals are renamed to `.deleted`, and the log uses the new segment
   under its `.swap` names, so nobody may remove them any more. The caller syncs the folder, in a worker.
3. `finish` renames the files, the log first. If only indexes still end in `.swap`, the next start renames them. If
   `finish` fails, the next compaction of the log begins with it.

Slices of the originals that are being sent stay valid, because they hold their files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.runtime.disk import Disk
from penstock.storage import scan
from penstock.storage.deletion import remove_files
from penstock.storage.durability import Durability
from penstock.storage.errors import LogBusy
from penstock.storage.layout import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    parse_segment_file,
    segment_file,
)
from penstock.storage.log_files import LogFiles
from penstock.storage.log_reader import LogReader
from penstock.storage.log_state import LogState
from penstock.storage.segment import Segment

logger = logging.getLogger(__name__)


class CleanedSegment(NamedTuple):
    """A new segment, as `.swap` files."""

    base_offset: int
    size: int
    has_transaction_index: bool


class ReplaceableLog(LogState, Protocol):
    durability: Durability
    reader: LogReader


class SegmentReplacement:
    __slots__ = ("_files", "_log")

    def __init__(self, log: ReplaceableLog, files: LogFiles) -> None:
        self._log = log
        self._files = files

    def begin(self, replaced: Sequence[Segment], cleaned: CleanedSegment) -> Segment:
        """Use the new segment instead of `replaced`; LogBusy if the log no longer has all of them."""
        log = self._log
        with log.in_service("replacing segments of"):
            slot = log.segments.find(replaced)
            if slot is None or replaced[-1] is log.segments.active:
                raise LogBusy(f"segments of {log} were deleted while they were compacted")
            segment = Segment(log.io, log.folder, cleaned.base_offset, size=cleaned.size)
            segment.name_suffix = SWAP_SUFFIX
            segment.has_transaction_index = cleaned.has_transaction_index
            segment.allow_blocking_reads(False)
            self._files.discard(replaced, log.settings)
            log.segments.replace(slot, len(replaced), segment)
            log.reader.forget()
            log.durability.is_folder_changed = True
        return segment

    def finish(self, segment: Segment) -> None:
        """Give the files of a new segment their names. The folder was synced since `begin`."""
        log = self._log
        with log.in_service("replacing segments of"):
            if log.segments.find([segment]) is None:
                return  # deleted by retention or truncation, or replaced by a copy in another directory
            disk = log.io.disk
            segment.release_files()
            for suffix in SEGMENT_SUFFIXES:
                path = segment.path(suffix)
                if disk.exists(path):
                    disk.rename(path, path.removesuffix(SWAP_SUFFIX))
            segment.name_suffix = ""
            log.durability.is_folder_changed = True


def complete_replacements(disk: Disk, folder: str) -> None:
    """Blocking, before a log is loaded: remove what an interrupted compaction left, or complete its replacements."""
    names = disk.list(folder)
    complete = {name.removesuffix(LOG_SUFFIX + SWAP_SUFFIX) for name in names}  # the log is renamed last
    unfinished = {name.split(".", 1)[0] for name in names if name.endswith(CLEANED_SUFFIX)} - complete
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    leftovers = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    leftovers += [name for name in swaps if name.split(".", 1)[0] in unfinished]
    remove_files(disk, [f"{folder}/{name}" for name in leftovers])
    swaps = [name for name in swaps if name not in leftovers]
    if not leftovers and not swaps:
        return
    for name in swaps:
        parsed = parse_segment_file(name.removesuffix(SWAP_SUFFIX))
        if parsed is not None and parsed[1] == LOG_SUFFIX:
            _remove_originals(disk, folder, parsed[0])
    disk.sync_directory(folder)
    for name in sorted(swaps, key=lambda name: LOG_SUFFIX not in name):
        disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP_SUFFIX)}")
    disk.sync_directory(folder)
    if swaps:
        logger.info("completed the compaction of %s, which was interrupted", folder)


def _remove_originals(disk: Disk, folder: str, base_offset: int) -> None:
    """Remove the segments that the one in `.swap` files replaces: all up to its last offset."""
    file = disk.open(f"{folder}/{segment_file(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}")
    end_offset = base_offset + 1
    for _, header in scan.headers(file, position=0, end=file.size(), chunk_bytes=scan.REPLAY_CHUNK_BYTES):
        end_offset = header.next_offset
    originals = []
    for name in disk.list(folder):
        parsed = parse_segment_file(name)
        if parsed is not None and parsed[1] in SEGMENT_SUFFIXES and base_offset <= parsed[0] < end_offset:
            originals.append(f"{folder}/{name}")
    remove_files(disk, originals)
