"""Errors of records, each with the error code that a broker answers; and a missing kernel."""

from __future__ import annotations

from typing import ClassVar


class RecordsError(Exception):
    """Records from a client or a disk are not acceptable."""

    error_name: ClassVar[str] = "INVALID_RECORD"
    """Name of the error code, so that a caller maps it as `ErrorCode[error.error_name]`."""


class CorruptBatch(RecordsError):
    """The bytes are damaged: a checksum does not match, or a length exceeds the buffer."""

    error_name = "CORRUPT_MESSAGE"


class InvalidBatch(RecordsError):
    """The bytes are undamaged but break a rule: counts, offsets, structure."""

    error_name = "INVALID_RECORD"


class InvalidTimestamp(RecordsError):
    """A timestamp is outside the topic's bounds, or a producer used LogAppendTime."""

    error_name = "INVALID_TIMESTAMP"


class UnsupportedMagic(RecordsError):
    """The format cannot represent the records, or is unknown."""

    error_name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class UnsupportedCompression(RecordsError):
    """The codec does not exist, or the client's version does not support it."""

    error_name = "UNSUPPORTED_COMPRESSION_TYPE"


class TooLarge(RecordsError):
    """Decompressed data would exceed the caller's limit: a decompression bomb, or a limit that is too small."""

    error_name = "MESSAGE_TOO_LARGE"


class KernelMissing(ImportError):
    """The compiled modules of `penstock.records` cannot be loaded, and nothing works without them."""

    def __init__(self, reason: ImportError) -> None:
        super().__init__(
            f"Penstock's compiled kernel cannot be loaded: {reason}."
            " In a checkout run `make install`; otherwise run `pip install --force-reinstall` with a wheel that fits"
            " this Python.",
            name=reason.name,
            path=reason.path,
        )
