"""What can go wrong in the log, in the words that a caller answers with.

A refusal names the error of Kafka's protocol in `error_name`, so that a boundary maps it as
`ErrorCode[error.error_name]`. `DirectoryOffline` is different: the disk failed, nobody asked for anything
wrong, and it will not get better by trying again.
"""

from __future__ import annotations

from typing import ClassVar


class StorageError(Exception):
    """The log can not do what was asked."""

    error_name: ClassVar[str] = "KAFKA_STORAGE_ERROR"


class DirectoryOffline(StorageError):
    """The log directory failed and serves nothing until the node is started anew."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(f"log directory {directory} is offline: {reason}")
        self.directory = directory
        self.reason = reason


class NoDirectory(StorageError):
    """No directory of `log.dirs` is left to serve from."""


class UnknownDirectory(StorageError):
    """The path is not one of `log.dirs`."""

    error_name = "LOG_DIR_NOT_FOUND"


class DirectoryRefused(StorageError):
    """A directory can not be taken into service: locked by another process, or of another node or cluster."""


class PartitionExists(StorageError):
    """The partition has a log already, here or in another directory."""


class LogClosed(StorageError):
    """The log was deleted, or the node stops; whoever still holds it must look the partition up again."""

    error_name = "NOT_LEADER_OR_FOLLOWER"


class LogBusy(StorageError):
    """The log is being truncated, and serves again when that is safe on disk."""

    error_name = "NOT_LEADER_OR_FOLLOWER"


class OffsetOutOfRange(StorageError):
    """The offset is not between the log's start and its end."""

    error_name = "OFFSET_OUT_OF_RANGE"

    def __init__(self, partition: str, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(
            f"offset {offset} of {partition} is out of range: the log has offsets {start_offset} to {end_offset}"
        )
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class BatchTooLarge(StorageError):
    """What is appended at once does not fit into a segment (`segment.bytes`)."""

    error_name = "RECORD_LIST_TOO_LARGE"


class UnexpectedOffset(StorageError):
    """A follower was given batches that do not continue its log, or that go backwards."""

    error_name = "UNKNOWN_SERVER_ERROR"


class OutOfOrderSequence(StorageError):
    """An idempotent producer skipped a batch, or repeats one that is too old to be recognised."""

    error_name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidProducerEpoch(StorageError):
    """A producer with a newer epoch took over (KIP-98); since KIP-588 the old one may abort and go on."""

    error_name = "INVALID_PRODUCER_EPOCH"


class InvalidTransactionState(StorageError):
    """A producer wrote outside its open transaction."""

    error_name = "INVALID_TXN_STATE"


class CoordinatorFenced(StorageError):
    """A transaction marker comes from a coordinator that has been replaced."""

    error_name = "TRANSACTION_COORDINATOR_FENCED"


class CorruptFile(StorageError):
    """A checkpoint, snapshot or metadata file does not read as what its name says."""
