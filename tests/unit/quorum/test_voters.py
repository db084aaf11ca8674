"""Majorities of voters."""

from __future__ import annotations

import pytest

from penstock.protocol.types import Uuid
from penstock.quorum.voters import ReplicaKey, Voter, VoterHistory, Voters


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, Uuid(bytes([node_id]) * 16))


def voters(count: int) -> Voters:
    return Voters(Voter(key(node_id)) for node_id in range(count, 0, -1))


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    assert voters(count).majority == majority
    assert not voters(count).is_majority(range(1, majority))
    assert voters(count).is_majority(range(1, majority + 1))


def test_a_vote_of_a_stranger_does_not_count() -> None:
    assert not voters(3).is_majority([1, 7, 8])


@pytest.mark.parametrize(
    ("end_offsets", "committed"),
    [({1: 9}, 0), ({1: 9, 2: 4}, 4), ({1: 9, 2: 4, 3: 7}, 7), ({1: 9, 2: 9, 3: 0}, 9), ({1: 9, 7: 9}, 0)],
)
def test_the_majority_offset_of_three(end_offsets: dict[int, int], committed: int) -> None:
    assert voters(3).majority_offset(end_offsets) == committed


def test_a_node_with_another_disk_is_another_replica() -> None:
    assert key(1) in voters(1)
    assert ReplicaKey(1, Uuid(bytes(16))) not in voters(1)
    assert key(2) not in voters(1)


def test_voters_stand_in_the_order_of_their_ids() -> None:
    assert [voter.key.node_id for voter in voters(3)] == [1, 2, 3]
    assert voters(2) == voters(2) != voters(3)


def test_a_static_voter_matches_every_disk_of_its_node() -> None:
    static = Voters([Voter(ReplicaKey(1))])

    assert key(1) in static
    assert key(2) not in static


def test_the_latest_voters_of_the_log_are_valid_until_they_are_truncated() -> None:
    history = VoterHistory(voters(5), [(-1, voters(1))])
    history.add([(10, voters(2)), (20, voters(3))])
    assert (history.latest, history.latest_offset, history.kraft_version) == (voters(3), 20, 1)
    assert history.previous == voters(2)

    history.truncate_to(20)
    assert (history.latest, history.latest_offset) == (voters(2), 10)
    history.truncate_to(10)
    assert (history.latest, history.latest_offset) == (voters(1), -1)


def test_a_static_quorum_gets_its_voters_back_after_a_truncation() -> None:
    history = VoterHistory(voters(5))
    history.add([(10, voters(2))])

    history.truncate_to(3)

    assert (history.latest, history.latest_offset, history.kraft_version) == (voters(5), None, 0)


def test_a_snapshot_has_the_voters_of_its_offset() -> None:
    history = VoterHistory(records=[(-1, voters(1)), (10, voters(2)), (20, voters(3))])

    assert history.before(21).latest == voters(3)
    assert history.before(20).latest == voters(2)
    assert history.before(10).latest == voters(1)


def test_voters_before_the_start_of_the_log_are_forgotten_except_those_valid_there() -> None:
    history = VoterHistory(records=[(-1, voters(1)), (10, voters(2)), (20, voters(3))])

    history.drop_before(15)
    history.truncate_to(20)

    assert (history.latest, history.latest_offset) == (voters(2), 10)
