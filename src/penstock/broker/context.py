"""Who asks, in which version and on which listener: what a handler knows beyond the request itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.net.connection import Connection

ANONYMOUS = "User:ANONYMOUS"
"""Kafka's name for a peer that did not say who it is."""


class CloseConnection(Exception):
    """The only answer left is to end the connection, as Kafka does where the protocol has no room for an
    error."""


class RequestContext:
    """One is made for every request, so it is slotted and its fields are given by position."""

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
        """None only where a request did not come by a connection, as in tests and for the broker's own."""

    def requester(self) -> str:
        """Who sent the request, for the log."""
        return f"{self.principal} at {self.peer_host} (client id {self.client_id or 'not set'})"
