"""What can be wrong with records, each with the protocol's error that a broker answers; and a missing kernel."""

from __future__ import annotations

from typing import ClassVar


class RecordsError(Exception):
    """Records that a peer or a disk handed over cannot be taken as they are."""

    error_name: ClassVar[str] = "INVALID_RECORD"
    """Name of the protocol's error code, so that a boundary maps it as `ErrorCode[error.error_name]`."""


class CorruptBatch(RecordsError):
    """The bytes are damaged: a checksum does not match, or lengths leave the buffer."""

    error_name = "CORRUPT_MESSAGE"


class InvalidBatch(RecordsError):
    """The bytes arrived as they were sent, but they lie or break a rule: counts, offsets, structure."""

    error_name = "INVALID_RECORD"


class InvalidTimestamp(RecordsError):
    """A record's time is outside the topic's bounds, or a producer claimed the broker's LogAppendTime."""

    error_name = "INVALID_TIMESTAMP"


class UnsupportedMagic(RecordsError):
    """The format can not carry what was asked of it, or is none that we know."""

    error_name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class UnsupportedCompression(RecordsError):
    """A codec that does not exist, or that the peer's version must not be given."""

    error_name = "UNSUPPORTED_COMPRESSION_TYPE"


class TooLarge(RecordsError):
    """Decompressed bytes would pass the limit that the caller set: a bomb, or a limit that is too small."""

    error_name = "MESSAGE_TOO_LARGE"


class KernelMissing(ImportError):
    """The compiled modules of `penstock.records` cannot be loaded, and nothing works without them."""

    def __init__(self, reason: ImportError) -> None:
        super().__init__(
            f"Penstock's compiled kernel cannot be loaded: {reason}."
            " In a checkout run `make install`; otherwise run `pip install --force-reinstall penstock`.",
            name=reason.name,
            path=reason.path,
        )
