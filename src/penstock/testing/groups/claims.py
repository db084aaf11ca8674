"""Who owns what in one group, and the complaint when a partition is given to two members.

A `Tenure` is one membership: what a member has been told, and until when the coordinator has to stand by it. It may
put a member out that was silent for its session timeout, or that did not follow a rebalance for its rebalance
timeout; both count from a request of the member that was accepted, so that `protected_until` is never later than the
moment at which the coordinator may really do it. A member that stops for long is a zombie: it goes on believing in
what it was told. From the moment another one was given its partitions, nothing that it sends may be accepted, save the
join of a static member: that one stays in the group for as long as its session lasts (KIP-345).

Generations and epochs only rise. Where the coordinator's log is not flushed, a power cut may take back the end of
it, and with it everything that was told; then all books are closed and begun anew (`power_lost`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.protocol.types import Uuid
from penstock.testing.simulation import BrokenPromise

Partition = tuple[Uuid, int]
"""The topic's id and the index."""

Known = tuple[int, int]
"""How often generations have been counted from the start, and the highest one of the present count."""

NO_GENERATION = -1  # older than all
UNDER_WAY_S = 1.0  # nothing is under way for longer than this after its connection was lost


@dataclass(slots=True, eq=False)
class Tenure:
    name: str
    session_s: float
    rebalance_s: float
    instance_id: str | None = None
    generation: int = NO_GENERATION
    """The last generation or epoch that the member was told; none, where the group began anew since it asked, and
    nobody can tell which count is meant."""
    held: dict[Partition, int] = field(default_factory=dict)
    """What it owns, and in which generation it was told so."""
    is_recorded: bool = False
    """The coordinator answered in a way that it can only after it wrote the member down."""
    is_over: bool = False
    """It left, was replaced or put out; or a power cut may have taken it back."""
    is_forgotten: bool = False
    """That was a power cut: it may go on, if the coordinator still knows it."""
    is_certain: bool = True
    """The coordinator has shown that it knows it, in its generation, since a power cut or a challenge."""
    challengers: int = 0
    """So many others have asked to join under its instance id, and their joins may be under way."""
    challenged_until: float = -math.inf
    """What the coordinator said to it before then may have been before it was replaced."""
    superseded_at: float = math.inf
    """Since then another member has what this one believes to own."""
    _session_until: float = -math.inf
    _rebalance_until: float = -math.inf

    def accepted(self, sent_at: float, *, is_settled: bool) -> None:
        """The coordinator accepted what was sent then; `is_settled`: and there was no rebalance to follow."""
        self._session_until = max(self._session_until, sent_at + self.session_s)
        if is_settled:
            self._rebalance_until = max(self._rebalance_until, sent_at + self.rebalance_s)

    @property
    def protected_until(self) -> float:
        if self.is_over or not self.is_recorded or not self.is_certain:
            return -math.inf
        return min(self._session_until, self._rebalance_until)


