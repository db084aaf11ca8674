"""Registration, fencing, unfencing, controlled shutdown and failed directories in a cluster."""

from __future__ import annotations

import pytest

from penstock.controller import fencing, registration
from penstock.controller.elect_leaders import elect_missing_leaders
from penstock.controller.features import UpgradeType, update_features
from penstock.metadata.errors import Refused
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from unit.controller.active import SESSION_TIMEOUT_MS, ActiveController
from unit.controller.clusters import new_topic, node_uuid

MIN_ISR_2 = {"min.insync.replicas": "2"}


def three_nodes(**topic: dict[int, list[int]]) -> ActiveController:
    """Three brokers, and topic t with one partition on all of them."""
    active = ActiveController((1, 2, 3))
    active.create(
        new_topic("t", assignments=topic.get("assignments", {0: [1, 2, 3]}), configs=dict(MIN_ISR_2))
    )
    return active


def disable_elr(active: ActiveController) -> None:
    off = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)
    active.state.apply(active.image.apply([off], offset=active.image.offset + 1, epoch=1))


def test_a_broker_is_unfenced_when_it_has_applied_its_registration() -> None:
    active = ActiveController()
    epoch = active.register(1).broker_epoch
    assert active.broker(1).epoch == epoch
    registered_offset = active.image.offset

    behind = active.heartbeat(1, offset=registered_offset - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    waits = active.heartbeat(1, want_fence=True)
    assert (waits.is_caught_up, waits.is_fenced) == (True, True)
    ready = active.heartbeat(1)

    assert (ready.is_caught_up, ready.is_fenced) == (True, False)
    assert active.broker(1).is_active


def test_a_heartbeat_without_news_writes_nothing() -> None:
    active = ActiveController((1,))

    active.heartbeat(1)

    assert active.records == []


def test_a_heartbeat_of_an_earlier_incarnation_is_refused() -> None:
    active = ActiveController((1,))
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=active.broker(1).epoch - 1,
        current_metadata_offset=9,
        want_fence=False,
        want_shut_down=False,
    )
    with pytest.raises(Refused) as refused:
        active.decide(lambda state: fencing.heartbeat(state, request))
    assert refused.value.error is ErrorCode.STALE_BROKER_EPOCH


def test_a_silent_broker_is_fenced_and_another_replica_leads() -> None:
    active = three_nodes()
    active.now_ms += SESSION_TIMEOUT_MS
    active.heartbeat(2)
    active.heartbeat(3)

    active.decide(fencing.fence_expired)

    assert active.broker(1).is_fenced
    partition = active.partition()
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (2, (2, 3), ())
    assert partition.leader_epoch == 1
    active.decide(fencing.fence_expired)
    assert active.records == []


def test_many_partitions_leave_a_silent_broker_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "FENCED_MAX", 2)
    active = three_nodes(assignments={index: [1, 2, 3] for index in range(5)})
    active.now_ms += SESSION_TIMEOUT_MS
    active.heartbeat(2)
    active.heartbeat(3)

    active.decide(fencing.fence_expired)
    assert [each.leader for each in active.topic().partitions] == [2, 2, 1, 1, 1]
    assert not active.broker(1).is_fenced
    active.decide(fencing.fence_expired)
    assert fencing.fence_expired(active.state).is_complete
    active.decide(fencing.fence_expired)

    assert [each.leader for each in active.topic().partitions] == [2] * 5
    assert active.broker(1).is_fenced


def test_a_portion_does_not_look_at_all_partitions_of_a_silent_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencing, "FENCED_MAX", 2)
    active = three_nodes(assignments={index: [1, 2, 3] for index in range(20)})
    keys = active.state.index.in_sync(1)
    seen: list[object] = []
    monkeypatch.setattr(
        type(active.state.index), "each_in_sync", lambda *_: (seen.append(key) or key for key in keys)
    )
    active.now_ms += SESSION_TIMEOUT_MS
    active.heartbeat(2)
    active.heartbeat(3)

    active.decide(fencing.fence_expired)

    assert seen == keys[:3]


def test_a_heartbeat_between_two_portions_leaves_no_partition_without_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencing, "FENCED_MAX", 2)
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={index: [1] for index in range(5)}))
    active.now_ms += SESSION_TIMEOUT_MS
    active.heartbeat(2)
    active.decide(fencing.fence_expired)
    assert [each.leader for each in active.topic().partitions] == [-1, -1, 1, 1, 1]

    active.heartbeat(1)
    for _ in range(2):
        active.decide(fencing.fence_expired)
    assert active.broker(1).is_fenced, "the fencing that has begun is completed"
    active.heartbeat(1)
    active.decide(elect_missing_leaders)

    assert [each.leader for each in active.topic().partitions] == [1] * 5
    active.now_ms += SESSION_TIMEOUT_MS - 1
    active.heartbeat(2)
    active.decide(fencing.fence_expired)
    assert active.records == [], "the session has begun anew"


