from collections.abc import Iterable

from penstock.records.batch import Compression, Headers, NewRecord, Record, RecordRows, TimestampType

def build_batch(
    records: Iterable[NewRecord | Record | tuple[int, bytes | None, bytes | None, Headers] | RecordRows],
    *,
    base_offset: int | None = None,
    compression: Compression = ...,
    level: int | None = None,
    timestamp_type: TimestampType = ...,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = -1,
) -> bytearray: ...
