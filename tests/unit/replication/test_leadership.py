"""What a leader decides about its ISR: who joins, who leaves, and what the controller's answers mean."""

from __future__ import annotations

import pytest

from penstock.metadata.errors import Refused
from penstock.metadata.image import PartitionImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import AlterPartitionResponsePartition
from penstock.protocol.types import ZERO_UUID
from penstock.replication.isr import IsrProposal, LedPartition
from penstock.replication.leadership import REFUSED_WAIT_MS, Leadership

LAG_MS = 10_000


class Context:
    """The rest of the node, as a test sets it."""

    lag_ms_max = LAG_MS

    def __init__(self) -> None:
        self.time_ms = 1_000_000
        self.epochs = {1: 11, 2: 12, 3: 13}
        self.inactive: set[int] = set()
        self.proposals: list[IsrProposal] = []

    def now_ms(self) -> int:
        return self.time_ms

    def broker_epoch(self, node_id: int) -> int:
        return self.epochs.get(node_id, -1)

    def is_active(self, node_id: int) -> bool:
        return node_id not in self.inactive

    def propose(self, partition: LedPartition, proposal: IsrProposal) -> None:
        self.proposals.append(proposal)


class Leader:
    def __init__(self, *, isr: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 4) -> None:
        self.context = Context()
        self.changes = 0
        self.requests: dict[int, list[int]] = {}
        self.leadership = Leadership(
            "orders",
            0,
            ZERO_UUID,
            self.context,
            self._changed,
            lambda node_id: self.requests.get(node_id, []),
        )
        self.apply(isr=isr, partition_epoch=partition_epoch)
        self.end_offset = 100

    def _changed(self) -> None:
        self.changes += 1

    def apply(self, *, isr: tuple[int, ...], partition_epoch: int, leader_epoch: int = 7) -> None:
        state = PartitionImage(
            replicas=(1, 2, 3),
            isr=isr,
            leader=1,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            directories=(ZERO_UUID,) * 3,
        )
        self.leadership.lead(state, [2, 3])

    def fetched(self, node_id: int, offset: int, *, broker_epoch: int | None = None) -> None:
        assert self.leadership.fetched(
            node_id,
            end_offset=offset,
            start_offset=0,
            broker_epoch=self.context.epochs[node_id] if broker_epoch is None else broker_epoch,
            leader_end_offset=self.end_offset,
            now_ms=self.context.time_ms,
        )

    def answer(
        self, error: ErrorCode = ErrorCode.NONE, *, isr: tuple[int, ...] = (), partition_epoch: int = 5
    ) -> bool:
        """The controller answers the last proposal."""
        return self.leadership.isr_answered(
            self.context.proposals[-1],
            AlterPartitionResponsePartition(
                partition_index=0,
                error_code=error,
                leader_id=1,
                leader_epoch=7,
                isr=list(isr),
                partition_epoch=partition_epoch,
            ),
        )

    @property
    def maximal(self) -> set[int]:
        return {1, *(follower.node_id for follower in self.leadership.followers.in_sync)}


# -- joining


def test_a_follower_joins_when_it_has_what_is_committed() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 79)
    leader.leadership.expand(80)
    assert not leader.context.proposals

    leader.fetched(3, 80)
    leader.leadership.expand(80)

    (proposal,) = leader.context.proposals
    assert (proposal.isr, proposal.broker_epochs) == ((1, 2, 3), (11, -1, 13))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (7, 4)


def test_a_follower_joins_only_after_the_start_of_the_leader_epoch() -> None:
    leader = Leader(isr=(1, 2))
    leader.leadership.epoch_start_offset = 90
    leader.fetched(3, 80)
    leader.leadership.expand(80)
    assert not leader.context.proposals

    leader.fetched(3, 90)
    leader.leadership.expand(80)

    assert len(leader.context.proposals) == 1


def test_the_high_watermark_waits_for_a_follower_whose_joining_is_pending() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 80)

    leader.leadership.expand(80)

    assert leader.maximal == {1, 2, 3}
    assert leader.leadership.isr == (1, 2)


@pytest.mark.parametrize("reason", ["fenced", "restarted", "unknown"])
def test_a_follower_that_is_not_the_registered_active_broker_does_not_join(reason: str) -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    if reason == "fenced":
        leader.context.inactive.add(3)
    elif reason == "restarted":
        leader.context.epochs[3] = 99
    else:
        del leader.context.epochs[3]

    leader.leadership.expand(80)

    assert not leader.context.proposals


