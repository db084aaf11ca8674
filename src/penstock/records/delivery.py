"""Plain types for the compiled producer classes: delivery results, and the interfaces that they call.

The producers of `penstock.client` implement `Waiting` and `Host`; `_appender.pyx`, `_intake.pyx` and `_rows.pyx` call
them.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import _get_running_loop
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from penstock.records._appender import Receipt
    from penstock.records._intake import PartitionQueue, TopicQueues

logger = logging.getLogger("penstock.producer")


HeaderValue = bytes | bytearray | memoryview | str | None
AnyHeaders = Mapping[str, HeaderValue] | Iterable[tuple[str, HeaderValue]]
"""Headers as applications pass them."""


class Delivery(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int
    """-1 if the broker does not tell: with acks=0, and for a duplicate."""
    timestamp_ms: int
    """The record's own, or the broker's if the topic uses LogAppendTime."""


class Waiting(Protocol):
    """How an application waits for a batch; the sync client blocks, the asyncio client refuses."""

    def wait_for(self, batch: Any, timeout: float | None) -> None:
        """Return when the batch is done, or raise."""
        ...


class Host(Waiting, Protocol):
    """The producer around an `Intake`. The intake calls these methods in the thread that sends."""

    def send_otherwise(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> Receipt:
        """Send a record that `Intake.send` cannot: look the topic up, wait for buffer memory, or raise."""
        ...

    def choose(self, topic: TopicQueues) -> PartitionQueue:
        """The next sticky partition, for records without a key."""
        ...

    def opened(self) -> None:
        """A batch was opened, and is due after `linger.ms`."""
        ...

    def filled(self) -> None:
        """A batch is full and can be sent."""
        ...

    def serialization_failed(self, error: Exception, topic: str, value: object, is_key: bool) -> Exception:
        """The exception to raise when a serializer raised `error`."""
        ...


def run_callback(callback: Callable[[Any], object], receipt: Any) -> None:
    """Call a callback. One that fails must not prevent others from being called, so its exception is logged."""
    try:
        callback(receipt)
    except Exception:
        logger.exception("a callback of a receipt raised an exception")


def resolve(future: asyncio.Future[None], loop: asyncio.AbstractEventLoop) -> None:
    """Complete the future that a task of `loop` waits for. May be called from any thread.

    On the loop itself it is done at once: `call_soon_threadsafe` costs two system calls and a turn of the loop (bench
    "one record, wait for it, penstock.aio").
    """
    if _get_running_loop() is loop:
        _settle(future)
    else:
        loop.call_soon_threadsafe(_settle, future)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def lasting(headers: AnyHeaders) -> AnyHeaders:
    """Headers that can be iterated more than once; a generator is copied."""
    return list(headers) if isinstance(headers, Iterator) else headers


def plain_headers(headers: AnyHeaders) -> list[tuple[str, bytes | None]]:
    """Headers as text and bytes or None; everything else is a TypeError."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    plain = []
    try:
        for name, content in pairs:
            if not isinstance(name, str):
                raise TypeError(f"header names must be str, not {type(name).__name__}")
            if not name.isascii():
                str.encode(name)  # the writer relies on this
            if isinstance(content, str):
                content = str.encode(content)
            elif content is not None and not isinstance(content, bytes):
                if not isinstance(content, bytearray | memoryview):
                    raise TypeError(
                        f"the value of header {name} must be bytes, str or None, not {type(content).__name__}"
                    )
                content = bytes(content)
            plain.append((name, content))
    except UnicodeEncodeError as error:
        raise TypeError(f"a header has text that cannot be encoded: {error}") from error
    except ValueError as error:
        raise TypeError(f"headers must be a mapping, or pairs of name and value: {error}") from error
    return plain
