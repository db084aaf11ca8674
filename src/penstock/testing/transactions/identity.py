"""One transactional id, and who may act under it: the last that was given a producer id and epoch, and nobody before.

Clients note here when they asked for an id and when they were answered. From that it follows whether somebody may be
told that it is fenced, and whether it must be: whoever got its epoch after another had got one, is the only
one whose requests may be accepted from then on. Of attempts that were not answered nobody knows when they took effect,
save that it was not long after they were given up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.testing.simulation import BrokenPromise

UNDER_WAY_S = 2.0  # nothing is under way for longer than this after it was given up


@dataclass(slots=True, eq=False)
class Attempt:
    """Somebody asks for a producer id and epoch."""

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
        """The highest epoch that was told, by producer id."""

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
                f"{attempt.who} is given producer id {producer_id} and epoch {epoch} as {self.transactional_id},"
                f" but there was {self._epochs[producer_id]} already"
            )
        self.told_epoch(producer_id, epoch)

    def told_epoch(self, producer_id: int, epoch: int) -> None:
        self._epochs[producer_id] = max(epoch, self._epochs.get(producer_id, -1))

    def may_be_fenced(self, held: Attempt) -> bool:
        """Whether another attempt may have come after this one."""
        return any(each is not held and each.done_at >= held.sent_at for each in self._attempts)

    def check_accepted(self, held: Attempt, what: str, *, sent_at: float) -> None:
        """Something was accepted of one that holds an epoch: nobody may have had a later one when it was sent."""
        for each in self._attempts:
            if each.is_granted and each.sent_at > held.done_at and each.done_at < sent_at:
                raise BrokenPromise(
                    f"{what} of {held.who} at {sent_at:.6f} was accepted, though {each.who} has been"
                    f" {self.transactional_id} since {each.done_at:.6f}"
                )
