"""The result of a coordinator's decision: records that change its state, and a response.

A decision itself does not change replicated state. The runtime appends its records, replays them, and sends the
response when they are committed; see `runtime`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.protocol.errors import ErrorCode

R = TypeVar("R")
S = TypeVar("S")

NEWEST = -1


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator's log: key and value are declared with `protocol.declare.record`.

    It may stand for many records of one kind that are decided and replayed together (`serde.BlockWriter`).
    """

    key: Any
    value: Any | None
    """None: a tombstone."""
    version: int = NEWEST
    """Of the value. Older versions are for logs that older software must be able to read."""


Guard = object
"""The log's verification guard, opaque here: it shows that the transaction did not end while it was verified."""


class ProducerIdentity(NamedTuple):
    """The producer whose transaction the records belong to."""

    producer_id: int
    producer_epoch: int
    guard: Guard | None = None
    """Required for the first records of a transaction in a partition."""


class DeferredResponse(Generic[R]):
    """A response that is completed later, for example to a member that waits for other members to join.

    Decisions use it, so it does not depend on an event loop.
    """

    __slots__ = ("_listener", "_response")

    def __init__(self) -> None:
        self._listener: Callable[[R], None] | None = None
        self._response: list[R] = []

    @property
    def is_complete(self) -> bool:
        return bool(self._response)

    def complete(self, response: R) -> None:
        assert not self._response, "a response is completed once"
        self._response.append(response)
        if self._listener is not None:
            self._listener(response)

    def on_complete(self, listener: Callable[[R], None]) -> None:
        """Call `listener` with the response: now, if it is complete."""
        assert self._listener is None, "a response has one listener"
        self._listener = listener
        if self._response:
            listener(self._response[0])


@dataclass(slots=True)
class CoordinatorResult(Generic[R]):
    """The records to write, and the response to send once they are committed."""

    response: R | DeferredResponse[R]
    records: Sequence[CoordinatorRecord] = ()
    when_committed: Callable[[ErrorCode], None] | None = None
    """Called once: with NONE when the records are committed, or with the error if they were refused or this node lost
    the partition. It updates state that is not replicated, such as members that wait for a rebalance."""
    producer: ProducerIdentity | None = None
    """The records belong to its transaction: they are written as one batch; see `shard.TransactionalShard`."""

    def with_response(self, response: S) -> CoordinatorResult[S]:
        return CoordinatorResult(response, self.records, self.when_committed, self.producer)

    def and_log(self, logger: logging.Logger, *lines: str) -> CoordinatorResult[R]:
        """Log these lines once the records are committed."""
        earlier = self.when_committed

        def committed(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for line in lines:
                    logger.info("%s", line)
            if earlier is not None:
                earlier(error)

        return replace(self, when_committed=committed)


DONE: CoordinatorResult[None] = CoordinatorResult(None)
"""No records, no response: the result of most timers."""
