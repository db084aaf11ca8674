"""Records for consumers of before 2017: message sets, made of the log's batches.

This is the only reading that passes records through memory, and the only one that looks into them, so it is bounded
(`OLD_FORMAT_BYTES_MAX`), and all but little of it is done in the slow lane.
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

OLD_FORMAT_BYTES_MAX = 4 << 20  # of one answer, which stays in memory until its reader has taken it
AT_ONCE_BYTES_MAX = 64 << 10  # so much of what is not compressed takes less than a millisecond
NO_RECORDS = b""


class Conversion(NamedTuple):
    """An answer's slice that is to become a message set, from `first_offset` on."""

    data: PartitionData
    piece: FileSlice
    first_offset: int


Converted = bytearray | ErrorCode


def past_markers(piece: FileSlice, read: Callable[[int], FileSlice | None]) -> FileSlice | None:
    """The next piece with something to show, which `read` gives from an offset on; None where there is none yet.

    The ends of transactions have no form in message sets. Of an answer that held nothing else its reader would see
    nothing, and ask for the same again, at once and for good.
    """
    while kernel.read_header(_first_header(piece)).is_control:
        headers = kernel.read_headers(piece.read())
        if not all(header.is_control for header in headers):
            break
        following = read(headers[-1].next_offset)
        if following is None:
            return None
        piece = following
    return piece


def _first_header(piece: FileSlice) -> bytes:
    return FileSlice(piece.file, piece.position, HEADER_BYTES).read()


def is_quick(conversions: Sequence[Conversion]) -> bool:
    """Whether converting these would keep nobody waiting."""
    return sum(len(each.piece) for each in conversions) <= AT_ONCE_BYTES_MAX and not any(
        header.attributes & COMPRESSION_MASK
        for each in conversions
        for header in kernel.read_headers(each.piece.read())
    )


def convert(conversions: Sequence[Conversion], *, magic: int) -> list[Converted]:
    """The message sets, or why there are none, in order. Touches nothing but files, so it may run in a worker."""
    return [_convert(each, magic) for each in conversions]


def fill_in(conversions: Sequence[Conversion], converted: Sequence[Converted]) -> None:
    for each, result in zip(conversions, converted, strict=True):
        if isinstance(result, ErrorCode):
            each.data.error_code, each.data.records = result, NO_RECORDS
        else:
            each.data.records = result


def _convert(conversion: Conversion, magic: int) -> Converted:
    try:
        return down_convert(conversion.piece.read(), magic=magic, first_offset=conversion.first_offset)
    except RecordsError as error:
        return ErrorCode[error.error_name]
    except OSError:
        return ErrorCode.KAFKA_STORAGE_ERROR
