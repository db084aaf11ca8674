"""A refused request, and a corrupt metadata log."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode

MESSAGE_LENGTH_MAX = 1000  # far less than the maximum of a protocol string


class Refused(Exception):
    """A request, or one item of it, is refused: the error code and message of the response. Not a failure of this
    node."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        self.error = error
        self.message = _shorten(message or error.message)
        super().__init__(self.message)


def _shorten(message: str) -> str:
    """A message that quotes the request may be too long for a response."""
    return message if len(message) <= MESSAGE_LENGTH_MAX else message[: MESSAGE_LENGTH_MAX - 3] + "..."


def unknown_topic(name: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


class CorruptMetadata(Exception):
    """The metadata log is inconsistent, or contains records that this version cannot read."""
