"""Records about the metadata log: metadata transactions (KIP-868) and no-op records (KIP-835)."""

from __future__ import annotations

from penstock.protocol.declare import field, record


@record(key=23, versions=(0, 0), flexible=0)
class BeginTransactionRecord:
    """Starts a metadata transaction: the following records take effect together or not at all."""

    name: str | None = field(default=None, tag=0)


@record(key=24, versions=(0, 0), flexible=0)
class EndTransactionRecord:
    """Commits the metadata transaction."""


@record(key=25, versions=(0, 0), flexible=0)
class AbortTransactionRecord:
    """Aborts the metadata transaction."""

    reason: str | None = field(default=None, tag=0)


@record(key=20, versions=(0, 0), flexible=0)
class NoOpRecord:
    """Changes nothing. Written periodically to show observers that the controller is alive."""
