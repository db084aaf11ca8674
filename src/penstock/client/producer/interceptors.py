"""Interceptors see and may change every record before it is serialized, and see its outcome. An interceptor that fails
is logged and skipped, as in Kafka."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.client.errors import BadConfiguration
from penstock.client.importing import make
from penstock.records.delivery import AnyHeaders, Delivery
from penstock.records.producing import Receipt

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record as it was given to `send`. `dataclasses.replace` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    headers: AnyHeaders | None = field(default=None)
    partition: int | None = None
    timestamp_ms: int | None = None


class Interceptor:
    """Base class of interceptors; any object with some of these methods will do."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """Returns the record to send. Called in the thread that sends."""
        return record

    def on_acknowledgement(self, delivery: Delivery | None, error: Exception | None) -> None:
        """The outcome of a record. Called on the client's own thread, which it must not block."""

    def close(self) -> None: ...


class Interceptors:
    def __init__(self, members: Sequence[Any]) -> None:
        self._members = list(members)

    def __bool__(self) -> bool:
        return bool(self._members)

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        for each in self._members:
            if hasattr(each, "on_send"):
                try:
                    record = each.on_send(record)
                except Exception:
                    logger.exception("an interceptor failed when a record was sent")
        return record

    def on_acknowledgement(self, delivery: Delivery | None, error: Exception | None) -> None:
        for each in self._members:
            if hasattr(each, "on_acknowledgement"):
                try:
                    each.on_acknowledgement(delivery, error)
                except Exception:
                    logger.exception("an interceptor failed when a record was acknowledged")

    def watch(self, receipt: Receipt) -> None:
        """Report the outcome without marking the receipt as used."""
        receipt.watch(self._acknowledged)

    def _acknowledged(self, receipt: Receipt) -> None:
        self.on_acknowledgement(*receipt.outcome())

    def close(self) -> None:
        for each in self._members:
            if hasattr(each, "close"):
                try:
                    each.close()
                except Exception:
                    logger.exception("an interceptor failed when it was closed")


def interceptors_of(specs: Sequence[object]) -> Interceptors:
    """The interceptors of `interceptor.classes`: objects, classes, or import paths."""
    return Interceptors([_made(spec) for spec in specs])


def _made(spec: Any) -> Any:
    made = make(spec, what="interceptor")
    if not hasattr(made, "on_send") and not hasattr(made, "on_acknowledgement"):
        raise BadConfiguration(
            f"{spec!r} is not an interceptor: it has neither on_send nor on_acknowledgement"
        )
    return made
