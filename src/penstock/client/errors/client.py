"""Errors raised by the client itself.

Each also has the base class of the standard library that a caller would expect: a timeout is a `TimeoutError`, a lost
connection a `ConnectionError`, an invalid setting a `ValueError`, a call at the wrong time a `RuntimeError`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.errors.base import AuthenticationError, ClientError

__all__ = [
    "BadArgument",
    "BadArgumentType",
    "BadConfiguration",
    "BufferFull",
    "ClientClosed",
    "CommitFailed",
    "ConcurrentUse",
    "CorruptRecords",
    "DeliveryTimedOut",
    "DeserializationFailed",
    "Disconnected",
    "IllegalState",
    "LogTruncated",
    "MalformedAnswer",
    "NoBrokersAvailable",
    "NoOffset",
    "RecordTooLarge",
    "RegistryError",
    "SerializationFailed",
    "TimedOut",
    "TlsFailed",
    "TransactionAborted",
    "TransactionNotAborted",
    "TransactionNotCommitted",
    "TransactionOutcomeUnknown",
    "TwoPhaseCommitUnavailable",
    "UsedAfterFork",
]


class BadConfiguration(ClientError, ValueError):
    """A setting is invalid, or two settings contradict each other."""


class BadArgument(ClientError, ValueError):
    """An argument has the wrong type or an invalid value."""


class BadArgumentType(BadArgument, TypeError):
    """An argument has the wrong type."""


class IllegalState(ClientError, RuntimeError):
    """This call is not allowed in the client's present state."""


class ClientClosed(IllegalState):
    """The client is closed."""

    advice = "create a new client"


class ConcurrentUse(IllegalState):
    """Two threads or tasks use a consumer at the same time."""

    advice = "use one consumer per thread or task, or a lock"


class UsedAfterFork(IllegalState):
    """The client was created before a fork; its threads and connections stayed in the parent process."""

    advice = "create a new client in this process"


class TimedOut(ClientError, TimeoutError):
    """The call did not finish within its timeout."""

    retriable = True


class DeliveryTimedOut(TimedOut):
    """The record was not acknowledged within `delivery.timeout.ms`. It may have been written."""

    retriable = False


class BufferFull(TimedOut):
    """Unsent records fill `buffer.memory`, and no memory became free within `max.block.ms`."""

    advice = "send more slowly, raise buffer.memory or max.block.ms, or check why the broker is slow"


class NoBrokersAvailable(ClientError, ConnectionError):
    """No bootstrap server can be reached."""

    retriable = True
    advice = "check that a broker is running there (`penstock serve`) and that bootstrap.servers is right"

    def __init__(self, message: str | None = None, *, attempts: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.attempts = dict(attempts or {})
        """Why each address failed."""

    def _default_message(self) -> str:
        if not self.attempts:
            return super()._default_message()
        return "no broker answers: " + "; ".join(
            f"{address}: {why}" for address, why in self.attempts.items()
        )


class Disconnected(ClientError, ConnectionError):
    """The connection was closed before the broker's response arrived."""

    retriable = True


class MalformedAnswer(ClientError):
    """A response could not be decoded: the peer may not be a broker, or the bytes are corrupt."""

    advice = "check that the address and security.protocol match the broker's listener"


class TlsFailed(AuthenticationError, ClientError):
    """A TLS connection could not be established."""


class RecordTooLarge(ClientError, ValueError):
    """A record is larger than `max.request.size` or `buffer.memory`."""


class SerializationFailed(ClientError, ValueError):
    """A key or value could not be serialized. `__cause__` is the serializer's exception."""


class DeserializationFailed(ClientError, ValueError):
    """A key or value could not be deserialized. `__cause__` is the deserializer's exception.

    The position stays at the message: `seek` past it, or read it with another deserializer.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        about: object = None,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        data: bytes | None = None,
    ) -> None:
        super().__init__(message, about=about)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.data = data
        """The bytes that could not be deserialized."""


class CorruptRecords(ClientError):
    """Records have a wrong checksum or an unknown format."""


class NoOffset(ClientError):
    """The group has no committed offset, and `auto.offset.reset` is none."""

    advice = "seek to an offset, or set auto.offset.reset to earliest or latest"


class LogTruncated(ClientError):
    """The log was truncated: records that this consumer has read no longer exist."""

    advice = "seek to the offset to continue from"


class CommitFailed(ClientError):
    """The group has rebalanced without this member, so its offsets were not committed.

    The new owners of the partitions read from the last committed offsets.
    """

    advice = "poll more often than max.poll.interval.ms, or lower max.poll.records"


class TransactionAborted(ClientError):
    """The transaction was aborted before this record was sent."""


class TwoPhaseCommitUnavailable(ClientError):
    """The broker does not support or allow two-phase commit, so it aborts open transactions after their timeout."""

    advice = (
        "set transaction.two.phase.commit.enable=true on the brokers and allow the operation TwoPhaseCommit, or prepare"
        " transactions without it and set a transaction.timeout.ms that is long enough"
    )


class TransactionNotCommitted(ClientError):
    """The prepared transaction was already aborted: read_committed consumers will not see its records."""

    advice = "send its records again in a new transaction"


class TransactionNotAborted(ClientError):
    """The prepared transaction was already committed and cannot be aborted."""


class TransactionOutcomeUnknown(ClientError):
    """Another producer has taken over the transactional id, and the outcome of the prepared transaction is unknown."""

    advice = "look for its records with isolation.level=read_committed"


class RegistryError(ClientError):
    """The schema registry returned an error or could not be reached."""

    def __init__(
        self, message: str | None = None, *, about: object = None, status: int | None = None
    ) -> None:
        super().__init__(message, about=about)
        self.status = status
        """The HTTP status; None if there was no response."""
