"""Errors of the log.

`error_name` is the error code of Kafka's protocol, so a caller maps it as `ErrorCode[error.error_name]`.
`DirectoryOffline` is different: the disk failed, the request was valid, and trying again does not help.
"""

from __future__ import annotations

from typing import ClassVar


class StorageError(Exception):
    """The log cannot do what was requested."""

    error_name: ClassVar[str] = "KAFKA_STORAGE_ERROR"


class DirectoryOffline(StorageError):
    """The log directory failed and serves nothing until the node is restarted."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"log directory {directory} is offline: {reason}")
        self.directory = directory
        self.reason = reason


class NoDirectory(StorageError):
    """No directory of `log.dirs` can be used."""


class UnknownDirectory(StorageError):
    """The path is not one of `log.dirs`."""

    error_name = "LOG_DIR_NOT_FOUND"


class DirectoryRefused(StorageError):
    """A directory cannot be used: another process has locked it, or it belongs to another node or cluster."""


class PartitionExists(StorageError):
    """The partition already has a log, here or in another directory."""


class LogClosed(StorageError):
    """The log was deleted, or the node stops; callers must look the partition up again."""

    error_name = "NOT_LEADER_OR_FOLLOWER"


class LogBusy(StorageError):
    """The log is being truncated, and serves again when that is durable."""

    error_name = "NOT_LEADER_OR_FOLLOWER"


class OffsetOutOfRange(StorageError):
    """The offset is not between the log start offset and the log end offset."""

    error_name = "OFFSET_OUT_OF_RANGE"

    def __init__(self, partition: str, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(
            f"offset {offset} of {partition} is out of range: the log has offsets {start_offset} to {end_offset}"
        )
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class BatchTooLarge(StorageError):
    """One append does not fit into a segment (`segment.bytes`)."""

    error_name = "RECORD_LIST_TOO_LARGE"


class UnexpectedOffset(StorageError):
    """A follower got batches that do not continue its log, or whose offsets go backwards."""

    error_name = "UNKNOWN_SERVER_ERROR"


class StartsInsideBatch(UnexpectedOffset):
    """The first batch that a follower got begins before its log, and ends after it: the leader's log starts inside this
    batch."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(message)
        self.base_offset = base_offset


class OutOfOrderSequence(StorageError):
    """An idempotent producer skipped a batch, or repeated one that is too old to be recognized."""

    error_name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidProducerEpoch(StorageError):
    """A newer producer epoch fenced this one (KIP-98); since KIP-588 the producer may abort and continue."""

    error_name = "INVALID_PRODUCER_EPOCH"


class InvalidTransactionState(StorageError):
    """A producer wrote outside its open transaction."""

    error_name = "INVALID_TXN_STATE"


class CoordinatorFenced(StorageError):
    """A transaction marker comes from a coordinator that was replaced."""

    error_name = "TRANSACTION_COORDINATOR_FENCED"


class CorruptFile(StorageError):
    """A checkpoint, snapshot or metadata file is damaged."""
