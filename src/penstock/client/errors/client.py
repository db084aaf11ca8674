"""What a client finds out by itself.

The standard library's exceptions are among the bases where a caller would look for them: a timeout is a `TimeoutError`,
a lost connection a `ConnectionError`, a setting that cannot be taken a `ValueError`, a call at the wrong time a
`RuntimeError`.
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
    """A setting cannot be taken, or two contradict each other."""


class BadArgument(ClientError, ValueError):
    """An argument has the wrong type, or a value that this call cannot take."""


class BadArgumentType(BadArgument, TypeError):
    """An argument has the wrong type."""


class IllegalState(ClientError, RuntimeError):
    """The call has no place at this point."""


class ClientClosed(IllegalState):
    """The client was closed, and takes no more calls."""

    advice = "make a new one"


class ConcurrentUse(IllegalState):
    """Two threads or tasks use a consumer at the same time."""

    advice = "give each of them a consumer of its own, or take turns"


class UsedAfterFork(IllegalState):
    """The client was made in another process, whose threads and sockets did not come along."""

    advice = "make a new one in this process"


class TimedOut(ClientError, TimeoutError):
    """The call took longer than it was given."""

    retriable = True


class DeliveryTimedOut(TimedOut):
    """The record was not acknowledged within `delivery.timeout.ms`. It may have been written."""

    retriable = False


class BufferFull(TimedOut):
    """Unsent records fill `buffer.memory`, and none of it became free within `max.block.ms`."""

    advice = "send slower, raise buffer.memory or max.block.ms, or see why the broker takes records so slowly"


class NoBrokersAvailable(ClientError, ConnectionError):
    """No bootstrap server answers."""

    retriable = True
    advice = "see that a broker runs there (`penstock serve`), and that bootstrap.servers names it"

    def __init__(self, words: str | None = None, *, attempts: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.attempts = dict(attempts or {})
        """Why each address failed."""

    def _own_words(self) -> str:
        if not self.attempts:
            return super()._own_words()
        return "no broker answers: " + "; ".join(
            f"{address}: {why}" for address, why in self.attempts.items()
        )


class Disconnected(ClientError, ConnectionError):
    """The connection to a broker ended before its answer came."""

    retriable = True


class MalformedAnswer(ClientError):
    """A broker's answer cannot be read: what answers there may not be a broker, or the bytes were damaged."""

    advice = "see that the address and security.protocol fit the broker's listener"


class TlsFailed(AuthenticationError, ClientError):
    """A TLS connection could not be established."""


class RecordTooLarge(ClientError, ValueError):
    """A record is larger than `max.request.size` or `buffer.memory`."""


class SerializationFailed(ClientError, ValueError):
    """A key or value could not be made into bytes; the cause is the serializer's own exception."""


class DeserializationFailed(ClientError, ValueError):
    """A key or value could not be read from its bytes; the cause is the deserializer's own exception.

    The position has not moved past the message: `seek` past it, or read it with another deserializer.
    """

    def __init__(
        self,
        words: str | None = None,
        *,
        about: object = None,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        data: bytes | None = None,
    ) -> None:
        super().__init__(words, about=about)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.data = data
        """The bytes that could not be read."""


class CorruptRecords(ClientError):
    """Records came with a wrong checksum or in no known format."""


class NoOffset(ClientError):
    """There is no committed offset to begin at, and `auto.offset.reset` is none."""

    advice = "seek to an offset, or set auto.offset.reset to earliest or latest"


class LogTruncated(ClientError):
    """The log was cut behind the consumer's back: records that it has read are no longer there."""

    advice = "seek to an offset from which to go on"


class CommitFailed(ClientError):
    """The group has moved on without this member, so its offsets were not committed.

    Whoever has the partitions now will read from the last commit again.
    """

    advice = "poll more often than max.poll.interval.ms, or fetch fewer records at a time by max.poll.records"


class TransactionAborted(ClientError):
    """The record belonged to a transaction that was aborted before the record was sent."""


class TwoPhaseCommitUnavailable(ClientError):
    """The broker does not leave the end of transactions to others, so that those left open are aborted in time."""

    advice = (
        "set transaction.two.phase.commit.enable=true on the brokers and grant the right TwoPhaseCommit, or prepare"
        " transactions without it and with a transaction.timeout.ms that is long enough"
    )


class TransactionNotCommitted(ClientError):
    """The prepared transaction was aborted before: none of its records will be seen by readers of committed ones."""

    advice = "write its records again, in a new transaction"


class TransactionNotAborted(ClientError):
    """The prepared transaction was committed before, which cannot be taken back."""


class TransactionOutcomeUnknown(ClientError):
    """Another producer has the transactional id, and whether the prepared transaction was committed cannot be told."""

    advice = "look for its records with isolation.level=read_committed"


class RegistryError(ClientError):
    """The schema registry refused, or could not be reached."""

    def __init__(self, words: str | None = None, *, about: object = None, status: int | None = None) -> None:
        super().__init__(words, about=about)
        self.status = status
        """The HTTP status, where there was an answer."""
