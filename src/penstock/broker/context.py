"""The context of a request: client, version, listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.net.connection import Connection

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's principal of a client that is not authenticated."""

THIS_NODE = "this node"
"""The principal of requests that this node sends to itself."""


class CloseConnection(Exception):
    """Close the connection, as Kafka does if the response has no field for an error."""


class RequestContext:
    """Created for every request, so it has slots and positional arguments."""

    __slots__ = (
        "api_key",
        "client_id",
        "connection",
        "correlation_id",
        "listener",
        "peer_host",
        "principal",
        "version",
    )

    def __init__(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        peer_host: str,
        listener: str,
        principal: str,
        connection: Connection | None,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.peer_host = peer_host
        self.listener = listener
        self.principal = principal
        self.connection = connection
        """None for requests without a connection: in tests, and those of this node itself."""

    def requester(self) -> str:
        """The client that sent the request, for log lines."""
        if not self.peer_host:
            return self.principal
        return f"{self.principal} at {self.peer_host} (client id {self.client_id or 'not set'})"
