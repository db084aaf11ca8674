"""One segment of a log: a file of batches, its offset and time indexes, and its transaction index.

The last segment of a log is active: its index is in memory and grows. The others are sealed: their size never changes
(except by truncation, which makes one active), and their index is read from its files, which are opened when needed
and may be closed at any time. Batches are validated before they come here; `append` is one write.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from struct import error as StructError

from penstock.records.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader
from penstock.runtime.disk import File
from penstock.runtime.network import FileSlice
from penstock.storage import scan
from penstock.storage.directory_io import DirectoryIO
from penstock.storage.errors import CorruptFile
from penstock.storage.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    FileIndex,
    MemoryIndex,
    SegmentIndex,
)
from penstock.storage.layout import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file,
)
from penstock.storage.pages import CachedFile, Readable
from penstock.storage.settings import LogSettings
from penstock.storage.transactions.aborted import (
    ENTRY_BYTES,
    AbortedTransaction,
    AbortedTxn,
    FileTransactionIndex,
    MemoryTransactionIndex,
)

RELATIVE_OFFSET_MAX = 2**31 - 1  # an index entry has four bytes for it
_NOT_READ = -2  # the timestamp is in the index and was not needed yet


class Segment:
    __slots__ = (
        "_file",
        "_io",
        "_max_timestamp_ms",
        "_max_timestamp_offset",
        "_may_block",
        "_reader",
        "_saved_entries",
        "_stored",
        "_transaction_index",
        "_unindexed_bytes",
        "base_offset",
        "created_ms",
        "first_timestamp_ms",
        "folder",
        "has_transaction_index",
        "index",
        "jitter_ms",
        "name_suffix",
        "size",
    )

    base_offset: int
    size: int
    folder: str
    index: MemoryIndex | None
    """The index in memory; None if it is only in its files."""
    first_timestamp_ms: int
    """Largest timestamp of the first batch, from which `segment.ms` is counted; -1 if unknown."""
    created_ms: int
    jitter_ms: int
    has_transaction_index: bool
    """Whether a transaction index file exists; valid while the index is not in memory."""
    name_suffix: str
    """Added to all file names until the segment is in its place: see `replacement`."""

    def __init__(
        self, io: DirectoryIO, folder: str, base_offset: int, *, size: int, jitter_ms: int = 0
    ) -> None:
        self._io = io
        self.folder = folder
        self.base_offset = base_offset
        self.size = size
        self.jitter_ms = jitter_ms
        self.created_ms = io.clock.wall_ms()
        self.first_timestamp_ms = NO_TIMESTAMP
        self.index = None
        self.has_transaction_index = False
        self.name_suffix = ""
        self._saved_entries = (0, 0, 0)
        """Number of offset, time and transaction index entries that are already in the files."""
        self._may_block = True
        self._file: File | None = None
        self._reader: Readable | None = None
        self._stored: FileIndex | None = None
        self._transaction_index: FileTransactionIndex | None = None
        self._unindexed_bytes = 0
        self._max_timestamp_ms = _NOT_READ
        self._max_timestamp_offset = base_offset

    @classmethod
    def create(cls, io: DirectoryIO, folder: str, base_offset: int, *, jitter_ms: int = 0) -> Segment:
        """A new, empty, active segment. A file that a crash left under its name is truncated."""
        segment = cls(io, folder, base_offset, size=0, jitter_ms=jitter_ms)
        segment.adopt_index(MemoryIndex())
        if segment.file().size() > 0:
            segment.file().truncate(0)
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG_SUFFIX)}, {self.size} bytes)"

    @property
    def is_in_place(self) -> bool:
        return not self.name_suffix

    def path(self, suffix: str) -> str:
        return f"{self.folder}/{segment_file(self.base_offset, suffix)}{self.name_suffix}"

    # Files

    @property
    def has_open_file(self) -> bool:
        return self._file is not None

    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._io.disk.open(self.path(LOG_SUFFIX), create=self.size == 0)
            self._io.open_files.opened(self)
        return file

    def allow_blocking_reads(self, is_allowed: bool) -> None:
        """Whether reads may wait for the disk, as in a worker, or raise ColdPages, as on the event loop."""
        self._may_block = is_allowed
        self._reader = None
        self._stored = None
        self._transaction_index = None

    def reader(self) -> Readable:
        """The batches, for lookups."""
        reader = self._reader
        if reader is None:
            reader = self._reader = self._readable(self.file())
        return reader

    def _readable(self, file: File, *, is_index: bool = False) -> Readable:
        return file if self._may_block else CachedFile(file, self._io, is_index=is_index)

    def _open_index(self, suffix: str) -> Readable:
        return self._readable(self._io.disk.open(self.path(suffix)), is_index=True)

    def slice(self, position: int, size: int) -> FileSlice:
        """Bytes to be sent; if they cannot be read, the directory goes offline."""
        return FileSlice(self.file(), position, size, self._io)

    def release_files(self) -> None:
        """Forget the files, which close when no slice uses them; they are opened again when needed."""
        self._file = None
        self._reader = None
        self._stored = None
        self._transaction_index = None
        self._io.open_files.released(self)

    def lookup(self) -> SegmentIndex:
        """The index, in memory or in its files."""
        index = self.index or self._stored
        if index is None:
            index = self._stored = FileIndex(
                self._open_index(INDEX_SUFFIX), self._open_index(TIME_INDEX_SUFFIX)
            )
            self._io.open_files.opened(self)
        return index

    def check_index(self, *, is_last: bool) -> None:
        """Raise CorruptFile if the index files cannot belong to this log, by cheap checks.

        The transaction index of the last segment, which will be appended to, is checked completely.
        """
        index = self.lookup()
        if isinstance(index, FileIndex):
            index.check(log_bytes=self.size)
            if self.has_transaction_index:
                self._open_transaction_index().check(base_offset=self.base_offset, is_whole=is_last)

    # Writing

    def activate(self) -> MemoryIndex:
        """Load the index into memory, so that the segment can be appended to."""
        if self.index is None:
            self.max_timestamp()
            index = MemoryIndex.decode(self._read_index(INDEX_SUFFIX), self._read_index(TIME_INDEX_SUFFIX))
            if self.has_transaction_index:
                index.aborted = MemoryTransactionIndex.decode(self._read_index(TRANSACTION_INDEX_SUFFIX))
            self._read_first_timestamp()
            # State changes only from here on: every read above may raise ColdPages.
            self.index = index
            self._saved_entries = len(index.offsets), len(index.times), len(index.aborted or ())
            self._stored = None
        return self.index

    def _read_index(self, suffix: str) -> bytes | bytearray:
        file = self._open_index(suffix)
        return file.read(position=0, size=file.size())

    def adopt_index(self, index: MemoryIndex) -> None:
        """Set an index that was just built, by recovery or for a new segment."""
        self.index = index
        self._saved_entries = (0, 0, 0)
        self._stored = None
        latest = index.last_time()
        self._max_timestamp_ms = latest.timestamp_ms
        self._max_timestamp_offset = self.base_offset + latest.relative_offset

    def append(
        self, batches: memoryview, headers: Sequence[BatchHeader], *, first_offset: int | None, interval: int
    ) -> None:
        """Write `batches` with one call and index them.

        Their offsets are consecutive from `first_offset`, or in the headers if that is None.
        """
        file = self._file
        if file is None:
            file = self.file()
        position = self.size
        file.append((batches,))
        base_offset = self.base_offset
        offset = headers[0].base_offset if first_offset is None else first_offset
        if position == 0:
            self.first_timestamp_ms = max([header.max_timestamp for header in headers])
        for header in headers:
            if first_offset is None:
                offset = header.base_offset
            last_offset = offset + header.last_offset_delta
            if header.max_timestamp > self._max_timestamp_ms:
                self._max_timestamp_ms = header.max_timestamp
                self._max_timestamp_offset = last_offset
            if self._unindexed_bytes > interval:
                self._add_entry(last_offset - base_offset, position)
            self._unindexed_bytes += header.size_bytes
            position += header.size_bytes
            offset = last_offset + 1
        self.size = position

    def _add_entry(self, relative_offset: int, position: int) -> None:
        index = self.index
        assert index is not None, "only the active segment is appended to"
        index.add(relative_offset, position)
        index.add_time(self._max_timestamp_ms, self._max_timestamp_offset - self.base_offset)
        self._unindexed_bytes = 0

    def seal(self) -> list[File]:
        """Write the index to its files, release it, and return the files to sync.

        Only new entries are written, so that synced ones are not put at risk. The last entry is the latest timestamp
        of all, so that it can be read from there later.
        """
        index = self.index
        if index is None:
            return []
        index.add_time(self._max_timestamp_ms, self._max_timestamp_offset - self.base_offset)
        offsets, times, aborted = self._saved_entries
        files = [
            self._save(INDEX_SUFFIX, index.encode_offsets(), saved_bytes=offsets * OFFSET_ENTRY_BYTES),
            self._save(TIME_INDEX_SUFFIX, index.encode_times(), saved_bytes=times * TIME_ENTRY_BYTES),
        ]
        # A file that a crash or a truncation made wrong is emptied and not removed: the sync covers that.
        if index.aborted or self._io.disk.exists(self.path(TRANSACTION_INDEX_SUFFIX)):
            data = index.aborted.encode() if index.aborted is not None else b""
            files.append(self._save(TRANSACTION_INDEX_SUFFIX, data, saved_bytes=aborted * ENTRY_BYTES))
        self.has_transaction_index = bool(index.aborted)
        self.index = self._transaction_index = None
        return files

    def _save(self, suffix: str, data: bytes, *, saved_bytes: int) -> File:
        file = self._io.disk.open(self.path(suffix), create=True)
        if file.size() > saved_bytes:
            file.truncate(saved_bytes)
        if len(data) > saved_bytes:
            file.append((memoryview(data)[saved_bytes:],))
        return file

    def is_full(
        self, settings: LogSettings, *, size: int, last_offset: int, timestamp_ms: int, now_ms: int
    ) -> bool:
        """Whether `size` more bytes, up to `last_offset` and `timestamp_ms`, belong in a new segment."""
        held = self.size
        if held == 0:
            return last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        if held + size > settings.segment_bytes or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        # Time is measured by record timestamps, so that a replayed topic rolls as the original did.
        if self.first_timestamp_ms >= 0:
            waited_ms = timestamp_ms - self.first_timestamp_ms
        else:
            waited_ms = now_ms - self.created_ms
        if waited_ms > settings.segment_ms - self.jitter_ms:
            return True
        index = self.index
        assert index is not None, "only the active segment is appended to"
        return (
            len(index.offsets) >= settings.segment_index_bytes // OFFSET_ENTRY_BYTES
            or len(index.times) >= settings.segment_index_bytes // TIME_ENTRY_BYTES - 1
        )

    def truncate(self, offset: int) -> int:
        """Truncate from the batch that holds `offset` on; returns where the segment, now active, ends.

        The file still has to be shortened to `size`, in a worker; nothing else may use it before.
        """
        index = self.activate()
        position = self.position_of(offset)
        end_offset = offset
        if position < self.size:
            _, header = next(scan.headers(self.reader(), position=position, end=self.size))
            end_offset = min(offset, header.base_offset)
        latest_ms, latest_offset = self._latest_time_before(position, offset - self.base_offset)
        # State changes only from here on: every read above may raise ColdPages.
        index.truncate(offset - self.base_offset)
        if index.aborted is not None:
            index.aborted.truncate(offset)
        offsets, times, aborted = self._saved_entries
        self._saved_entries = (
            min(offsets, len(index.offsets)),
            min(times, len(index.times)),
            min(aborted, len(index.aborted or ())),
        )
        self.size = position
        self._unindexed_bytes = 0
        self._max_timestamp_ms, self._max_timestamp_offset = latest_ms, latest_offset
        if position == 0:
            self.first_timestamp_ms = NO_TIMESTAMP
            self.created_ms = self._io.clock.wall_ms()
        return end_offset

    def add_aborted(self, entry: AbortedTxn) -> None:
        """Index a transaction whose abort marker was just appended."""
        assert self.index is not None, "only the active segment is appended to"
        self.index.add_aborted(entry)

    # Lookups

    def collect_aborted(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add transactions that were aborted here and may have records in the range to `found`; whether no later one
        can have any."""
        index = self.index
        if index is not None:
            return index.aborted is not None and index.aborted.collect(start_offset, end_offset, found)
        return self.has_transaction_index and self._open_transaction_index().collect(
            start_offset, end_offset, found
        )

    def _open_transaction_index(self) -> FileTransactionIndex:
        if self._transaction_index is None:
            self._transaction_index = FileTransactionIndex(
                partial(self._open_index, TRANSACTION_INDEX_SUFFIX)
            )
        return self._transaction_index

    def position_of(self, offset: int) -> int:
        """Where the first batch that reaches `offset` starts; the segment's size if none does."""
        start = self.lookup().position_at_offset(offset - self.base_offset)
        return scan.find_offset(self.reader(), offset, position=start, end=self.size)

    def next_offset(self) -> int:
        """The offset after the last record; CorruptFile if the file does not end with a whole batch."""
        index = self.lookup()
        start = index.position_before(self.size)
        next_offset = self.base_offset
        try:
            for position, header in scan.headers(self.reader(), position=start, end=self.size):
                if header.size_bytes < HEADER_BYTES or position + header.size_bytes > self.size:
                    raise CorruptFile(f"{self.path(LOG_SUFFIX)}: no batch begins at byte {position}")
                next_offset = header.next_offset
        except StructError as error:
            raise CorruptFile(f"{self.path(LOG_SUFFIX)} ends inside a batch header") from error
        return next_offset

    def max_timestamp(self) -> tuple[int, int]:
        """The latest timestamp of any record, or -1, and the last offset of its batch."""
        if self._max_timestamp_ms == _NOT_READ:
            latest = self.lookup().last_time()
            self._max_timestamp_ms = latest.timestamp_ms
            self._max_timestamp_offset = self.base_offset + latest.relative_offset
        return self._max_timestamp_ms, self._max_timestamp_offset

    def retention_timestamp(self) -> int:
        """The timestamp for `retention.ms`: of the latest record, or of the file if no record has one."""
        latest, _ = self.max_timestamp()
        return latest if latest >= 0 else self._io.disk.modified_ms(self.path(LOG_SUFFIX))

    def first_batch_timestamp(self) -> int:
        """The largest timestamp of the first batch, for `max.compaction.lag.ms`; may raise ColdPages."""
        if self.first_timestamp_ms == NO_TIMESTAMP:
            self._read_first_timestamp()
        return self.first_timestamp_ms

    def _read_first_timestamp(self) -> None:
        for _, header in scan.headers(self.reader(), position=0, end=self.size):
            self.first_timestamp_ms = header.max_timestamp
            return

    def _latest_time_before(self, end: int, relative_offset: int) -> tuple[int, int]:
        """The latest timestamp of a batch before position `end`, and its last offset: that of the last index entry
        below `relative_offset`, or a later one among the batches after it."""
        index = self.activate()
        latest = index.last_time_before(relative_offset)
        latest_ms, latest_offset = latest.timestamp_ms, self.base_offset + latest.relative_offset
        start = index.position_at_offset(latest.relative_offset)
        for _, header in scan.headers(self.reader(), position=start, end=end):
            if header.max_timestamp > latest_ms:
                latest_ms, latest_offset = header.max_timestamp, header.last_offset
        return latest_ms, latest_offset
