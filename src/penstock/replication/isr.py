"""The in-sync replicas of a partition, as its leader sees and changes them.

The leader proposes a change to the controller (`alter_partition`) and waits for its decision. Until then the ISR has a
committed and a pending part, and the controller may already have committed either. So the high watermark waits for the
*maximal* ISR, the members of both: a record that only the smaller set has could be lost by an election.
`min.insync.replicas` counts the committed ISR.

Nothing here sends or waits: `Isr` decides, `Partition` applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from penstock.protocol.messages.alter_partition import AlterPartitionResponsePartition
from penstock.protocol.types import Uuid
from penstock.replication.followers import UNKNOWN_BROKER_EPOCH, Follower, Followers


@dataclass(frozen=True, slots=True, eq=False)
class IsrProposal:
    """A proposed ISR. Each proposal is an object of its own, so that a late response is not taken for a newer one."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """Of each member, as its fetches showed; -1 if unknown. The controller checks them (KIP-903)."""
    leader_epoch: int
    partition_epoch: int
    """The state to which it applies."""


class LedPartition(Protocol):
    """What the sender of proposals needs of a `Partition`."""

    topic: str
    topic_id: Uuid
    index: int

    def is_pending(self, proposal: IsrProposal) -> bool:
        """Whether the partition still waits for the answer."""
        ...

    def isr_answered(self, proposal: IsrProposal, answer: AlterPartitionResponsePartition) -> bool:
        """The controller answered a proposal. False if it must be sent again."""
        ...


class IsrContext(Protocol):
    """What a leader needs in order to change its ISR."""

    lag_ms_max: int
    """`replica.lag.time.max.ms`."""

    def now_ms(self) -> int:
        """Monotonic."""
        ...

    def broker_epoch(self, node_id: int) -> int:
        """In the metadata, or -1."""
        ...

    def is_active(self, node_id: int) -> bool:
        """Registered, not fenced, and not shutting down."""
        ...

    def propose(self, partition: LedPartition, proposal: IsrProposal) -> None:
        """Send the proposal to the controller. The partition learns the outcome later."""
        ...


class Isr:
    """Committed and pending in-sync replicas of one partition."""

    __slots__ = ("committed", "maximal", "pending", "retry_ms")

    def __init__(self) -> None:
        self.committed: tuple[int, ...] = ()
        self.maximal: tuple[int, ...] = ()
        self.pending: IsrProposal | None = None
        self.retry_ms = 0
        """No expansion before this time: the controller has just refused one."""

    def commit(self, isr: tuple[int, ...]) -> None:
        self.committed = self.maximal = isr
        self.pending = None

    def begin(self, proposal: IsrProposal) -> None:
        self.pending = proposal
        added = tuple(node_id for node_id in proposal.isr if node_id not in self.committed)
        self.maximal = self.committed + added

    def expansion(
        self, followers: Followers, context: IsrContext, *, high_watermark: int, epoch_start_offset: int
    ) -> tuple[int, ...] | None:
        """The ISR with all followers that may join it, or None.

        A follower joins when it has everything that is committed, also in this leader epoch: its end offset is not
        below the high watermark, nor below the start of the epoch. It must have fetched since it last left the ISR.
        """
        if self.pending is not None or not followers.out_of_sync:
            return None
        needed_offset = max(high_watermark, epoch_start_offset)
        joining = [
            follower.node_id
            for follower in followers.out_of_sync
            if follower.is_fetching
            and follower.end_offset >= needed_offset
            and is_eligible(follower, context)
        ]
        if not joining or context.now_ms() < self.retry_ms:
            return None
        return self.committed + tuple(joining)

    def shrink(
        self, followers: Followers, context: IsrContext, *, leader_end_offset: int
    ) -> tuple[int, ...] | None:
        """The ISR without the followers that have been behind for longer than `replica.lag.time.max.ms`, or None."""
        if self.pending is not None:
            return None
        now_ms = context.now_ms()
        leaving = []
        for follower in followers.in_sync:
            if follower.end_offset == leader_end_offset:
                follower.caught_up_ms = now_ms  # an idle partition is not fetched again and again
            elif not follower.is_caught_up(leader_end_offset, now_ms=now_ms, lag_ms_max=context.lag_ms_max):
                leaving.append(follower.node_id)
        if not leaving:
            return None
        return tuple(node_id for node_id in self.committed if node_id not in leaving)


def is_eligible(follower: Follower, context: IsrContext) -> bool:
    """Whether the follower may join the ISR: its broker is active (KIP-841), and it is the process that is registered,
    not one from before a restart (KIP-903)."""
    node_id, epoch = follower.node_id, follower.broker_epoch
    return context.is_active(node_id) and epoch in (UNKNOWN_BROKER_EPOCH, context.broker_epoch(node_id))