def test_a_fetch_of_an_older_process_of_the_broker_is_refused() -> None:
    leader = Leader()

    with pytest.raises(Refused, match="broker epoch 12, but 13 is registered") as refusal:
        leader.fetched(3, 50, broker_epoch=12)

    assert refusal.value.error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_late_fetch_of_an_older_process_is_refused_before_the_metadata_has_the_new_one() -> None:
    """It moved the position of the new process back, which does not name an idle partition again."""
    leader = Leader()
    leader.fetched(3, 100, broker_epoch=14)

    with pytest.raises(Refused, match="broker epoch 13, but 14 has fetched"):
        leader.fetched(3, 50, broker_epoch=13)

    follower = leader.leadership.followers.get(3)
    assert follower is not None
    assert follower.end_offset == 100


# -- leaving


def test_a_follower_leaves_after_the_lag_time() -> None:
    leader = Leader()
    leader.fetched(2, 100)
    leader.fetched(3, 100)
    leader.end_offset = 120
    leader.context.time_ms += LAG_MS
    leader.leadership.shrink(120)
    assert not leader.context.proposals

    leader.fetched(2, 120)
    leader.context.time_ms += 1
    leader.leadership.shrink(120)

    assert [proposal.isr for proposal in leader.context.proposals] == [(1, 2)]
    assert leader.maximal == {1, 2, 3}, "the high watermark waits for it until the controller has decided"


def test_a_follower_that_is_always_one_fetch_behind_is_in_sync() -> None:
    leader = Leader()
    for step in range(20):
        leader.fetched(2, 100 + 10 * step)
        leader.fetched(3, 100 + 10 * step)
        leader.end_offset = 110 + 10 * step
        leader.context.time_ms += LAG_MS // 4
        leader.fetched(2, 100 + 10 * step)
        leader.fetched(3, 100 + 10 * step)
        leader.end_offset += 5
        leader.leadership.shrink(leader.end_offset)

    assert not leader.context.proposals


def test_an_idle_follower_has_the_whole_lag_time_after_the_next_append() -> None:
    leader = Leader()
    leader.fetched(2, 100)
    leader.fetched(3, 100)
    for _ in range(10):
        leader.context.time_ms += LAG_MS // 2
        leader.leadership.shrink(100)

    leader.context.time_ms += LAG_MS // 2
    leader.leadership.shrink(101)

    assert not leader.context.proposals


def test_only_one_proposal_is_pending() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    leader.leadership.expand(80)
    leader.context.time_ms += 10 * LAG_MS

    leader.leadership.shrink(200)
    leader.leadership.expand(80)

    assert len(leader.context.proposals) == 1


# -- answers


def test_an_accepted_proposal_is_the_new_isr() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    leader.leadership.expand(80)

    assert leader.answer(isr=(1, 2, 3))

    assert (leader.leadership.isr, leader.leadership.partition_epoch) == ((1, 2, 3), 5)
    assert leader.changes == 1


def test_a_refused_proposal_is_dropped_and_not_repeated_at_once() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    leader.leadership.expand(80)

    assert leader.answer(ErrorCode.INELIGIBLE_REPLICA)

    assert leader.maximal == {1, 2}
    leader.leadership.expand(80)
    assert len(leader.context.proposals) == 1
    leader.context.time_ms += REFUSED_WAIT_MS
    leader.leadership.expand(80)
    assert len(leader.context.proposals) == 2


@pytest.mark.parametrize("error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
def test_after_an_outdated_proposal_the_isr_stays_maximal_until_the_metadata_arrives(
    error: ErrorCode,
) -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    leader.leadership.expand(80)

    assert leader.answer(error), "it is not sent again"

    assert leader.maximal == {1, 2, 3}
    leader.apply(isr=(1,), partition_epoch=5)
    assert leader.maximal == {1}


def test_an_unknown_error_is_sent_again() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    leader.leadership.expand(80)

    assert not leader.answer(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert leader.leadership.is_pending(leader.context.proposals[-1])


def test_metadata_of_the_same_partition_epoch_keeps_a_proposal_pending() -> None:
    """It was dropped: the high watermark no longer waited for a follower that the controller was about to add."""
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    leader.leadership.expand(80)

    leader.apply(isr=(1, 2), partition_epoch=4)

    assert leader.maximal == {1, 2, 3}
    assert leader.leadership.is_pending(leader.context.proposals[-1])


def test_a_late_answer_to_an_earlier_proposal_changes_nothing() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetched(3, 100)
    leader.leadership.expand(80)
    leader.apply(isr=(1, 2), partition_epoch=9, leader_epoch=8)

    assert leader.answer(isr=(1, 2, 3))

    assert leader.leadership.isr == (1, 2)


# -- the high watermark


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    leader = Leader(isr=(1,))
    leader.fetched(2, 100)
    leader.fetched(3, 60)
    leader.end_offset = 120

    assert leader.leadership.joined_end_offset(120, 120) == 100, "3 was never caught up"
    leader.context.time_ms += LAG_MS + 1
    assert leader.leadership.joined_end_offset(120, 120) == 120, "2 is too late now"
