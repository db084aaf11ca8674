"""The voters of a quorum, their majority, and their history in the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.protocol.types import ZERO_UUID, Uuid


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node and its log directory. A node with a replaced disk has lost its votes and
    its log, so it is another replica (KIP-853). In a static quorum, voters have no directory id: `ZERO_UUID`."""

    node_id: int
    directory_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """The address of a listener of a voter."""

    listener: str
    host: str
    port: int


class KRaftVersions(NamedTuple):
    """The range of `kraft.version` that a voter supports."""

    lowest: int
    highest: int


OUR_VERSIONS = KRaftVersions(0, 1)


@dataclass(frozen=True, slots=True)
class Voter:
    """A voter of the quorum, as a VotersRecord describes it."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_versions: KRaftVersions = OUR_VERSIONS

    def endpoint(self, listener: str) -> VoterEndpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class Voters:
    """An immutable set of voters, ordered by node id."""

    def __init__(self, voters: Iterable[Voter]) -> None:
        self._by_id = {voter.key.node_id: voter for voter in sorted(voters, key=lambda voter: voter.key)}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._by_id.values())

    def __contains__(self, key: ReplicaKey) -> bool:
        """Whether the replica is a voter. A voter of a static quorum matches every directory."""
        voter = self._by_id.get(key.node_id)
        if voter is None:
            return False
        return voter.key.directory_id in (key.directory_id, ZERO_UUID)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Voters) and self._by_id == other._by_id

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Voters({list(self)!r})"

    @property
    def node_ids(self) -> Iterable[int]:
        """In ascending order."""
        return self._by_id.keys()

    @property
    def majority(self) -> int:
        return len(self._by_id) // 2 + 1

    def get(self, node_id: int) -> Voter | None:
        return self._by_id.get(node_id)

    def with_voter(self, voter: Voter) -> Voters:
        """With one voter added, or replaced if its node id is known."""
        return Voters({**self._by_id, voter.key.node_id: voter}.values())

    def without(self, node_id: int) -> Voters:
        return Voters(voter for voter in self if voter.key.node_id != node_id)

    def is_majority(self, node_ids: Iterable[int]) -> bool:
        return sum(1 for node_id in set(node_ids) if node_id in self._by_id) >= self.majority

    def majority_offset(self, end_offsets: Mapping[int, int]) -> int:
        """The highest offset up to which a majority has the log; a voter without a known offset counts as 0."""
        held = sorted((end_offsets.get(node_id, 0) for node_id in self._by_id), reverse=True)
        return held[self.majority - 1]


NO_VOTERS = Voters(())


class VoterHistory:
    """The voters by offset. Voters are valid as soon as their record is appended; a truncation may undo that.

    A static quorum (`kraft.version` 0) has no records, only the voters of the configuration. As soon as the log or a
    snapshot has a VotersRecord, that is valid instead (`kraft.version` 1).
    """

    def __init__(self, static: Voters = NO_VOTERS, records: Iterable[tuple[int, Voters]] = ()) -> None:
        """`records`: VotersRecords with their offsets. Those of a snapshot have its last offset, or -1 for 0-0."""
        self._static = static
        self._records: list[tuple[int, Voters]] = []
        self.add(records)

    @property
    def latest(self) -> Voters:
        return self._records[-1][1] if self._records else self._static

    @property
    def previous(self) -> Voters:
        """The voters before the latest VotersRecord, as far as they are known."""
        return self._records[-2][1] if len(self._records) > 1 else self._static

    @property
    def latest_offset(self) -> int | None:
        """The offset of the latest VotersRecord. None for a static quorum."""
        return self._records[-1][0] if self._records else None

    @property
    def kraft_version(self) -> int:
        return 1 if self._records else 0

    def before(self, end_offset: int) -> VoterHistory:
        """The history of the log up to an end offset, for a snapshot there."""
        return VoterHistory(self._static, (entry for entry in self._records if entry[0] < end_offset))

    def add(self, records: Iterable[tuple[int, Voters]]) -> None:
        for offset, voters in records:
            assert not self._records or offset > self._records[-1][0], "VotersRecords have ascending offsets"
            self._records.append((offset, voters))

    def truncate_to(self, end_offset: int) -> None:
        """The log was truncated: records from `end_offset` on are gone."""
        del self._records[bisect_left(self._records, end_offset, key=lambda entry: entry[0]) :]

    def reset(self, records: Sequence[tuple[int, Voters]]) -> None:
        """The log was replaced by a snapshot with these VotersRecords: one, or none in a static quorum."""
        self._records = list(records)

    def drop_before(self, start_offset: int) -> None:
        """The log was deleted below `start_offset`. The voters that are valid there stay."""
        first = bisect_left(self._records, start_offset, key=lambda entry: entry[0])
        del self._records[: max(0, first - 1)]
