"""Replay, describe, and the `Group` interface of streams groups."""

from __future__ import annotations

import random

import pytest

from harness.consumer_groups import ConsumerHarness
from harness.streams_groups import (
    GROUP,
    StreamsApp,
    StreamsHarness,
    counting_topology,
    settle,
    statuses,
)
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.tasks import Task
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import Endpoint


@pytest.fixture
def harness() -> StreamsHarness:
    harness = StreamsHarness()
    harness.create_topic("in", 2)
    return harness


def counting_harness(properties: dict[str, str] | None = None) -> StreamsHarness:
    harness = StreamsHarness(properties)
    for name in ("in", "words", "counts"):
        harness.create_topic(name, 2)
    return harness


# -- replay


@pytest.mark.parametrize("seed", range(8))
def test_the_state_does_not_depend_on_the_order_that_compaction_leaves(seed: int) -> None:
    harness = counting_harness({"group.streams.num.standby.replicas": "1"})
    apps = [StreamsApp(harness, name, topology=counting_topology()) for name in ("one", "two", "three")]
    settle(*apps)
    apps[2].leave()
    apps[0].beat()
    records = harness.compacted()
    random.Random(seed).shuffle(records)

    other = StreamsHarness(image=harness.image)
    other.load(records)

    assert dict(other.group.members) == dict(harness.group.members)
    assert dict(other.group.targets) == dict(harness.group.targets)
    assert other.group.epoch == harness.group.epoch
    assert other.group.target_epoch == harness.group.target_epoch
    assert other.group.topology == harness.group.topology
    assert other.group.state_name() == harness.group.state_name()
    for task in (Task(part, index) for part in "01" for index in range(2)):
        assert other.group.is_active_anywhere(task) == harness.group.is_active_anywhere(task)
        for app in apps:
            process_id = f"process of {app.member_id}"
            assert other.group.is_owned_by_process(process_id, task) == harness.group.is_owned_by_process(
                process_id, task
            )


def test_a_new_coordinator_continues_where_the_old_one_stopped(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one, two)
    other = harness.restarted()
    one.harness = two.harness = other
    written = len(other.log)

    one.beat()
    two.beat()

    assert len(other.log) == written
    assert one.active | two.active == {Task("0", 0), Task("0", 1)}


def test_a_new_coordinator_notices_changed_topics(harness: StreamsHarness) -> None:
    one = StreamsApp(harness, "one")
    settle(one)
    other = harness.restarted()
    other.grow_topic("in", 3)
    one.harness = other

    settle(one)

    assert len(one.active) == 3


def test_a_deleted_group_is_removed(harness: StreamsHarness) -> None:
    one = StreamsApp(harness, "one")
    settle(one)
    with pytest.raises(Refused) as refused:
        harness.group.check_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP
    one.leave()

    harness.group.check_delete()
    harness.load(harness.group.tombstones())

    assert GROUP not in harness.context.groups
    assert harness.restarted().context.groups.get(GROUP) is None


def test_an_empty_classic_group_is_replaced(harness: StreamsHarness) -> None:
    harness.context.groups[GROUP] = ClassicGroup(harness.context, GROUP)

    assert harness.heartbeat("one").error_code is ErrorCode.NONE
    assert harness.group.members.keys() == {"one"}


def test_a_member_with_an_unknown_state_has_to_rejoin(harness: StreamsHarness) -> None:
    one = StreamsApp(harness, "one")
    settle(one)
    place = next(record for record in reversed(harness.log) if "Current" in type(record.key).__name__)
    assert place.value is not None
    place.value.state = 77
    harness.load([place])

    assert one.beat().error_code is ErrorCode.FENCED_MEMBER_EPOCH
    settle(one)
    assert harness.group.state_name() == "Stable"


# -- describe


def test_a_group_is_described(harness: StreamsHarness) -> None:
    harness = counting_harness({"group.streams.num.standby.replicas": "1"})
    one = StreamsApp(harness, "one", topology=counting_topology(), endpoint=Endpoint(host="h", port=80))
    two = StreamsApp(harness, "two", topology=counting_topology())
    settle(one, two)

    group = harness.streams.describe(GROUP)

    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    first, second = group.topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["in"], ["words"])
    assert [(topic.name, topic.partitions) for topic in second.state_changelog_topics] == [("counts", 2)]
    assert [(each.key, each.value) for each in second.repartition_source_topics[0].topic_configs] == [
        ("cleanup.policy", "delete")
    ]
    described = {member.member_id: member for member in group.members}["one"]
    assert described.user_endpoint is not None
    assert (described.user_endpoint.host, described.user_endpoint.port) == ("h", 80)
    assert described.assignment == described.target_assignment
    assert len(described.assignment.standby_tasks) == 1
    assert (described.member_epoch, described.topology_epoch, described.is_classic) == (3, 0, False)


def test_only_committed_state_is_described(harness: StreamsHarness) -> None:
    harness.heartbeat("one")
    harness.is_committing = False

    harness.heartbeat("two")

    assert [member.member_id for member in harness.streams.describe(GROUP).members] == ["one"]
    assert harness.streams.describe(GROUP).group_epoch == 2
    harness.commit()
    assert [member.member_id for member in harness.streams.describe(GROUP).members] == ["one", "two"]


