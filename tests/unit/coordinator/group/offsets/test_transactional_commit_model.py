"""Commits inside and outside of transactions in any order, compared with a model of the log.

The model: the last record of a partition counts, of those outside of transactions and in committed ones; a record of an
open transaction is pending, unless the offset was deleted after it. The coordinator, and any later one that loads the
log, must agree with it after every step. While nothing is replicated, fetches return the offsets from before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.transactional_offsets import CoordinatorHarness, play
from penstock.protocol.errors import ErrorCode

GROUPS = ("readers", "others")
PARTITIONS = (0, 1)
PRODUCERS = (7, 8)

Place = tuple[str, int]
PLACES = [("readers", 0), ("readers", 1), ("others", 0)]


class Commit(NamedTuple):
    place: Place
    producer: int | None


class End(NamedTuple):
    producer: int
    is_commit: bool


class Delete(NamedTuple):
    place: Place


class DeleteGroup(NamedTuple):
    group: str


class TakeOver(NamedTuple):
    pass


class Hold(NamedTuple):
    """Replication stops."""


class Release(NamedTuple):
    pass


places = st.sampled_from(PLACES)
steps = st.one_of(
    st.builds(Commit, places, st.none()),
    st.builds(Commit, places, st.sampled_from(PRODUCERS)),
    st.builds(Commit, places, st.sampled_from(PRODUCERS)),
    st.builds(End, st.sampled_from(PRODUCERS), st.booleans()),
    st.builds(Delete, places),
    st.builds(DeleteGroup, st.sampled_from(GROUPS)),
    st.builds(TakeOver),
    st.builds(Hold),
    st.builds(Release),
)
Step = Commit | End | Delete | DeleteGroup | TakeOver | Hold | Release


class Written(NamedTuple):
    place: Place
    transaction: int | None
    offset: int | None


@dataclass
class Model:
    """Every record ever written, and which transactions are open or committed."""

    log: list[Written] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    """By producer, the number of its transaction."""
    committed: set[int] = field(default_factory=set)
    begun: int = 0
    replicated: dict[Place, int | None] | None = None
    """The offsets when replication stopped; None: it has not stopped."""

    def write(self, place: Place, producer: int | None, offset: int | None) -> None:
        if producer is not None and producer not in self.open:
            self.begun += 1
            self.open[producer] = self.begun
        self.log.append(Written(place, None if producer is None else self.open[producer], offset))

    def end(self, producer: int, is_commit: bool) -> None:
        transaction = self.open.pop(producer, None)
        if is_commit and transaction is not None:
            self.committed.add(transaction)

    def offset(self, place: Place) -> int | None:
        holding = [each.offset for each in self._of(place) if each.transaction in (None, *self.committed)]
        return holding[-1] if holding else None

    def is_pending(self, place: Place) -> bool:
        for each in reversed(list(self._of(place))):
            if each.transaction is None and each.offset is None:
                return False
            if each.transaction in self.open.values():
                return True
        return False

    def has_any(self, place: Place) -> bool:
        return self.offset(place) is not None or self.is_pending(place)

    def _of(self, place: Place) -> Iterator[Written]:
        return (each for each in self.log if each.place == place)


async def take(harness: CoordinatorHarness, model: Model, step: Step, offset: int) -> None:
    match step:
        case Commit((group, partition), None):
            harness.commit({"orders": {partition: offset}}, group=group)
            model.write(step.place, None, offset)
        case Commit((group, partition), producer):
            assert producer is not None
            harness.commit_in_transaction({"orders": {partition: offset}}, group=group, producer=producer)
            model.write(step.place, producer, offset)
        case End(producer, is_commit):
            harness.end(producer, commit=is_commit)
            model.end(producer, is_commit)
        case Delete((group, partition)):
            if any(model.has_any((group, each)) for each in PARTITIONS):
                harness.delete({"orders": [partition]}, group=group)
            if model.has_any(step.place):
                model.write(step.place, None, None)
        case DeleteGroup(group):
            deleted = [place for place in PLACES if place[0] == group and model.has_any(place)]
            harness.delete_group(group)
            for place in deleted:
                model.write(place, None, None)
        case TakeOver():
            harness.release()
            model.replicated = None
            await harness.take_over()
        case Hold():
            harness.hold()
            if model.replicated is None:
                model.replicated = {place: model.offset(place) for place in PLACES}
        case Release():
            harness.release()
            model.replicated = None


def compare(harness: CoordinatorHarness, model: Model) -> None:
    for group, partition in PLACES:
        asked, where = {"orders": [partition]}, ("orders", partition)
        newest, replicated = model.offset((group, partition)), model.replicated
        expected = newest if replicated is None else replicated[group, partition]
        reported = (-1 if expected is None else expected, -1, "", ErrorCode.NONE)
        assert harness.fetch(asked, group=group) == {where: reported}
        if replicated is not None:
            continue  # a fetch of stable offsets waits
        if model.is_pending((group, partition)):
            reported = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert harness.fetch(asked, group=group, stable=True) == {where: reported}


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, min_size=1, max_size=25))
def test_live_and_loaded_state_follow_the_log(script: list[Step]) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        model = Model()
        for offset, step in enumerate(script):
            await take(harness, model, step, offset)
            compare(harness, model)
        await take(harness, model, TakeOver(), -1)
        compare(harness, model)
        for producer in list(model.open):
            await take(harness, model, End(producer, True), -1)
        compare(harness, model)
        assert not harness.shard.offsets.pending

    play(scenario)
