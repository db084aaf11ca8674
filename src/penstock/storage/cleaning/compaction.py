"""One compaction of one log: reads its segments, and writes new ones without the records that are outdated.

`Compaction.steps` is a generator for a worker, because all of it blocks: each step reads about `CHUNK_BYTES`, and
yields how many bytes it read and wrote, so that the caller can limit the rate or stop. First it notes the last offset
of each key in the dirty part (`OffsetMap`). Then it filters the log from its start up to there, in groups of segments
that become one new segment each. A new segment is written and synced as `.cleaned`, and renamed to `.swap`; then it is
yielded, and the event loop puts it in place (`storage.replacement`).

It only reads sealed segments. If one is deleted meanwhile, a step raises FileNotFoundError, or the new segment is
refused when it is put in place. If the log leaves its folder, the next use of a name there raises LogBusy
(`FolderUse`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from struct import Struct

from penstock.records.batch import HEADER_BYTES, LENGTH_AT, LENGTH_BYTES
from penstock.records.compaction import SLOT_BYTES, BatchFilter, OffsetMap, add_batches
from penstock.records.errors import RecordsError
from penstock.runtime.disk import Disk, File
from penstock.storage.cleaning.transactions import LastBatch, TransactionDecisions
from penstock.storage.deletion import remove_files
from penstock.storage.errors import CorruptFile, LogBusy, StorageError
from penstock.storage.files import read_if_exists
from penstock.storage.folder_use import FolderUse
from penstock.storage.index import OFFSET_ENTRY_BYTES, MemoryIndex
from penstock.storage.layout import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file,
)
from penstock.storage.replacement import CleanedSegment
from penstock.storage.segment import RELATIVE_OFFSET_MAX, Segment
from penstock.storage.transactions.aborted import AbortedTxn, MemoryTransactionIndex, decode_entries

CHUNK_BYTES = 4 << 20  # read at once: long enough for the disk, short enough to stop soon
SEGMENTS_MAX = 100  # that become one: the event loop renames their files, in ten milliseconds

_LENGTH = Struct(">i")


class MapTooSmall(StorageError):
    """There is no memory for a single key."""


@dataclass(frozen=True, slots=True)
class Source:
    """A segment to read. Not the `Segment` itself, which belongs to the event loop."""

    segment: Segment
    """Only to name it to the event loop."""
    base_offset: int
    end_offset: int
    size: int
    folder: str

    def path(self, suffix: str) -> str:
        return f"{self.folder}/{segment_file(self.base_offset, suffix)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a compaction needs to know of a log, copied on the event loop."""

    name: str
    folder: str
    sources: Sequence[Source]
    """From the start of the log up to the end of the dirty part."""
    first_dirty_offset: int
    later_aborted: Sequence[AbortedTxn]
    """Aborted transactions that begin in `sources` and end after them."""
    last_batches: Mapping[int, LastBatch]
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    now_ms: int
    map_bytes: int
    hash_key: bytes


@dataclass(slots=True)
class Statistics:
    read_bytes: int = 0
    written_bytes: int = 0
    read_records: int = 0
    retained_records: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """A new segment, complete and durable as `.swap`, and the segments that it replaces."""

    cleaned: CleanedSegment
    replaced: Sequence[Segment]


