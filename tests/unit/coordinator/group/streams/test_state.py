"""State: what is replayed, what is told of it, and what offsets ask."""

from __future__ import annotations

import random

import pytest

from harness.consumer_groups import ConsumerStage
from harness.streams_groups import (
    GROUP,
    StreamsApp,
    StreamsStage,
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
def stage() -> StreamsStage:
    stage = StreamsStage()
    stage.create_topic("in", 2)
    return stage


def counting_stage(properties: dict[str, str] | None = None) -> StreamsStage:
    stage = StreamsStage(properties)
    for name in ("in", "words", "counts"):
        stage.create_topic(name, 2)
    return stage


# -- replay


@pytest.mark.parametrize("seed", range(8))
def test_whatever_order_compaction_leaves_the_state_is_the_same(seed: int) -> None:
    stage = counting_stage({"group.streams.num.standby.replicas": "1"})
    apps = [StreamsApp(stage, name, topology=counting_topology()) for name in ("one", "two", "three")]
    settle(*apps)
    apps[2].leave()
    apps[0].beat()
    records = stage.compacted()
    random.Random(seed).shuffle(records)

    other = StreamsStage(image=stage.image)
    other.load(records)

    assert dict(other.group.members) == dict(stage.group.members)
    assert dict(other.group.targets) == dict(stage.group.targets)
    assert other.group.epoch == stage.group.epoch
    assert other.group.target_epoch == stage.group.target_epoch
    assert other.group.topology == stage.group.topology
    assert other.group.state_name() == stage.group.state_name()
    for task in (Task(part, index) for part in "01" for index in range(2)):
        assert other.group.is_active_anywhere(task) == stage.group.is_active_anywhere(task)
        for app in apps:
            process_id = f"process of {app.member_id}"
            assert other.group.is_held_in(process_id, task) == stage.group.is_held_in(process_id, task)


def test_a_new_owner_of_the_shard_goes_on_where_the_old_one_stopped(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one, two)
    other = stage.restarted()
    one.stage = two.stage = other
    written = len(other.log)

    one.beat()
    two.beat()

    assert len(other.log) == written
    assert one.active | two.active == {Task("0", 0), Task("0", 1)}


def test_a_new_owner_notices_topics_that_changed_meanwhile(stage: StreamsStage) -> None:
    one = StreamsApp(stage, "one")
    settle(one)
    other = stage.restarted()
    other.grow_topic("in", 3)
    one.stage = other

    settle(one)

    assert len(one.active) == 3


def test_a_deleted_group_is_gone(stage: StreamsStage) -> None:
    one = StreamsApp(stage, "one")
    settle(one)
    with pytest.raises(Refused) as refused:
        stage.group.check_delete()
    assert refused.value.error is ErrorCode.NON_EMPTY_GROUP
    one.leave()

    stage.group.check_delete()
    stage.load(stage.group.tombstones())

    assert GROUP not in stage.context.groups
    assert stage.restarted().context.groups.get(GROUP) is None


def test_an_empty_classic_group_gives_way(stage: StreamsStage) -> None:
    stage.context.groups[GROUP] = ClassicGroup(stage.context, GROUP)

    assert stage.heartbeat("one").error_code is ErrorCode.NONE
    assert stage.group.members.keys() == {"one"}


def test_a_state_of_newer_software_makes_a_member_begin_anew(stage: StreamsStage) -> None:
    one = StreamsApp(stage, "one")
    settle(one)
    place = next(record for record in reversed(stage.log) if "Current" in type(record.key).__name__)
    assert place.value is not None
    place.value.state = 77
    stage.load([place])

    assert one.beat().error_code is ErrorCode.FENCED_MEMBER_EPOCH
    settle(one)
    assert stage.group.state_name() == "Stable"


# -- describing


def test_a_group_is_described(stage: StreamsStage) -> None:
    stage = counting_stage({"group.streams.num.standby.replicas": "1"})
    one = StreamsApp(stage, "one", topology=counting_topology(), endpoint=Endpoint(host="h", port=80))
    two = StreamsApp(stage, "two", topology=counting_topology())
    settle(one, two)

    group = stage.streams.describe(GROUP)

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


def test_only_committed_state_is_described(stage: StreamsStage) -> None:
    stage.heartbeat("one")
    stage.is_committing = False

    stage.heartbeat("two")

    assert [member.member_id for member in stage.streams.describe(GROUP).members] == ["one"]
    assert stage.streams.describe(GROUP).group_epoch == 2
    stage.commit()
    assert [member.member_id for member in stage.streams.describe(GROUP).members] == ["one", "two"]


def test_a_topology_that_is_not_ready_is_described_as_it_was_given() -> None:
    stage = StreamsStage()
    StreamsApp(stage, "one", topology=counting_topology()).beat()

    group = stage.streams.describe(GROUP)

    assert group.group_state == "NotReady"
    assert group.topology is not None
    assert group.topology.subtopologies is not None
    assert group.topology.subtopologies[1].state_changelog_topics[0].partitions == 0


def test_what_is_not_a_streams_group_is_not_found(stage: StreamsStage) -> None:
    ConsumerStage.heartbeat(stage, "reader", topics=["in"], group_id="readers")

    for group_id in ("nobody", "readers"):
        with pytest.raises(Refused) as refused:
            stage.streams.describe(group_id)
        assert refused.value.error is ErrorCode.GROUP_ID_NOT_FOUND


# -- standbys, shutdown, endpoints


def test_standbys_are_a_setting_of_the_group_that_may_change() -> None:
    stage = counting_stage()
    one, two = (StreamsApp(stage, name, topology=counting_topology()) for name in ("one", "two"))
    settle(one, two)
    assert one.standby == two.standby == set()

    stage.set_for_group("streams.num.standby.replicas", "1")
    settle(one, two)

    stateful = {Task("1", 0), Task("1", 1)}
    assert one.standby | two.standby == stateful
    assert not one.standby & one.active


def test_a_member_may_ask_for_the_whole_application_to_shut_down(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one, two)

    stage.heartbeat("one", -1, shutdown_application=True)

    response = two.beat()
    assert StatusCode.SHUTDOWN_APPLICATION in statuses(response)
    two.leave()
    assert statuses(StreamsApp(stage, "three").beat()) == []


def test_members_learn_which_partitions_are_served_where(stage: StreamsStage) -> None:
    one = StreamsApp(stage, "one", endpoint=Endpoint(host="a", port=1))
    two = StreamsApp(stage, "two", endpoint=Endpoint(host="b", port=2))
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
    assert response.endpoint_information_epoch == stage.group.endpoint_epoch
    assert one.beat().partitions_by_user_endpoint is None


def test_without_endpoints_nothing_is_told_of_them(stage: StreamsStage) -> None:
    assert stage.heartbeat("one").partitions_by_user_endpoint is None
    assert stage.group.endpoint_epoch == 0


# -- offsets


def commit_check(stage: StreamsStage, member_id: str, epoch: int, *, version: int = 9, txn: bool = False):  # type: ignore[no-untyped-def]
    return stage.group.check_offset_commit(
        member_id=member_id,
        instance_id=None,
        generation_or_epoch=epoch,
        is_transactional=txn,
        version=version,
    )


def test_members_commit_in_their_epoch(stage: StreamsStage) -> None:
    settle(StreamsApp(stage, "one"))

    assert commit_check(stage, "one", 2) is None
    assert commit_check(stage, "one", 2, version=0, txn=True) is None
    assert commit_check(stage, "", -1, txn=True) is None
    for member_id, epoch, version, error in (
        ("two", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("one", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("one", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        with pytest.raises(Refused) as refused:
            commit_check(stage, member_id, epoch, version=version)
        assert refused.value.error is error


def test_a_member_that_is_behind_commits_what_it_has_held_since(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    settle(one, two)
    stage.create_topic("other", 2)
    (kept,), (lost,) = one.active, two.active

    check = commit_check(stage, "one", 2)

    check(stage.id_of("in"), kept.partition)
    for topic, partition in (("in", lost.partition), ("other", 0)):
        with pytest.raises(Refused) as refused:
            check(stage.id_of(topic), partition)
        assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(Refused) as refused:
        commit_check(stage, "two", 2)(stage.id_of("in"), lost.partition)
    assert refused.value.error is ErrorCode.STALE_MEMBER_EPOCH


def test_an_empty_group_takes_commits_of_anybody(stage: StreamsStage) -> None:
    one = StreamsApp(stage, "one")
    settle(one)
    one.leave()

    assert commit_check(stage, "", -1) is None


def test_who_fetches_offsets_must_be_who_it_says(stage: StreamsStage) -> None:
    settle(StreamsApp(stage, "one"))
    group = stage.group

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


def test_offsets_of_topics_that_are_read_are_kept(stage: StreamsStage) -> None:
    one = StreamsApp(stage, "one")
    settle(one)
    group = stage.group
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
