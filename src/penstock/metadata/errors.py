"""What can go wrong with metadata: a request that is refused, and a log that can not be believed."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode

MESSAGE_LENGTH_MAX = 1000  # more than anybody reads, and far less than a string of the protocol holds


class Refused(Exception):
    """Not a failure of this node: the answer to a request, or to one item of it, with words that help."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        self.error = error
        self.message = _shorten(message or error.message)
        super().__init__(self.message)


def _shorten(message: str) -> str:
    """Words that quote a client may be as long as what it sent, and then would not fit into an answer."""
    return message if len(message) <= MESSAGE_LENGTH_MAX else message[: MESSAGE_LENGTH_MAX - 3] + "..."


class CorruptMetadata(Exception):
    """The metadata log says something impossible, or something that this version can not read."""