def test_a_broker_that_is_being_fenced_neither_leads_nor_joins_an_isr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencing, "FENCED_MAX", 2)
    active = ActiveController((1, 2))
    active.create(
        new_topic("t", assignments={0: [1, 2]}),
        new_topic("u", assignments={index: [1] for index in range(3)}),
    )
    active.now_ms += SESSION_TIMEOUT_MS
    active.heartbeat(2)
    active.decide(fencing.fence_expired)
    assert (active.partition("t").leader, active.partition("u").leader) == (2, -1)

    active.decide(elect_missing_leaders)
    assert active.records == []
    assert active.alter_isr([2, 1]).error_code is ErrorCode.INELIGIBLE_REPLICA


def test_without_elr_the_last_replicas_of_many_partitions_do_not_keep_a_silent_broker_unfenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencing, "FENCED_MAX", 2)
    active = ActiveController((1, 2))
    disable_elr(active)
    active.create(new_topic("t", assignments={index: [1] for index in range(5)}))
    active.now_ms += SESSION_TIMEOUT_MS
    active.heartbeat(2)

    for _ in range(3):
        active.decide(fencing.fence_expired)

    assert active.broker(1).is_fenced
    assert {(each.leader, each.isr) for each in active.topic().partitions} == {(-1, (1,))}
    active.decide(fencing.fence_expired)
    assert active.records == []


def test_the_time_to_the_next_expiry_is_known() -> None:
    active = three_nodes()
    active.now_ms += 1000
    for node_id in (1, 2, 3):
        active.heartbeat(node_id)
    active.state.now_ms = active.now_ms + 400

    assert fencing.wait_for_expiry_ms(active.state) == SESSION_TIMEOUT_MS - 400


def test_replicas_that_leave_below_the_min_isr_stay_eligible() -> None:
    active = three_nodes()
    active.fence(1)
    active.fence(2)
    partition = active.partition()
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (3, (3,), (2,))

    active.fence(3)

    partition = active.partition()
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (-1, (), (2, 3))
    assert partition.last_known_leaders == (3,)


def test_an_eligible_replica_is_elected_when_its_broker_returns() -> None:
    active = three_nodes()
    for node_id in (1, 2, 3):
        active.fence(node_id)

    active.join(2)

    partition = active.partition()
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (2, (2,), (3,))
    assert partition.last_known_leaders == ()
    assert not partition.is_recovering


def test_an_uncleanly_restarted_replica_is_not_elected_from_the_elr() -> None:
    active = three_nodes()
    for node_id in (1, 2, 3):
        active.fence(node_id)

    active.join(2, is_clean=False)

    partition = active.partition()
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (-1, (), (3,))


def test_the_last_known_leader_leads_if_everybody_was_shut_down_uncleanly() -> None:
    active = three_nodes()
    for node_id in (1, 2, 3):
        active.fence(node_id)
    active.join(2, is_clean=False)
    assert active.partition().leader == -1

    active.join(3, is_clean=False)

    partition = active.partition()
    assert (partition.leader, partition.isr, partition.eligible_leaders) == (3, (3,), ())
    assert partition.is_recovering


def test_a_restarted_broker_leaves_the_isr_even_after_a_clean_shutdown() -> None:
    active = three_nodes()
    active.state.sessions.end(1)

    active.register(1, is_clean=True)

    partition = active.partition()
    assert (partition.leader, partition.isr) == (2, (2, 3))
    assert active.broker(1).is_fenced


def test_a_running_broker_blocks_another_one_with_its_id() -> None:
    active = three_nodes()
    active.heartbeat(1)
    with pytest.raises(Refused, match="Another broker with node id 1") as refused:
        active.register(1)
    assert refused.value.error is ErrorCode.DUPLICATE_BROKER_REGISTRATION

    active.now_ms += SESSION_TIMEOUT_MS
    active.register(1)


def test_the_same_incarnation_may_register_again_and_stays_unfenced() -> None:
    active = three_nodes()
    epoch = active.broker(1).epoch

    response = active.register(1, is_new=False, rack="r1")

    assert response.broker_epoch == epoch
    assert active.broker(1).is_active
    assert active.broker(1).rack == "r1"
    assert active.partition().leader == 1


