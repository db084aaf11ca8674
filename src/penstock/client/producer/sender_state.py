"""The state of a sender: its settings, the load of each node, and counters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from penstock.records.batch import Compression


@dataclass(frozen=True, slots=True)
class SendRules:
    """The settings of a sender."""

    acks: int
    request_timeout_ms: int
    request_bytes_max: int
    in_flight_max: int
    retries: int
    compression: Compression
    level: int | None
    availability_timeout_ms: int


class NodeLoad:
    """How busy a node is with our requests."""

    __slots__ = ("connecting", "in_flight", "ready_ms", "taken_ms", "throttled_until_ms")

    def __init__(self) -> None:
        self.in_flight = 0
        self.throttled_until_ms = 0.0
        self.connecting: asyncio.Task[None] | None = None
        self.ready_ms = 0.0
        """When there was last a batch for it."""
        self.taken_ms = 0.0
        """When it last took a batch."""


@dataclass(slots=True)
class SendCounts:
    """Counters by the names of Kafka's metrics."""

    record_send_total: int = 0
    record_retry_total: int = 0
    record_error_total: int = 0
    batch_split_total: int = 0
    request_total: int = 0
    outgoing_byte_total: int = 0
