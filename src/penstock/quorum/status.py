"""The state of the quorum, for DescribeQuorum."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.quorum.voters import ReplicaKey, Voter

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """How far a voter or an observer has replicated the log."""

    key: ReplicaKey
    end_offset: int
    """-1 if the replica has not fetched yet."""
    last_fetch_ms: int = UNKNOWN
    """Wall clock, or -1."""
    last_caught_up_ms: int = UNKNOWN
    """When it last had the whole log of the leader. Wall clock, or -1."""


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """The content of a DescribeQuorum response. Only the leader knows the progress of the others."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaStatus, ...]
    voter_details: tuple[Voter, ...]
    observers: tuple[ReplicaStatus, ...] = ()
