"""The quorum's core, as scripts: what happened on the left, what the core asks for on the right."""

from __future__ import annotations

import pytest

from penstock.protocol.types import Uuid
from penstock.quorum.core import NOTHING, HardState, QuorumCore, Ready, Role
from penstock.quorum.voters import ReplicaKey, Voter, Voters


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, Uuid(bytes([node_id]) * 16))


def core(*, voters: int = 1, epoch: int = 0, end_offset: int = 0) -> QuorumCore:
    return QuorumCore(
        me=key(1),
        voters=Voters(Voter(key(node_id)) for node_id in range(1, voters + 1)),
        hard_state=HardState(epoch),
        end_offset=end_offset,
    )


def elected(**given: int) -> QuorumCore:
    leader = core(**given)
    leader.campaign()
    leader.state_saved(leader.hard_state)
    return leader


def test_a_campaign_asks_to_save_the_vote_before_anything_else() -> None:
    node = core(epoch=4)

    assert node.campaign() == Ready(hard_state=HardState(5, voted=key(1)))
    assert node.role is Role.CANDIDATE


def test_the_only_voter_leads_once_its_vote_can_not_be_forgotten() -> None:
    node = core(epoch=4, end_offset=10)
    vote = node.campaign().hard_state
    assert vote is not None

    ready = node.state_saved(vote)

    assert node.is_leader
    assert ready.hard_state == HardState(5, leader_id=1)
    assert ready.leader_change is not None
    assert (ready.leader_change.epoch, ready.leader_change.granting) == (5, (1,))
    assert ready.high_watermark is None


def test_a_vote_of_another_epoch_that_was_saved_late_elects_nobody() -> None:
    node = core()
    old_vote = node.campaign().hard_state
    assert old_vote is not None
    node.campaign()

    assert node.state_saved(old_vote) == NOTHING
    assert node.role is Role.CANDIDATE


def test_one_vote_of_three_elects_nobody() -> None:
    node = core(voters=3)
    vote = node.campaign().hard_state
    assert vote is not None

    assert node.state_saved(vote) == NOTHING
    assert node.role is Role.CANDIDATE


def test_a_record_is_committed_when_it_is_synced_and_not_before() -> None:
    leader = elected()
    leader.appended(1)
    assert leader.high_watermark == 0

    assert leader.synced(1, 1) == Ready(high_watermark=1)
    leader.appended(5)
    assert leader.synced(1, 1) == NOTHING
    assert leader.synced(1, 5) == Ready(high_watermark=5)


def test_what_older_epochs_left_is_committed_with_the_first_record_of_this_one() -> None:
    leader = elected(epoch=3, end_offset=10)

    assert leader.synced(1, 10) == NOTHING, "our disk has it, but nothing of our own epoch is there yet"
    leader.appended(11)
    assert leader.synced(1, 11) == Ready(high_watermark=11)


def test_the_high_watermark_never_goes_back() -> None:
    leader = elected()
    leader.appended(8)
    leader.synced(1, 8)

    assert leader.synced(1, 3) == NOTHING
    assert leader.high_watermark == 8


def test_a_leader_that_resigned_commits_nothing() -> None:
    leader = elected()
    leader.appended(3)
    leader.resign()

    assert leader.synced(1, 3) == NOTHING
    assert leader.high_watermark == 0


def test_only_a_voter_can_stand_for_election() -> None:
    stranger = QuorumCore(
        me=ReplicaKey(1, Uuid(bytes(16))),
        voters=Voters([Voter(key(1))]),
        hard_state=HardState(),
        end_offset=0,
    )

    with pytest.raises(AssertionError, match="only a voter"):
        stranger.campaign()
