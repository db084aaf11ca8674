"""The client that sent a request."""

from __future__ import annotations

from typing import NamedTuple


class Client(NamedTuple):
    client_id: str
    host: str
    """In the format of DescribeGroups: `/` and the address."""

    def __str__(self) -> str:
        """For the log."""
        return f"{self.host.removeprefix('/')} (client id {self.client_id or 'not set'})"
