"""Single messages of formats v0 and v1, for the kernel.

`kernel.parse_messages` returns `OldMessage`s. `consuming.FetchedRecords` calls the two functions when a fetch response
has an old message. They need `message_set`, which itself needs the kernel, so it is imported when the first old
message arrives.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.records.batch import Buffer, Record, TimestampType
from penstock.records.errors import InvalidBatch


class OldMessage(NamedTuple):
    """One message. The value of a compressed message is another message set."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read_old_message(view: Buffer, limit_bytes: int) -> tuple[list[Record], TimestampType]:
    """The records of one message, which may be a wrapper of many."""
    from penstock.records.message_set import read_message_set

    messages = read_message_set(view, limit_bytes=limit_bytes)
    return messages.records, messages.timestamp_type


def old_message_as_batch(view: Buffer, limit_bytes: int) -> bytearray:
    """The same records as a batch of format v2."""
    from penstock.records import kernel

    records, timestamp_type = read_old_message(view, limit_bytes)
    try:
        return kernel.build_batch(records, timestamp_type=timestamp_type)
    except ValueError as exc:
        raise InvalidBatch(f"a message set does not fit a batch: {exc}") from exc
