"""Down-conversion of batches to message sets, for consumers from before 2017.

Only this kind of fetch reads records into memory and decodes them, so its size is limited (`OLD_FORMAT_BYTES_MAX`), and
all but small conversions run in the slow lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import PartitionData
from penstock.records import kernel
from penstock.records.batch import COMPRESSION_MASK, HEADER_BYTES
from penstock.records.convert import down_convert
from penstock.records.errors import RecordsError
from penstock.runtime.network import FileSlice
from penstock.storage import pages
from penstock.storage.pages import ColdPages

OLD_FORMAT_BYTES_MAX = 4 << 20  # per response, which stays in memory until the client has read it
AT_ONCE_BYTES_MAX = 64 << 10  # uncompressed, this takes less than a millisecond
NO_RECORDS = b""


class Conversion(NamedTuple):
    """A slice of the response to convert to a message set, from `first_offset` on."""

    data: PartitionData
    piece: FileSlice
    first_offset: int


Converted = bytearray | ErrorCode | OSError


def past_markers(piece: FileSlice, read: Callable[[int], FileSlice | None]) -> FileSlice | None:
    """Skip pieces with only control batches. `read` returns the piece at an offset. None if there is no data yet;
    raises ColdPages if a piece is not in memory.

    Message sets cannot contain transaction markers. A response with only markers would be empty, and the consumer would
    fetch the same offset forever.
    """
    while kernel.read_header(_first_header(piece)).is_control:
        headers = kernel.read_headers(pages.read_cached(piece))
        if not all(header.is_control for header in headers):
            break
        following = read(headers[-1].next_offset)
        if following is None:
            return None
        piece = following
    return piece


def _first_header(piece: FileSlice) -> bytes | bytearray:
    return pages.read_cached(FileSlice(piece.file, piece.position, HEADER_BYTES, piece.owner))


def is_quick(conversions: Sequence[Conversion]) -> bool:
    """Whether the conversion is so small that it can run on the event loop."""
    if sum(len(each.piece) for each in conversions) > AT_ONCE_BYTES_MAX:
        return False
    try:
        return not any(
            header.attributes & COMPRESSION_MASK
            for each in conversions
            for header in kernel.read_headers(pages.read_cached(each.piece))
        )
    except (ColdPages, OSError):
        return False  # a worker waits for the disk, or gets its error


def convert(conversions: Sequence[Conversion], *, magic: int) -> list[Converted]:
    """The message sets or errors, in order. It only reads files, so it can run in a worker."""
    return [_convert(each, magic) for each in conversions]


def fill_in(conversions: Sequence[Conversion], converted: Sequence[Converted]) -> None:
    for each, result in zip(conversions, converted, strict=True):
        if isinstance(result, OSError):
            each.piece.failed(result)
            # Consumers of these formats do not know KAFKA_STORAGE_ERROR and would not retry.
            each.data.error_code, each.data.records = ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_RECORDS
        elif isinstance(result, ErrorCode):
            each.data.error_code, each.data.records = result, NO_RECORDS
        else:
            each.data.records = result


def _convert(conversion: Conversion, magic: int) -> Converted:
    try:
        return down_convert(conversion.piece.read(), magic=magic, first_offset=conversion.first_offset)
    except RecordsError as error:
        return ErrorCode[error.error_name]
    except OSError as error:
        return error
