"""Which member of a group owns which partitions, and the check that no partition has two owners.

A `Membership` holds what a member was assigned, and until when the coordinator must keep it. The coordinator may
remove a member that was silent for its session timeout, or did not follow a rebalance for its rebalance timeout. Both
count from an accepted request of the member, so `protected_until` is never later than the moment at which the
coordinator may remove it. A member that freezes for long is a zombie: it still believes that it owns its partitions.
Once another member was assigned them, nothing that the zombie sends may be accepted, except the join of a static
member, which stays in the group until its session expires (KIP-345).

Generations and epochs only rise. If the coordinator's log is not flushed, a power cut may take its end and everything
that was acknowledged since; then the checks start over (`power_lost`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.protocol.types import Uuid
from simulator.simulation import BrokenPromise

Partition = tuple[Uuid, int]
"""Topic id and index."""

Known = tuple[int, int]
"""How often generations restarted from 0, and the highest generation since."""

NO_GENERATION = -1  # below all others
UNDER_WAY_S = 1.0  # no request is in flight for longer than this after its connection was lost


@dataclass(slots=True, eq=False)
class Membership:
    name: str
    session_s: float
    rebalance_s: float
    instance_id: str | None = None
    generation: int = NO_GENERATION
    """The last generation or epoch that the member got. None (-1) if generations restarted since its request, so that
    it is unknown which count is meant."""
    held: dict[Partition, int] = field(default_factory=dict)
    """The partitions that it owns, and the generation in which it got each."""
    is_recorded: bool = False
    """The coordinator gave a response that it gives only after writing the member to its log."""
    is_over: bool = False
    """It left, was replaced or removed, or may have been lost in a power cut."""
    is_forgotten: bool = False
    """It may have been lost in a power cut; it continues if the coordinator still knows it."""
    is_certain: bool = True
    """The coordinator has shown that it knows the member in its generation, since a power cut or a challenge."""
    challengers: int = 0
    """How many other members have asked to join with its instance id, and may be in flight."""
    challenged_until: float = -math.inf
    """Responses before this time may have come before the member was replaced."""
    superseded_at: float = math.inf
    """Since then another member owns what this one believes to own."""
    _session_until: float = -math.inf
    _rebalance_until: float = -math.inf

    def accepted(self, sent_at: float, *, is_settled: bool) -> None:
        """The coordinator accepted a request sent at `sent_at`. `is_settled`: there was no rebalance to follow."""
        self._session_until = max(self._session_until, sent_at + self.session_s)
        if is_settled:
            self._rebalance_until = max(self._rebalance_until, sent_at + self.rebalance_s)

    @property
    def protected_until(self) -> float:
        if self.is_over or not self.is_recorded or not self.is_certain:
            return -math.inf
        return min(self._session_until, self._rebalance_until)


class Ownership:
    """All memberships of one group that may still own partitions."""

    def __init__(self, group_id: str, *, may_restart_generations: bool = False) -> None:
        self.group_id = group_id
        self.may_restart_generations = may_restart_generations
        """The group has members of both protocols. When empty it takes the type of its next member and restarts
        generations from 0."""
        self.memberships: list[Membership] = []
        self.generation = NO_GENERATION
        """The highest that a member got, in a response that is in the coordinator's log."""
        self._restarts = 0

    @property
    def known(self) -> Known:
        """Read this before sending a request."""
        return self._restarts, self.generation

    def begin(
        self, name: str, *, session_s: float, rebalance_s: float, instance_id: str | None = None
    ) -> Membership:
        membership = Membership(name, session_s, rebalance_s, instance_id)
        self.memberships.append(membership)
        return membership

    def end(self, membership: Membership) -> None:
        """The member releases everything, and no longer uses its old id."""
        membership.is_over = True
        membership.held.clear()
        if membership in self.memberships:
            self.memberships.remove(membership)

    def replace(self, instance_id: str) -> None:
        """Another process takes this instance id, so its former owner is not protected any more."""
        for membership in self.memberships:
            if membership.instance_id == instance_id:
                membership.is_over = True

    @contextmanager
    def challenge(self, instance_id: str, *, by: Membership, now: Callable[[], float]) -> Iterator[None]:
        """While a join with this instance id is in flight, its current owner may be replaced at any time.

        The challenger may also be an abandoned member that was delayed, and challenge its own successor. If its join
        is rejected or lost, the other member continues.
        """
        challenged = [each for each in self.memberships if each.instance_id == instance_id and each is not by]
        for membership in challenged:
            membership.challengers += 1
            membership.is_certain = False
        try:
            yield
        finally:
            for membership in challenged:
                membership.challengers -= 1
                membership.challenged_until = now() + UNDER_WAY_S

    def power_lost(self) -> None:
        """The coordinator may have forgotten everything."""
        for membership in self.memberships:
            membership.is_over = membership.is_forgotten = True
        self.memberships.clear()
        self._reset_generation()

    def revive(self, membership: Membership) -> Membership:
        """The member continues; the next response shows whether it still is one."""
        revived = self.begin(
            membership.name,
            session_s=membership.session_s,
            rebalance_s=membership.rebalance_s,
            instance_id=membership.instance_id,
        )
        revived.generation, revived.held = membership.generation, dict(membership.held)
        revived.is_recorded, revived.is_certain = membership.is_recorded, False
        return revived

    # What members receive

    def generation_received(
        self,
        membership: Membership,
        generation: int,
        *,
        known_when_asked: Known,
        now: float,
        may_lag: bool = False,
    ) -> None:
        """A member got a generation or epoch that is in the log, and knew `known_when_asked` as the highest before its
        request.

        `may_lag`: members of consumer groups reach a new epoch one after another.
        """
        if membership.is_over:
            return
        if generation < membership.generation and membership.is_certain:
            raise self._broken(f"{membership.name} was in {membership.generation}, but now got {generation}")
        count, known = known_when_asked
        is_count_known = count == self._restarts
        if is_count_known and generation < known and not may_lag:
            if not self.may_restart_generations or any(
                now < other.protected_until for other in self.memberships
            ):
                raise self._broken(f"{membership.name} got {generation}, after others were in {known}")
            self._restart_generations(membership)
        # The other reason to restart is a power cut; responses to earlier requests are ignored then.
        membership.generation = (
            generation if is_count_known or not self.may_restart_generations else NO_GENERATION
        )
        membership.is_recorded = True
        self.generation = max(self.generation, membership.generation)

    def _restart_generations(self, first: Membership) -> None:
        for membership in self.memberships:
            membership.is_over = membership.is_recorded and membership is not first
        self.memberships = [membership for membership in self.memberships if not membership.is_over]
        self._reset_generation()

    def _reset_generation(self) -> None:
        self.generation = NO_GENERATION
        self._restarts += 1

    def take(self, membership: Membership, partitions: list[Partition], *, now: float) -> None:
        """The member was assigned these partitions in its current generation."""
        if membership.is_over:
            return
        for partition in partitions:
            membership.held[partition] = membership.generation
            if not membership.is_certain:
                continue  # the assignment may be older than its replacement
            for other in self.memberships:
                if (
                    other is not membership
                    and not other.is_over
                    and other.is_certain
                    and partition in other.held
                ):
                    self._settle_conflict(membership, other, partition, now=now)

    def _settle_conflict(
        self, one: Membership, other: Membership, partition: Partition, *, now: float
    ) -> None:
        """Two members own it. This is right only if the one of the older generation had time to be removed."""
        older, newer = sorted((one, other), key=lambda each: (each.held[partition], each.protected_until))
        if one.held[partition] == other.held[partition] and not self.may_restart_generations:
            raise self._broken(
                f"partition {partition[1]} is assigned to {newer.name} and to {older.name},"
                f" both in {newer.held[partition]}"
            )
        if now < older.protected_until:
            raise self._broken(
                f"{newer.name} is assigned partition {partition[1]} in {newer.held[partition]}, though {older.name}"
                f" owns it since {older.held[partition]} and has until {older.protected_until:.3f} to release it"
            )
        older.superseded_at = min(older.superseded_at, now)

    def release(self, membership: Membership, partitions: list[Partition] | None = None) -> None:
        """The member releases these partitions, or all."""
        for partition in list(membership.held) if partitions is None else partitions:
            membership.held.pop(partition, None)
        if not membership.held:
            membership.superseded_at = math.inf

    # Results of their requests

    def accepted(
        self,
        membership: Membership,
        what: str,
        *,
        sent_at: float,
        now: float,
        is_settled: bool = False,
        is_sign_of_life: bool = True,
        is_proof: bool = True,
        names_generation: bool = True,
    ) -> None:
        """A request of this member succeeded. `is_proof`: it would fail for any other member. `names_generation`: it
        would also fail in another generation."""
        if membership.is_over or not is_proof:
            return
        if names_generation:
            # A response that is read late may belong to a count that has ended.
            is_of_present_count = not self.may_restart_generations or now < sent_at + membership.session_s
            membership.is_certain |= (
                is_of_present_count and not membership.challengers and sent_at > membership.challenged_until
            )
        elif membership.instance_id is not None:
            membership.superseded_at = math.inf  # it missed a rebalance, and will get a new assignment
        if sent_at > membership.superseded_at:
            raise self._broken(
                f"{what} of {membership.name} was accepted at {sent_at:.3f}, though others own its partitions"
                f" since {membership.superseded_at:.3f}"
            )
        if is_sign_of_life:
            membership.accepted(sent_at, is_settled=is_settled)
        if now < membership.protected_until:
            # After a power cut this may be the only sign of the current generation. A member that is not protected may
            # have been removed since, and generations restarted.
            self.generation = max(self.generation, membership.generation)

    def refused(self, membership: Membership, what: str, error: str, *, now: float) -> None:
        """The coordinator does not know the member, or not in its generation."""
        if now < membership.protected_until:
            raise self._broken(
                f"{what} of {membership.name} (generation {membership.generation}) was answered with {error},"
                f" though it has until {membership.protected_until:.3f}"
            )

    def _broken(self, complaint: str) -> BrokenPromise:
        return BrokenPromise(f"group {self.group_id}: {complaint}")