def test_a_topology_that_is_not_ready_is_described_without_configured_partition_counts() -> None:
    harness = StreamsHarness()
    StreamsApp(harness, "one", topology=counting_topology()).beat()

    group = harness.streams.describe(GROUP)

    assert group.group_state == "NotReady"
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert group.topology.subtopologies[1].state_changelog_topics[0].partitions == 0


def test_groups_of_other_types_are_not_found(harness: StreamsHarness) -> None:
    ConsumerHarness.heartbeat(harness, "reader", topics=["in"], group_id="readers")

    for group_id in ("unknown-member", "readers"):
        with pytest.raises(Refused) as refused:
            harness.streams.describe(group_id)
        assert refused.value.error is ErrorCode.GROUP_ID_NOT_FOUND


# -- standbys, shutdown, endpoints


def test_the_number_of_standbys_is_a_group_setting_that_may_change() -> None:
    harness = counting_harness()
    one, two = (StreamsApp(harness, name, topology=counting_topology()) for name in ("one", "two"))
    settle(one, two)
    assert one.standby == two.standby == set()

    harness.set_for_group("streams.num.standby.replicas", "1")
    settle(one, two)

    stateful = {Task("1", 0), Task("1", 1)}
    assert one.standby | two.standby == stateful
    assert not one.standby & one.active


def test_a_member_may_ask_for_the_whole_application_to_shut_down(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one, two)

    harness.heartbeat("one", -1, shutdown_application=True)

    response = two.beat()
    assert StatusCode.SHUTDOWN_APPLICATION in statuses(response)
    two.leave()
    assert statuses(StreamsApp(harness, "three").beat()) == []


def test_members_get_the_partitions_of_all_endpoints(harness: StreamsHarness) -> None:
    one = StreamsApp(harness, "one", endpoint=Endpoint(host="a", port=1))
    two = StreamsApp(harness, "two", endpoint=Endpoint(host="b", port=2))
    settle(one, two)
    one.endpoint_epoch = -1

    response = one.beat()

    assert response.partitions_by_user_endpoint is not None
    served = {
        each.user_endpoint.host: {
            (topic.topic, partition) for topic in each.active_partitions for partition in topic.partitions
        }
        for each in response.partitions_by_user_endpoint
    }
    assert served["a"] | served["b"] == {("in", 0), ("in", 1)}
    assert not served["a"] & served["b"]
    assert response.endpoint_information_epoch == harness.group.endpoint_epoch
    assert one.beat().partitions_by_user_endpoint is None


def test_without_endpoints_the_response_has_none(harness: StreamsHarness) -> None:
    assert harness.heartbeat("one").partitions_by_user_endpoint is None
    assert harness.group.endpoint_epoch == 0


# -- offsets


def commit_check(harness: StreamsHarness, member_id: str, epoch: int, *, version: int = 9, txn: bool = False):  # type: ignore[no-untyped-def]
    return harness.group.check_offset_commit(
        member_id=member_id,
        instance_id=None,
        generation_or_epoch=epoch,
        is_transactional=txn,
        version=version,
    )


def test_members_commit_in_their_epoch(harness: StreamsHarness) -> None:
    settle(StreamsApp(harness, "one"))

    assert commit_check(harness, "one", 2) is None
    assert commit_check(harness, "one", 2, version=0, txn=True) is None
    assert commit_check(harness, "", -1, txn=True) is None
    for member_id, epoch, version, error in (
        ("two", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("one", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("one", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        with pytest.raises(Refused) as refused:
            commit_check(harness, member_id, epoch, version=version)
        assert refused.value.error is error


def test_a_member_with_an_older_epoch_commits_partitions_it_has_owned_since(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    settle(one, two)
    harness.create_topic("other", 2)
    (kept,), (lost,) = one.active, two.active

    check = commit_check(harness, "one", 2)

    check(harness.id_of("in"), kept.partition)
    for topic, partition in (("in", lost.partition), ("other", 0)):
        with pytest.raises(Refused) as refused:
            check(harness.id_of(topic), partition)
        assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(Refused) as refused:
        commit_check(harness, "two", 2)(harness.id_of("in"), lost.partition)
    assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH


def test_an_empty_group_accepts_commits_without_a_member(harness: StreamsHarness) -> None:
    one = StreamsApp(harness, "one")
    settle(one)
    one.leave()

    assert commit_check(harness, "", -1) is None


def test_a_fetch_with_a_member_id_must_come_from_that_member(harness: StreamsHarness) -> None:
    settle(StreamsApp(harness, "one"))
    group = harness.group

    group.check_offset_fetch(member_id=None, member_epoch=-1)
    group.check_offset_fetch(member_id="one", member_epoch=2)
    for member_id, epoch, error in (
        ("two", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("one", 1, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        with pytest.raises(Refused) as refused:
            group.check_offset_fetch(member_id=member_id, member_epoch=epoch)
        assert refused.value.error is error


def test_offsets_of_subscribed_topics_are_kept(harness: StreamsHarness) -> None:
    one = StreamsApp(harness, "one")
    settle(one)
    group = harness.group
    group.check_offset_delete()

    assert group.is_subscribed_to("in")
    assert not group.is_subscribed_to("other")
    assert group.offsets_expire_from_ms(5, topic="in") is None
    assert group.offsets_expire_from_ms(5, topic="other") == 5
    assert group.is_kept_without_offsets
    one.leave()
    assert group.offsets_expire_from_ms(5, topic="in") == 5
    assert not group.is_kept_without_offsets
    assert (group.protocol_type, group.state_name(), group.is_empty) == ("streams", "Empty", True)
