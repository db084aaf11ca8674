from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.records.batch import BatchHeader, Buffer

SLOT_BYTES: int

class OffsetMap:
    latest_offset: int
    capacity: int

    def __init__(self, memory_bytes: int, *, hash_key: bytes, load_factor: float = 0.9) -> None: ...
    def __len__(self) -> int: ...
    def get(self, key: Buffer) -> int: ...

class Decision(NamedTuple):
    discards_records: bool
    keeps_empty: bool
    marks_empty_transaction: bool

class Progress(NamedTuple):
    position: int
    is_full: bool

def add_batches(
    offsets: OffsetMap,
    data: Buffer,
    *,
    position: int,
    start_offset: int,
    decide: Callable[[BatchHeader, memoryview], Decision],
) -> Progress: ...

class BatchFilter:
    output_bytes: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    bytes_read: int
    records_read: int
    records_retained: int

    def __init__(
        self,
        offsets: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        kept_offsets: Iterable[int],
        index_interval_bytes: int,
    ) -> None: ...
    @property
    def index_entries(self) -> list[tuple[int, int, int, int]]: ...
    def take_output(self) -> bytes: ...
    def filter(
        self, data: Buffer, *, position: int, decide: Callable[[BatchHeader, memoryview], Decision]
    ) -> int: ...

def checksums(data: Buffer) -> tuple[int, int]: ...
def hash_of(data: Buffer, hash_key: bytes) -> bytes: ...
