"""One connection of a client to one broker: `net.request_connection` with the errors of the client.

It never retries and never reconnects; `transport` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client.errors import (
    BadArgument,
    Disconnected,
    MalformedAnswer,
    PenstockError,
    TimedOut,
    UnsupportedVersion,
)
from penstock.net.request_connection import ReadAnswer, RequestConnection
from penstock.net.request_errors import RequestErrors

__all__ = ["ClientConnection", "Disconnected", "OnAnswer", "ReadAnswer"]

OnAnswer = Callable[[Any, PenstockError | None], None]
"""Called once, with the response or with the error."""


class ClientConnection(RequestConnection):
    """Make one with `await ClientConnection.open(...)`, then `await connection.ask(SomeRequest(...))`."""

    errors = RequestErrors(Disconnected, MalformedAnswer, TimedOut, UnsupportedVersion, BadArgument)
    failure: PenstockError | None
