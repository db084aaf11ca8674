"""ElectLeaders, and the elections that the controller makes by itself."""

from __future__ import annotations

import pytest

from penstock.controller import elect_leaders, fencing
from penstock.controller.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    elect_missing_leaders,
    elect_preferred_leaders,
)
from penstock.controller.outcome import Outcome
from penstock.metadata.errors import Refused
from penstock.metadata.records import BrokerRegistrationChangeRecord, RemoveTopicRecord
from penstock.protocol.errors import ErrorCode
from unit.controller.active import ActiveController
from unit.controller.clusters import new_topic


def returned() -> ActiveController:
    """Broker 1 is the preferred leader of t-0 and t-1, but 2 leads both. 1 is in sync again with t-0 only."""
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={0: [1, 2], 1: [1, 2], 2: [2, 1]}))
    active.fence(1)
    active.join(1)
    active.alter_isr([2, 1])
    return active


def test_the_preferred_leader_is_elected_if_it_is_in_sync() -> None:
    active = returned()

    errors = active.elect(PREFERRED, {"t": [0, 1, 2, 3], "x": [0]})

    assert errors == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("t", 2): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [each.leader for each in active.topic().partitions] == [1, 2, 2]


def test_partitions_that_need_no_election_are_left_out_if_all_are_meant() -> None:
    active = returned()

    assert active.elect(PREFERRED) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }


def test_an_unclean_election_takes_any_replica_that_is_alive() -> None:
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={0: [1, 2], 1: [2, 1]}), new_topic("u", assignments={0: [1]}))
    active.alter_isr([1])
    active.fence(1)
    assert active.partition().leader == -1

    errors = active.elect(UNCLEAN, {"t": [0, 1], "u": [0]})

    assert errors == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.ELECTION_NOT_NEEDED,
        ("u", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
    partition = active.partition()
    assert (partition.leader, partition.isr, partition.is_recovering) == (2, (2,), True)
    assert (partition.eligible_leaders, partition.last_known_leaders) == ((), ())


def test_an_unknown_election_type_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        returned().elect(7)
    assert refused.value.error is ErrorCode.INVALID_REQUEST


def test_the_controller_gives_partitions_back_to_their_preferred_leaders() -> None:
    active = returned()

    active.decide(elect_preferred_leaders)

    assert [each.leader for each in active.topic().partitions] == [1, 2, 2]
    active.decide(elect_preferred_leaders)
    assert active.records == []


def test_preferred_leaders_are_elected_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect_leaders, "ELECTIONS_MAX", 2)
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={index: [1, 2] for index in range(3)}))
    active.fence(1)
    active.join(1)
    for index in range(3):
        active.alter_isr([2, 1], index=index)

    assert not elect_preferred_leaders(active.state).is_complete
    active.decide(elect_preferred_leaders)
    assert elect_preferred_leaders(active.state).is_complete


def test_leaders_stay_if_the_rebalance_is_disabled() -> None:
    active = ActiveController((1, 2), settings={"auto.leader.rebalance.enable": "false"})
    active.create(new_topic("t", assignments={0: [1, 2]}))
    active.fence(1)
    active.join(1)
    active.alter_isr([2, 1])

    active.decide(elect_preferred_leaders)

    assert active.partition().leader == 2


def test_unclean_leaders_are_elected_where_the_topic_allows_it() -> None:
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={0: [1, 2]}), new_topic("u", assignments={0: [1, 2]}))
    active.alter_isr([1], topic="t")
    active.alter_isr([1], topic="u")
    active.fence(1)
    active.set_topic_config("u", "unclean.leader.election.enable", "true")

    active.decide(elect_missing_leaders)

    assert (active.partition("t").leader, active.partition("u").leader) == (-1, 2)
    assert active.partition("u").is_recovering


def leaderless(partition_count: int) -> ActiveController:
    """Broker 1 is alive and the only replica of t, but its predecessor as active controller removed it as leader."""
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={index: [1] for index in range(partition_count)}))
    active.fence(1)
    fenced = active.broker(1)
    unfence = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=fenced.epoch, fenced=fencing.UNFENCE)
    active.decide(lambda state: Outcome([unfence], None))
    assert {each.leader for each in active.topic().partitions} == {-1}
    return active


def test_a_partition_that_a_controller_left_without_a_leader_gets_one() -> None:
    active = leaderless(1)

    active.decide(elect_missing_leaders)

    partition = active.partition()
    assert (partition.leader, partition.isr, partition.is_recovering) == (1, (1,), False)


def test_missing_leaders_are_elected_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect_leaders, "ELECTIONS_MAX", 2)
    active = leaderless(5)

    portions = []
    for _ in range(3):
        active.decide(elect_missing_leaders)
        portions.append(len(active.records))

    assert portions == [2, 2, 1]
    assert {each.leader for each in active.topic().partitions} == {1}


def test_partitions_that_nobody_can_lead_are_examined_in_portions_and_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elect_leaders, "ELECTIONS_MAX", 2)
    active = ActiveController((1, 2))
    active.create(
        new_topic("t", assignments={index: [1] for index in range(3)}), new_topic("u", assignments={0: [2]})
    )
    active.fence(1)
    active.fence(2)
    unfence = BrokerRegistrationChangeRecord(
        broker_id=2, broker_epoch=active.broker(2).epoch, fenced=fencing.UNFENCE
    )
    active.decide(lambda state: Outcome([unfence], None))

    active.decide(elect_missing_leaders)
    assert active.records == []
    active.decide(elect_missing_leaders)
    assert active.partition("u").leader == 2, "partitions without hope do not hide others"
    assert elect_missing_leaders(active.state).records == []


def test_a_topic_that_was_deleted_during_the_elections_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elect_leaders, "ELECTIONS_MAX", 2)
    active = leaderless(5)
    active.decide(elect_missing_leaders)

    delete = RemoveTopicRecord(topic_id=active.topic().topic_id)
    active.decide(lambda state: Outcome([delete], None))

    assert elect_missing_leaders(active.state).records == []


def test_a_topic_with_unclean_elections_fails_over_at_once() -> None:
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={0: [1, 2]}, configs={"unclean.leader.election.enable": "true"}))
    active.alter_isr([1])

    active.fence(1)

    assert (active.partition().leader, active.partition().is_recovering) == (2, True)