def test_another_clusters_broker_is_refused() -> None:
    active = ActiveController()
    with pytest.raises(Refused) as refused:
        active.register(1, cluster_id="another")
    assert refused.value.error is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_controlled_shutdown_moves_the_leaders_and_waits_for_the_others() -> None:
    active = three_nodes()
    for node_id in (1, 2, 3):
        active.heartbeat(node_id)
    before = active.image.offset

    begins = active.heartbeat(1, want_shut_down=True)

    assert (begins.should_shut_down, begins.is_fenced) == (False, False)
    assert active.broker(1).in_controlled_shutdown
    partition = active.partition()
    assert (partition.leader, partition.isr) == (2, (2, 3))
    active.heartbeat(2)
    active.heartbeat(3, offset=before)
    assert not active.heartbeat(1, want_shut_down=True).should_shut_down, "broker 3 has not seen it yet"

    active.heartbeat(3)
    ends = active.heartbeat(1, want_shut_down=True)

    assert (ends.should_shut_down, ends.is_fenced) == (True, True)
    assert active.broker(1).is_fenced
    active.register(1)  # the session has ended: a restart need not wait


@pytest.mark.parametrize("leader", [1, 2])
def test_many_partitions_leave_a_broker_in_controlled_shutdown_in_portions(
    monkeypatch: pytest.MonkeyPatch, leader: int
) -> None:
    monkeypatch.setattr(fencing, "PARTITIONS_MAX", 2)
    replicas = [leader, *(each for each in (1, 2, 3) if each != leader)]
    active = three_nodes(assignments=dict.fromkeys(range(5), replicas))

    for left_count in (3, 1, 0):
        assert not active.heartbeat(1, want_shut_down=True).should_shut_down
        assert active.broker(1).in_controlled_shutdown
        assert len(active.state.index.in_sync(1)) == left_count
        assert sum(isinstance(each, PartitionChangeRecord) for each in active.records) <= 2
    assert not active.heartbeat(1, want_shut_down=True).should_shut_down, "the others must apply it first"
    assert active.records == []
    active.heartbeat(2)
    active.heartbeat(3)

    assert active.heartbeat(1, want_shut_down=True).should_shut_down
    assert {(each.leader, each.isr) for each in active.topic().partitions} == {(2, (2, 3))}


def test_another_active_controller_completes_a_controlled_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "PARTITIONS_MAX", 2)
    before = three_nodes(assignments={index: [1, 2, 3] for index in range(5)})
    before.heartbeat(1, want_shut_down=True)
    before.heartbeat(1, want_shut_down=True)

    active = ActiveController(image=before.image)
    assert not active.heartbeat(1, want_shut_down=True).should_shut_down
    active.heartbeat(2)
    active.heartbeat(3)

    assert active.heartbeat(1, want_shut_down=True).should_shut_down
    assert {each.leader for each in active.topic().partitions} == {2}


def test_without_elr_a_controlled_shutdown_leaves_the_last_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "PARTITIONS_MAX", 2)
    active = ActiveController((1, 2))
    disable_elr(active)
    active.create(new_topic("t", assignments={index: [1] for index in range(5)}))

    for _ in range(3):
        assert not active.heartbeat(1, want_shut_down=True).should_shut_down
    active.heartbeat(2)

    assert active.heartbeat(1, want_shut_down=True).should_shut_down
    assert {(each.leader, each.isr) for each in active.topic().partitions} == {(-1, (1,))}


def test_many_leaders_are_elected_in_portions_when_their_broker_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fencing, "PARTITIONS_MAX", 2)
    active = ActiveController((1, 2))
    active.create(new_topic("t", assignments={index: [1] for index in range(5)}))
    active.fence(1)

    active.heartbeat(1)
    assert [each.leader for each in active.topic().partitions] == [1, 1, -1, -1, -1]
    active.decide(elect_missing_leaders)

    assert {each.leader for each in active.topic().partitions} == {1}


def test_a_broker_that_leads_nothing_may_shut_down_at_once() -> None:
    active = three_nodes()

    response = active.heartbeat(3, want_shut_down=True)

    assert response.should_shut_down
    assert active.partition().isr == (1, 2)


def test_a_cluster_of_one_stops_and_starts_without_a_record_per_partition() -> None:
    active = ActiveController((1,), node_id=1)
    active.create(new_topic("t", 3, 1))

    assert active.heartbeat(1, want_shut_down=True).should_shut_down
    assert active.records == []
    active.join(1)

    assert [type(record) for record in active.records] == [BrokerRegistrationChangeRecord]
    assert {(each.leader, each.leader_epoch) for each in active.topic().partitions} == {(1, 0)}


