"""The voters of a quorum, and what a majority of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.protocol.types import Uuid


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node, and the directory that holds it. A node whose disk was replaced
    has lost its votes and its log, and is another replica (KIP-853)."""

    node_id: int
    directory_id: Uuid


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()


class Voters:
    """A set of voters that never changes, in the order of their node ids."""

    def __init__(self, voters: Iterable[Voter]) -> None:
        self._by_id = {voter.key.node_id: voter for voter in sorted(voters, key=lambda voter: voter.key)}
        assert self._by_id, "a quorum has at least one voter"

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._by_id.values())

    def __contains__(self, key: ReplicaKey) -> bool:
        voter = self._by_id.get(key.node_id)
        return voter is not None and voter.key == key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Voters) and self._by_id == other._by_id

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Voters({list(self)!r})"

    @property
    def majority(self) -> int:
        return len(self._by_id) // 2 + 1

    def is_majority(self, node_ids: Iterable[int]) -> bool:
        return sum(1 for node_id in set(node_ids) if node_id in self._by_id) >= self.majority

    def majority_offset(self, end_offsets: Mapping[int, int]) -> int:
        """The highest offset below which a majority holds everything; a voter that was never heard of holds
        nothing."""
        held = sorted((end_offsets.get(node_id, 0) for node_id in self._by_id), reverse=True)
        return held[self.majority - 1]