class Compaction:
    def __init__(self, disk: Disk, plan: Plan, folder_use: FolderUse) -> None:
        self.folder_use = folder_use
        self._disk = disk
        self._plan = plan
        # Room for one key per offset is enough, however large the setting is.
        offsets_count = plan.sources[-1].end_offset - plan.first_dirty_offset
        map_bytes = min(plan.map_bytes, 2 * SLOT_BYTES * (offsets_count + 1))
        self._offsets = OffsetMap(map_bytes, hash_key=plan.hash_key)
        self._is_complete = False
        """All keys of the dirty part fit into the map."""
        self._unplaced: list[str] = []
        """The files of the segment that is being written."""
        self.statistics = Statistics()

    @property
    def cleaned_offset(self) -> int:
        """Where the clean part of the log ends after this compaction."""
        return self._plan.sources[-1].end_offset if self._is_complete else self._offsets.latest_offset + 1

    def steps(self) -> Iterator[int | Written]:
        """Yields the bytes of each step, or a new segment that is to be put in place."""
        aborted = self._read_aborted()
        yield from self._find_keys(aborted)
        if not self._is_complete and self._offsets.latest_offset < 0:
            raise MapTooSmall(
                f"log.cleaner.dedupe.buffer.size is too small to compact {self._plan.name}: not even one key fits"
            )
        decisions = TransactionDecisions(aborted, self._plan.last_batches, now_ms=self._plan.now_ms)
        for group in self._groups():
            yield from self._rewrite(group, decisions)

    def placed(self) -> None:
        """The log uses the segment that was just yielded, so its files are the log's now."""
        self._unplaced.clear()

    def remove_leftovers(self) -> None:
        """After a failure: remove the files of a new segment that was not put in place. If the log was deleted, they
        were deleted with it."""
        swaps = [path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX for path in self._unplaced]
        with suppress(LogBusy), self.folder_use.by_name():
            remove_files(self._disk, [*self._unplaced, *swaps])

    def _read_aborted(self) -> list[AbortedTxn]:
        entries: list[AbortedTxn] = []
        for source in self._plan.sources:
            with self.folder_use.by_name():
                data = read_if_exists(self._disk, source.path(TRANSACTION_INDEX_SUFFIX))
            if data:
                entries += decode_entries(data)
        return [*entries, *self._plan.later_aborted]

    def _find_keys(self, aborted: Sequence[AbortedTxn]) -> Iterator[int]:
        plan = self._plan
        first_dirty_offset = plan.first_dirty_offset
        decisions = TransactionDecisions(
            [entry for entry in aborted if entry.last_offset >= first_dirty_offset], {}, now_ms=plan.now_ms
        )
        for source in plan.sources:
            if source.end_offset <= first_dirty_offset:
                continue
            for chunk in self._chunks(source):
                with chunk.locating():
                    progress = add_batches(
                        self._offsets,
                        chunk.data,
                        position=0,
                        start_offset=first_dirty_offset,
                        decide=decisions.decide,
                    )
                chunk.used_bytes = progress.position
                yield progress.position
                if progress.is_full:
                    return
        self._is_complete = True

    def _groups(self) -> Iterator[list[Source]]:
        """Segments that become one: no larger than a segment may be, in bytes, index entries and offsets."""
        plan = self._plan
        entries_max = plan.segment_index_bytes // OFFSET_ENTRY_BYTES
        size_max = min(plan.segment_bytes, entries_max * plan.index_interval_bytes)
        group: list[Source] = []
        size = 0
        for source in plan.sources:
            if source.base_offset >= self.cleaned_offset:
                break
            size += source.size
            span = source.end_offset - (group or [source])[0].base_offset
            if group and (size > size_max or span > RELATIVE_OFFSET_MAX or len(group) == SEGMENTS_MAX):
                yield group
                group, size = [], source.size
            group.append(source)
        if group:
            yield group

    def _rewrite(self, group: Sequence[Source], decisions: TransactionDecisions) -> Iterator[int | Written]:
        plan = self._plan
        # The last batches of producers have sequence numbers that are needed. The last batch of all stays, because a
        # follower reads from it where the log ends (KAFKA-17076).
        kept = [last.data_offset for last in plan.last_batches.values() if last.data_offset is not None]
        kept.append(plan.sources[-1].end_offset - 1)
        batches = BatchFilter(
            self._offsets,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            kept_offsets=kept,
            index_interval_bytes=plan.index_interval_bytes,
        )
        base_offset = group[0].base_offset
        file = self._create(group[0].path(LOG_SUFFIX) + CLEANED_SUFFIX)
        for source in group:
            for chunk in self._chunks(source):
                with chunk.locating():
                    chunk.used_bytes = batches.filter(chunk.data, position=0, decide=decisions.decide)
                output = batches.take_output()
                if output:
                    file.append((output,))
                yield chunk.used_bytes + len(output)
        index = _index(batches, base_offset)
        contents = {INDEX_SUFFIX: index.encode_offsets(), TIME_INDEX_SUFFIX: index.encode_times()}
        aborted = MemoryTransactionIndex()
        for entry in decisions.take_retained_aborted():
            aborted.add(entry)
        if aborted:
            contents[TRANSACTION_INDEX_SUFFIX] = aborted.encode()
        files = [file]
        for suffix, content in contents.items():
            file = self._create(group[0].path(suffix) + CLEANED_SUFFIX)
            file.append((content,))
            files.append(file)
        self._keep_age(files[0], group[-1])
        self._make_durable(files)
        self._count(batches)
        cleaned = CleanedSegment(base_offset, batches.output_bytes, has_transaction_index=bool(aborted))
        yield Written(cleaned, [source.segment for source in group])

    def _create(self, path: str) -> File:
        with self.folder_use.by_name():
            self._unplaced.append(path)
            file = self._disk.open(path, create=True)
            if file.size() > 0:
                file.truncate(0)  # an earlier attempt failed
        return file

    def _keep_age(self, file: File, last: Source) -> None:
        """Retention uses the time of the file if the records have no timestamps."""
        with self.folder_use.by_name():
            modified_ms = self._disk.modified_ms(last.path(LOG_SUFFIX))
            self._disk.set_modified_ms(file.path, modified_ms)

    def _make_durable(self, files: Sequence[File]) -> None:
        """Sync, then rename to `.swap`, the log last: once the log is `.swap`, all files are."""
        for file in files:
            file.sync()
        with self.folder_use.by_name():
            self._disk.sync_directory(self._plan.folder)
            for file in reversed(files):
                self._disk.rename(file.path, file.path.removesuffix(CLEANED_SUFFIX) + SWAP_SUFFIX)
            self._disk.sync_directory(self._plan.folder)

    def _count(self, batches: BatchFilter) -> None:
        statistics = self.statistics
        statistics.read_bytes += batches.bytes_read
        statistics.written_bytes += batches.output_bytes
        statistics.read_records += batches.records_read
        statistics.retained_records += batches.records_retained

    def _chunks(self, source: Source) -> Iterator[_Chunk]:
        """The segment in chunks that begin with a batch; the consumer sets how much of a chunk it used."""
        with self.folder_use.by_name():
            file = self._disk.open(source.path(LOG_SUFFIX))
        position = 0
        wanted_bytes = CHUNK_BYTES
        while position < source.size:
            data = file.read(position=position, size=min(wanted_bytes, source.size - position))
            chunk = _Chunk(data, f"{file.path}, from byte {position}")
            yield chunk
            if chunk.used_bytes == 0:
                # Not one whole batch: read as much as the first one needs.
                needed_bytes = _batch_bytes(data) if len(data) >= HEADER_BYTES else 0
                if needed_bytes <= len(data) or needed_bytes > source.size - position:
                    raise CorruptFile(f"{file.path}: no whole batch begins at byte {position}")
                wanted_bytes = needed_bytes
            else:
                wanted_bytes = CHUNK_BYTES
            position += chunk.used_bytes


@dataclass(slots=True)
class _Chunk:
    data: bytes
    place: str
    used_bytes: int = 0

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Name the file in an error about a batch."""
        try:
            yield
        except RecordsError as error:
            raise CorruptFile(f"{self.place}: {error}") from error


def _batch_bytes(data: bytes) -> int:
    length: int = _LENGTH.unpack_from(data, LENGTH_AT)[0]
    return length + LENGTH_BYTES


def _index(batches: BatchFilter, base_offset: int) -> MemoryIndex:
    index = MemoryIndex()
    for position, last_offset, max_timestamp_ms, max_timestamp_offset in batches.index_entries:
        index.add(last_offset - base_offset, position)
        index.add_time(max_timestamp_ms, max_timestamp_offset - base_offset)
    if batches.output_bytes > 0:
        index.add_time(batches.max_timestamp_ms, batches.max_timestamp_offset - base_offset)
    return index
