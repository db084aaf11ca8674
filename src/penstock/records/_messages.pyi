from collections.abc import Iterable

from penstock.records.batch import Buffer, Record, TimestampType
from penstock.records.old_messages import OldMessage

def parse_messages(view: Buffer) -> list[OldMessage]: ...
def write_messages(
    records: Iterable[Record],
    *,
    magic: int,
    base_offset: int = 0,
    codec: int = 0,
    timestamp_type: TimestampType = ...,
) -> bytearray: ...
