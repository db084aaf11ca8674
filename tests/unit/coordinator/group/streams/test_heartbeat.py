"""What a heartbeat does: joining, epochs, topologies, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import ConsumerStage
from harness.streams_groups import (
    GROUP,
    StreamsApp,
    StreamsStage,
    nothing,
    settle,
    simple_topology,
    statuses,
    subtopology,
    tasks_of,
    topic_info,
    topology,
)
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.tasks import Task
from penstock.coordinator.group.streams.topology import check_topology
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import TaskIds, TaskOffset


@pytest.fixture
def stage() -> StreamsStage:
    stage = StreamsStage()
    stage.create_topic("in", 3)
    return stage


ALL = {Task("0", partition) for partition in range(3)}


def test_the_first_member_brings_the_topology_and_gets_all_tasks(stage: StreamsStage) -> None:
    response = stage.heartbeat("one")

    assert response.error_code is ErrorCode.NONE
    assert (response.member_id, response.member_epoch) == ("one", 2)
    assert tasks_of(response.active_tasks) == ALL
    assert response.standby_tasks == response.warmup_tasks == []
    assert response.heartbeat_interval_ms == 5000
    assert response.status == []
    assert stage.group.state_name() == "Stable"
    assert stage.group.epoch.validated_topology_epoch == 0


def test_a_heartbeat_that_brings_nothing_new_writes_nothing_and_tells_no_tasks(stage: StreamsStage) -> None:
    joined = stage.heartbeat("one")
    written = len(stage.log)

    response = stage.heartbeat("one", joined.member_epoch)

    assert len(stage.log) == written
    assert response.active_tasks is response.standby_tasks is response.warmup_tasks is None
    assert response.member_epoch == joined.member_epoch


def test_a_second_member_waits_until_the_first_has_given_up_its_tasks(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    one.beat()

    two.beat()
    assert two.epoch == 3
    assert two.active == set()
    told = one.beat()
    assert told.member_epoch == 2
    assert len(tasks_of(told.active_tasks)) == 2
    two.beat()
    assert two.active == set()

    one.beat()
    assert one.epoch == 3
    two.beat()
    assert two.active == ALL - one.active
    assert stage.group.state_name() == "Stable"


def test_who_lost_an_answer_may_come_with_the_epoch_before(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    settle(one, two)
    member = stage.group.members["one"]
    assert (member.previous_epoch, member.epoch) == (2, 3)

    response = stage.heartbeat("one", 2, owned={**nothing(), "active": set(member.assigned.active)})

    assert response.error_code is ErrorCode.NONE
    assert response.member_epoch == 3


def test_who_missed_that_it_has_to_give_up_tasks_is_told_again(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    two.beat()
    lost = stage.heartbeat("one", one.epoch, owned=one.owned)
    assert len(tasks_of(lost.active_tasks)) == 2

    again = stage.heartbeat("one", one.epoch, owned=one.owned)

    assert again.active_tasks == lost.active_tasks


def test_who_missed_what_it_was_given_is_told_again(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    two.beat()
    one.beat()
    one.beat()
    stage.heartbeat("two", two.epoch, owned=two.owned)

    two.beat()

    assert two.active == ALL - one.active


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [(2, None), (2, {**nothing(), "active": ALL}), (1, nothing()), (4, nothing())],
    ids=["says nothing of its tasks", "has too many tasks", "is two behind", "is ahead"],
)
def test_other_epochs_are_fenced(stage: StreamsStage, epoch: int, owned: Any) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    settle(one, two)

    assert stage.heartbeat("one", epoch, owned=owned).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_groups_and_members(stage: StreamsStage) -> None:
    assert stage.heartbeat("one", 1).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.heartbeat("one", -1).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    stage.heartbeat("one")
    assert stage.heartbeat("two", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.heartbeat("two", -1).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_of_another_type_is_left_alone_while_it_has_members(stage: StreamsStage) -> None:
    ConsumerStage.heartbeat(stage, "reader", topics=["in"], group_id=GROUP)

    response = stage.heartbeat("one")

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.heartbeat("one", 1).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_that_leaves_takes_its_tasks_with_it(stage: StreamsStage) -> None:
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one, two)

    response = stage.heartbeat("one", -1)

    assert (response.member_id, response.member_epoch, response.status) == ("one", -1, [])
    assert stage.group.state_name() == "Assigning"
    settle(two)
    assert two.active == ALL


def test_a_full_group_takes_nobody_in() -> None:
    stage = StreamsStage({"group.streams.max.size": "1"})
    stage.create_topic("in", 1)
    stage.heartbeat("one")

    assert stage.heartbeat("two").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_a_member_says_anew_begins_an_epoch(stage: StreamsStage) -> None:
    stage.heartbeat("one")

    response = stage.heartbeat("one", 2, rack_id="rack", owned={**nothing(), "active": ALL})

    assert response.member_epoch == 3
    assert stage.group.members["one"].rack_id == "rack"
    moved = stage.heartbeat("one", 3, client=Client("other", "/127.0.0.2"))
    assert moved.member_epoch == 4
    assert stage.group.members["one"].client_host == "/127.0.0.2"


# -- topologies


def test_a_topology_can_not_be_changed(stage: StreamsStage) -> None:
    stage.heartbeat("one")
    stage.create_topic("other", 1)

    different = stage.heartbeat("two", topology=topology(subtopology(sources=["other"])))
    newer = stage.heartbeat("two", topology=simple_topology(epoch=1))

    assert different.error_code is newer.error_code is ErrorCode.INVALID_REQUEST
    assert "two" not in stage.group.members


def test_a_member_with_an_older_topology_is_told(stage: StreamsStage) -> None:
    stage.heartbeat("one", topology=simple_topology(epoch=3))

    joined = stage.heartbeat("two", topology=topology(subtopology(sources=["gone"]), epoch=2))
    later = stage.heartbeat("two", joined.member_epoch)

    assert joined.error_code is ErrorCode.NONE
    assert statuses(joined) == statuses(later) == [StatusCode.STALE_TOPOLOGY]


@pytest.mark.parametrize(
    "bad",
    [
        topology(subtopology(sources=["in"]), epoch=-1),
        topology(subtopology(sources=["in"]), subtopology(sources=["in"])),
        topology(subtopology()),
        topology(subtopology(sources=["in"], changelogs=[topic_info("state", partitions=1)])),
        topology(subtopology(sources=["in"], repartitions=[topic_info("words", partitions=-1)])),
        topology(subtopology(sources=["in"], joined=[([1], [])])),
        topology(subtopology(sources=["in"], joined=[([-1], [])])),
        topology(subtopology(sources=["in"], joined=[([], [0])])),
        topology(subtopology(sources=["__consumer_offsets"])),
        topology(subtopology(sources=["in"], changelogs=[topic_info("a b")])),
        topology(subtopology(sources=["in"], sinks=[".."])),
        topology(subtopology(sources=["in"], repartitions=[topic_info("a/b")])),
        topology(subtopology(sources=["in"], repartitions=[topic_info("orphan")])),
        topology(subtopology(repartitions=[topic_info("circle")], sinks=["circle"])),
    ],
)
def test_topologies_that_can_not_work_are_refused(stage: StreamsStage, bad: Any) -> None:
    assert stage.heartbeat("one", topology=bad).error_code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert stage.log == []


def test_a_good_topology_passes() -> None:
    check_topology(simple_topology())


# -- requests that are wrong in themselves


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"member_id": "  "},
        {"group_id": ""},
        {"rack_id": ""},
        {"instance_id": "static"},
        {"epoch": -2},
        {"epoch": -2, "instance_id": "static"},
        {"epoch": -3},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"epoch": 1, "topology": simple_topology()},
        {"owned": {**nothing(), "active": ALL}},
        {"owned": {**nothing(), "standby": ALL}},
        {"epoch": 1, "owned": {**nothing(), "warmup": ALL}},
        {"epoch": 1, "active_tasks": []},
        {"epoch": 1, "standby_tasks": []},
        {"epoch": 1, "task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=1)]},
        {"epoch": 1, "task_end_offsets": []},
    ],
    ids=lambda fields: ", ".join(
        fields
    ),  # not the values: some are sets, whose order differs between workers
)
def test_wrong_requests_are_refused_before_any_group_is_looked_at(
    stage: StreamsStage, fields: dict[str, Any]
) -> None:
    assert stage.heartbeat(**fields).error_code is ErrorCode.INVALID_REQUEST
    assert stage.log == []


def test_source_topics_by_pattern_are_not_supported(stage: StreamsStage) -> None:
    part = subtopology(sources=["in"])
    part.source_topic_regex = ["in.*"]

    assert stage.heartbeat(topology=topology(part)).error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("subtopology_id", "partition"), [("0", 3), ("0", -1), ("other", 0)])
def test_tasks_that_do_not_exist_are_refused(
    stage: StreamsStage, subtopology_id: str, partition: int
) -> None:
    stage.heartbeat("one")
    tasks = [TaskIds(subtopology_id=subtopology_id, partitions=[partition])]

    response = stage.heartbeat("one", 2, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])

    assert response.error_code is ErrorCode.INVALID_REQUEST


def test_a_refused_write_leaves_everything_as_it_was(stage: StreamsStage) -> None:
    stage.refuse = ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused):
        stage.beat("one")
    assert GROUP not in stage.context.groups

    stage.refuse = None
    stage.heartbeat("one")
    stage.create_topic("unrelated", 1)
    stage.grow_topic("in", 5)
    stage.refuse = ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused):
        stage.beat("one", 2)
    stage.refuse = None

    assert stage.heartbeat("one", 2).member_epoch == 3
    assert len(stage.group.members["one"].assigned.active) == 5
