"""Who sent a request, as groups remember their members."""

from __future__ import annotations

from typing import NamedTuple


class Client(NamedTuple):
    client_id: str
    host: str
    """As DescribeGroups shows it: `/` and the address."""

    def __str__(self) -> str:
        """For the log."""
        return f"{self.host.removeprefix('/')} (client id {self.client_id or 'not set'})"
