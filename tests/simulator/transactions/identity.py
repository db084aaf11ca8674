"""One transactional id, and the check of fencing: only the last client with a producer id and epoch may use it.

Clients record when they requested an id and when they got it. It follows whether a client may be fenced, and whether
it must be: once a client got its epoch after another one had, only its own requests may be accepted. An attempt
without a response takes effect at an unknown time, but not long after the client gave up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from simulator.simulation import BrokenPromise

UNDER_WAY_S = 2.0  # no request is in flight for longer than this after the client gave up


@dataclass(slots=True, eq=False)
class Attempt:
    """A request for a producer id and epoch."""

    who: str
    sent_at: float
    done_at: float = math.inf
    """It has no effect after this moment."""
    is_granted: bool = False


class Identity:
    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self._attempts: list[Attempt] = []
        self._epochs: dict[int, int] = {}
        """The highest epoch that a client got, by producer id."""

    def asked(self, who: str, *, now: float) -> Attempt:
        attempt = Attempt(who, now)
        self._attempts.append(attempt)
        return attempt

    def given_up(self, attempt: Attempt, *, now: float) -> None:
        attempt.done_at = min(attempt.done_at, now + UNDER_WAY_S)

    def granted(self, attempt: Attempt, producer_id: int, epoch: int, *, now: float) -> None:
        attempt.done_at, attempt.is_granted = now, True
        has_overlap = any(each is not attempt and each.done_at >= attempt.sent_at for each in self._attempts)
        if epoch <= self._epochs.get(producer_id, -1) and not has_overlap:
            raise BrokenPromise(
                f"{attempt.who} got producer id {producer_id} and epoch {epoch} as {self.transactional_id},"
                f" but epoch {self._epochs[producer_id]} was assigned already"
            )
        self.epoch_received(producer_id, epoch)

    def epoch_received(self, producer_id: int, epoch: int) -> None:
        self._epochs[producer_id] = max(epoch, self._epochs.get(producer_id, -1))

    def may_be_fenced(self, held: Attempt) -> bool:
        """Whether another attempt may have come after this one."""
        return any(each is not held and each.done_at >= held.sent_at for each in self._attempts)

    def check_accepted(self, held: Attempt, what: str, *, sent_at: float) -> None:
        """A request of a client with an epoch was accepted: no client may have had a later epoch when it was sent."""
        for each in self._attempts:
            if each.is_granted and each.sent_at > held.done_at and each.done_at < sent_at:
                raise BrokenPromise(
                    f"{what} of {held.who} at {sent_at:.6f} was accepted, though {each.who} owns"
                    f" {self.transactional_id} since {each.done_at:.6f}"
                )