def test_a_cluster_of_one_does_not_lead_partitions_in_a_directory_that_is_gone() -> None:
    active = ActiveController(node_id=1)
    disks = [node_uuid(1, "disk a"), node_uuid(1, "disk b")]
    active.register(1, log_dirs=disks)
    active.heartbeat(1)
    active.create(new_topic("t", 2, 1))
    active.assign_directories(1, {disks[0]: [0], disks[1]: [1]})
    active.heartbeat(1, want_shut_down=True)

    active.register(1, log_dirs=disks[:1])
    active.heartbeat(1)

    assert [each.leader for each in active.topic().partitions] == [1, -1]


def test_a_cluster_of_one_leads_in_a_new_epoch_after_a_crash() -> None:
    active = ActiveController((1,), node_id=1)
    active.create(new_topic("t", 3, 1))
    active.state.sessions.end(1)

    active.join(1, is_clean=False)

    for partition in active.topic().partitions:
        assert (partition.leader, partition.isr, partition.eligible_leaders) == (1, (1,), ())
        assert partition.leader_epoch > 0


def test_a_failed_directory_moves_only_its_partitions() -> None:
    active = ActiveController((2, 3))
    disks = [node_uuid(1, "disk a"), node_uuid(1, "disk b")]
    active.register(1, log_dirs=disks)
    active.heartbeat(1)
    active.create(new_topic("t", assignments={0: [1, 2], 1: [1, 3], 2: [2, 1]}))
    active.assign_directories(1, {disks[0]: [0, 2], disks[1]: [1]})

    active.heartbeat(1, offline=[disks[0]])

    assert active.broker(1).directories == (disks[1],)
    assert [each.leader for each in active.topic().partitions] == [2, 1, 2]
    assert [each.isr for each in active.topic().partitions] == [(2,), (1, 3), (2,)]
    active.heartbeat(1, offline=[disks[0]])
    assert active.records == []


def test_cordoned_directories_are_recorded_once() -> None:
    active = ActiveController((1,))
    disk = active.broker(1).directories[0]

    active.heartbeat(1, cordoned=[disk])
    assert active.broker(1).cordoned_directories == (disk,)
    active.heartbeat(1, cordoned=[disk])
    assert active.records == []
    active.heartbeat(1, cordoned=[])

    assert active.broker(1).cordoned_directories == ()


def test_an_unregistered_broker_leads_nothing() -> None:
    active = three_nodes()
    request = UnregisterBrokerRequest(broker_id=1)

    active.decide(lambda state: registration.unregister_broker(state, request))

    assert 1 not in active.image.brokers
    assert (active.partition().leader, active.partition().isr) == (2, (2, 3))
    with pytest.raises(Refused) as refused:
        active.decide(lambda state: registration.unregister_broker(state, request))
    assert refused.value.error is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_replica_leads_again_when_it_is_reported_in_another_directory_than_the_failed_one() -> None:
    """It had been moved there before the failure. Without an election, it had no leader for up to five minutes."""
    active = ActiveController((2,))
    failed, good = node_uuid(1, "failed disk"), node_uuid(1, "good disk")
    active.register(1, log_dirs=[failed, good])
    active.heartbeat(1)
    active.create(new_topic("t", assignments={0: [1]}))
    active.assign_directories(1, {failed: [0]})
    active.heartbeat(1, offline=[failed])
    assert active.partition().leader == -1

    active.assign_directories(1, {good: [0]})

    assert active.partition().leader == 1


def test_a_partition_without_a_leader_can_be_elected_after_elr_was_disabled() -> None:
    """Disabling the feature forgot the eligible leader replicas, and only an unclean election helped."""
    active = three_nodes()
    for node_id in (1, 2, 3):
        active.fence(node_id)
    (eligible, *_) = active.partition().eligible_leaders
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature="eligible.leader.replicas.version",
                max_version_level=0,
                upgrade_type=UpgradeType.SAFE_DOWNGRADE,
            )
        ]
    )

    active.decide(lambda state: update_features(state.image, request, settings=state.settings, node_id=101))
    assert (active.partition().isr, active.partition().eligible_leaders) == ((eligible,), ())
    active.heartbeat(eligible)

    assert active.partition().leader == eligible


@pytest.mark.parametrize("min_isr", ["1", "3"])
def test_a_partition_without_a_leader_can_be_elected_after_min_insync_replicas_has_changed(
    min_isr: str,
) -> None:
    """The change forgot the eligible leader replicas, and no replica could be elected any more."""
    active = three_nodes()
    for node_id in (1, 2, 3):
        active.fence(node_id)
    assert (active.partition().leader, active.partition().isr) == (-1, ())
    eligible = active.partition().eligible_leaders
    assert eligible

    active.set_topic_config("t", "min.insync.replicas", min_isr)
    assert active.partition().eligible_leaders == eligible
    active.heartbeat(eligible[0])

    assert active.partition().leader == eligible[0]
