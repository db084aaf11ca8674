"""What a coordinator decides: records that change its state, and an answer.

A decision itself changes nothing that is replicated. The runtime appends its records, replays them, and
gives the answer away when they are committed; see `runtime`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from penstock.protocol.errors import ErrorCode

R = TypeVar("R")

NEWEST = -1


class CoordinatorRecord(NamedTuple):
    """One line of a coordinator's log: declared records (`protocol.declare.record`), as Kafka writes them.

    Or several that are decided and replayed together, where there are many of a kind (`framing.BlockWriter`): then its
    key stands for theirs.
    """

    key: Any
    value: Any | None
    """None: the key is no more."""
    version: int = NEWEST
    """Of the value; older ones are for logs that older software shall be able to read."""


Guard = object
"""Of the log, which alone looks into it: shows that nothing ended a transaction while its coordinator was asked."""


class ProducerIdentity(NamedTuple):
    """Whose transaction records belong to."""

    producer_id: int
    producer_epoch: int
    guard: Guard | None = None
    """Needed for the first records of a transaction in a partition."""


class Answer(Generic[R]):
    """A response that comes later, as to a member that waits for the others; given once, to one who listens.

    It belongs to a decision, so it knows nothing of event loops.
    """

    __slots__ = ("_listener", "_response")

    def __init__(self) -> None:
        self._listener: Callable[[R], None] | None = None
        self._response: list[R] = []

    @property
    def is_given(self) -> bool:
        return bool(self._response)

    def give(self, response: R) -> None:
        assert not self._response, "an answer is given once"
        self._response.append(response)
        if self._listener is not None:
            self._listener(response)

    def then(self, listener: Callable[[R], None]) -> None:
        """Call `listener` with the response: now, if it is there."""
        assert self._listener is None, "an answer has one listener"
        self._listener = listener
        if self._response:
            listener(self._response[0])


@dataclass(slots=True)
class Outcome(Generic[R]):
    response: R | Answer[R]
    records: Sequence[CoordinatorRecord] = ()
    when_committed: Callable[[ErrorCode], None] | None = None
    """Told once: NONE when the records are committed, or why they were not taken or will not be committed here. What a
    decision keeps in memory alone (who waits for a rebalance) is brought in line there."""
    producer: ProducerIdentity | None = None
    """Records of its transaction: written as one batch, and replayed as such; see `shard.TransactionalShard`."""

    def and_log(self, logger: logging.Logger, *lines: str) -> Outcome[R]:
        """The same, with lines in the log once the records are committed; none if they are refused."""
        earlier = self.when_committed

        def committed(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for line in lines:
                    logger.info("%s", line)
            if earlier is not None:
                earlier(error)

        return replace(self, when_committed=committed)


DONE: Outcome[None] = Outcome(None)
"""Nothing to write, nobody to answer: what most timers find."""
