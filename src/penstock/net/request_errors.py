"""The errors of requests over a `RequestConnection`, and the table with which a subclass raises its own instead."""

from __future__ import annotations

from typing import NamedTuple


class RequestFailed(Exception):
    """The request has no response."""


class Disconnected(RequestFailed):
    """The connection could not be opened, or was closed before the response arrived."""


class ConnectionRefused(Disconnected):
    """No process listens at the address of the node: it is down."""


class MalformedResponse(Disconnected):
    """A response could not be decoded, so the connection was closed."""


class RequestTimedOut(RequestFailed):
    """No response within the timeout."""


class UnsupportedVersion(RequestFailed):
    """The other node serves no version of the API that has what the request needs."""


class UnencodableRequest(RequestFailed, ValueError):
    """A field of the request has an invalid value."""


class RequestErrors(NamedTuple):
    """The exceptions of a connection. Each takes one argument, the message."""

    disconnected: type[Exception]
    malformed: type[Exception]
    timed_out: type[Exception]
    unsupported_version: type[Exception]
    unencodable: type[Exception]


NET_ERRORS = RequestErrors(
    Disconnected, MalformedResponse, RequestTimedOut, UnsupportedVersion, UnencodableRequest
)
