"""What can go wrong with metadata: a request that is refused, and a log that can not be believed."""

from __future__ import annotations

from penstock.protocol.errors import ErrorCode


class Refused(Exception):
    """Not a failure of this node: the answer to a request, or to one item of it, with words that help."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.message)
        self.error = error
        self.message = message or error.message


class CorruptMetadata(Exception):
    """The metadata log says something impossible, or something that this version can not read."""