class Claims:
    """All tenures of one group that may still hold something."""

    def __init__(self, group_id: str, *, may_begin_anew: bool = False) -> None:
        self.group_id = group_id
        self.may_begin_anew = may_begin_anew
        """Members of both protocols come. An empty group takes the type of the next member, and counts from 0 again."""
        self.tenures: list[Tenure] = []
        self.generation = NO_GENERATION
        """The highest that anybody was told, with an answer that stands in the coordinator's log."""
        self._counts_begun = 0

    @property
    def known(self) -> Known:
        """To be asked for before a request is sent."""
        return self._counts_begun, self.generation

    def begin(
        self, name: str, *, session_s: float, rebalance_s: float, instance_id: str | None = None
    ) -> Tenure:
        tenure = Tenure(name, session_s, rebalance_s, instance_id)
        self.tenures.append(tenure)
        return tenure

    def end(self, tenure: Tenure) -> None:
        """The member gives everything up, and goes by its old id no more."""
        tenure.is_over = True
        tenure.held.clear()
        if tenure in self.tenures:
            self.tenures.remove(tenure)

    def replace(self, instance_id: str) -> None:
        """Another process comes under this instance id, and nobody counts any more on who had it."""
        for tenure in self.tenures:
            if tenure.instance_id == instance_id:
                tenure.is_over = True

    @contextmanager
    def challenge(self, instance_id: str, *, by: Tenure, now: Callable[[], float]) -> Iterator[None]:
        """While a join under this instance id is under way, whoever has it may be replaced, and nobody can tell when.

        It may also be one that was left behind and held up, and challenges who came after it. If its join is refused
        or lost, the other goes on as if nothing had happened.
        """
        challenged = [each for each in self.tenures if each.instance_id == instance_id and each is not by]
        for tenure in challenged:
            tenure.challengers += 1
            tenure.is_certain = False
        try:
            yield
        finally:
            for tenure in challenged:
                tenure.challengers -= 1
                tenure.challenged_until = now() + UNDER_WAY_S

    def power_lost(self) -> None:
        """What was told may be forgotten."""
        for tenure in self.tenures:
            tenure.is_over = tenure.is_forgotten = True
        self.tenures.clear()
        self._count_anew()

    def revive(self, tenure: Tenure) -> Tenure:
        """The member goes on as if nothing had happened; whether it may, the next answer will tell."""
        revived = self.begin(
            tenure.name,
            session_s=tenure.session_s,
            rebalance_s=tenure.rebalance_s,
            instance_id=tenure.instance_id,
        )
        revived.generation, revived.held = tenure.generation, dict(tenure.held)
        revived.is_recorded, revived.is_certain = tenure.is_recorded, False
        return revived

    # What members are told

    def told_generation(
        self, tenure: Tenure, generation: int, *, known_when_asked: Known, now: float, may_lag: bool = False
    ) -> None:
        """A generation or epoch that is on record, and the highest one that was known when the member asked.

        `may_lag`: members of the newer protocol come into a new epoch one after another.
        """
        if tenure.is_over:
            return
        if generation < tenure.generation and tenure.is_certain:
            raise self._broken(f"{tenure.name} was in {tenure.generation}, and is now told {generation}")
        count, known = known_when_asked
        is_count_known = count == self._counts_begun
        if is_count_known and generation < known and not may_lag:
            if not self.may_begin_anew or any(now < other.protected_until for other in self.tenures):
                raise self._broken(
                    f"{tenure.name} came into {generation}, when others were in {known} already"
                )
            self._begin_anew(tenure)
        # After a power cut, the other reason to count anew, what was asked before it is not listened to.
        tenure.generation = generation if is_count_known or not self.may_begin_anew else NO_GENERATION
        tenure.is_recorded = True
        self.generation = max(self.generation, tenure.generation)

    def _begin_anew(self, first: Tenure) -> None:
        for tenure in self.tenures:
            tenure.is_over = tenure.is_recorded and tenure is not first
        self.tenures = [tenure for tenure in self.tenures if not tenure.is_over]
        self._count_anew()

    def _count_anew(self) -> None:
        self.generation = NO_GENERATION
        self._counts_begun += 1

    def take(self, tenure: Tenure, partitions: list[Partition], *, now: float) -> None:
        """The member was told that it owns these, in its present generation."""
        if tenure.is_over:
            return
        for partition in partitions:
            tenure.held[partition] = tenure.generation
            if not tenure.is_certain:
                continue  # it may have been told so before it was replaced
            for other in self.tenures:
                if other is not tenure and not other.is_over and other.is_certain and partition in other.held:
                    self._settle_conflict(tenure, other, partition, now=now)

    def _settle_conflict(self, one: Tenure, other: Tenure, partition: Partition, *, now: float) -> None:
        """Two hold it: right only if the one of the older generation had time to be put out."""
        older, newer = sorted((one, other), key=lambda each: (each.held[partition], each.protected_until))
        if one.held[partition] == other.held[partition] and not self.may_begin_anew:
            raise self._broken(
                f"partition {partition[1]} is given to {newer.name} and to {older.name},"
                f" both in {newer.held[partition]}"
            )
        if now < older.protected_until:
            raise self._broken(
                f"{newer.name} is given partition {partition[1]} in {newer.held[partition]}, though {older.name}"
                f" holds it from {older.held[partition]} and has until {older.protected_until:.3f} to let go"
            )
        older.superseded_at = min(older.superseded_at, now)

    def let_go(self, tenure: Tenure, partitions: list[Partition] | None = None) -> None:
        """The member gives these up, or all."""
        for partition in list(tenure.held) if partitions is None else partitions:
            tenure.held.pop(partition, None)
        if not tenure.held:
            tenure.superseded_at = math.inf

    # What becomes of their requests

    def accepted(
        self,
        tenure: Tenure,
        what: str,
        *,
        sent_at: float,
        now: float,
        is_settled: bool = False,
        is_sign_of_life: bool = True,
        is_proof: bool = True,
        names_generation: bool = True,
    ) -> None:
        """A request in the name of this member got what it wanted; `is_proof`: which nobody else would have;
        `names_generation`: and nobody in another generation."""
        if tenure.is_over or not is_proof:
            return
        if names_generation:
            # An answer that is looked at late may be about a count that has ended since.
            is_of_present_count = not self.may_begin_anew or now < sent_at + tenure.session_s
            tenure.is_certain |= (
                is_of_present_count and not tenure.challengers and sent_at > tenure.challenged_until
            )
        elif tenure.instance_id is not None:
            tenure.superseded_at = math.inf  # it missed a rebalance, and will be told anew what it owns
        if sent_at > tenure.superseded_at:
            raise self._broken(
                f"{what} of {tenure.name} was accepted at {sent_at:.3f}, though others have had its partitions"
                f" since {tenure.superseded_at:.3f}"
            )
        if is_sign_of_life:
            tenure.accepted(sent_at, is_settled=is_settled)
        if now < tenure.protected_until:
            # After a power cut this may be all that tells how far the count has come. One that has not to be kept may
            # have been put out since, and the group may have begun anew.
            self.generation = max(self.generation, tenure.generation)

    def refused(self, tenure: Tenure, what: str, error: str, *, now: float) -> None:
        """The coordinator does not know the member, or not in its generation."""
        if now < tenure.protected_until:
            raise self._broken(
                f"{what} of {tenure.name} (generation {tenure.generation}) was answered with {error},"
                f" though it has until {tenure.protected_until:.3f}"
            )

    def _broken(self, complaint: str) -> BrokenPromise:
        return BrokenPromise(f"group {self.group_id}: {complaint}")
