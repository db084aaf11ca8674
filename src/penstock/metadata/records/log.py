"""Records about the metadata log itself: changes that take effect together, and proof of life (KIP-868, KIP-835)."""

from __future__ import annotations

from penstock.protocol.declare import field, record


@record(key=23, versions=(0, 0), flexible=0)
class BeginTransactionRecord:
    """What follows, up to an end, takes effect at once or not at all."""

    name: str | None = field(default=None, tag=0)


@record(key=24, versions=(0, 0), flexible=0)
class EndTransactionRecord:
    """All since the begin takes effect."""


@record(key=25, versions=(0, 0), flexible=0)
class AbortTransactionRecord:
    """Nothing since the begin takes effect."""

    reason: str | None = field(default=None, tag=0)


@record(key=20, versions=(0, 0), flexible=0)
class NoOpRecord:
    """Nothing; written now and then, so that offsets move and observers see that the controller is alive."""
