"""StreamsGroupHeartbeat: joining, epochs, topologies, errors."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import ConsumerHarness
from harness.streams_groups import (
    GROUP,
    StreamsApp,
    StreamsHarness,
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
def harness() -> StreamsHarness:
    harness = StreamsHarness()
    harness.create_topic("in", 3)
    return harness


ALL = {Task("0", partition) for partition in range(3)}


def test_the_first_member_sets_the_topology_and_gets_all_tasks(harness: StreamsHarness) -> None:
    response = harness.heartbeat("one")

    assert response.error_code is ErrorCode.NONE
    assert (response.member_id, response.member_epoch) == ("one", 2)
    assert tasks_of(response.active_tasks) == ALL
    assert response.standby_tasks == response.warmup_tasks == []
    assert response.heartbeat_interval_ms == 5000
    assert response.status == []
    assert harness.group.state_name() == "Stable"
    assert harness.group.metadata.validated_topology_epoch == 0


def test_a_heartbeat_without_changes_writes_nothing_and_returns_no_tasks(harness: StreamsHarness) -> None:
    joined = harness.heartbeat("one")
    written = len(harness.log)

    response = harness.heartbeat("one", joined.member_epoch)

    assert len(harness.log) == written
    assert response.active_tasks is response.standby_tasks is response.warmup_tasks is None
    assert response.member_epoch == joined.member_epoch


def test_a_second_member_waits_until_the_first_has_revoked_its_tasks(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    one.beat()

    two.beat()
    assert two.epoch == 3
    assert two.active == set()
    reported = one.beat()
    assert reported.member_epoch == 2
    assert len(tasks_of(reported.active_tasks)) == 2
    two.beat()
    assert two.active == set()

    one.beat()
    assert one.epoch == 3
    two.beat()
    assert two.active == ALL - one.active
    assert harness.group.state_name() == "Stable"


def test_a_member_that_missed_a_response_may_send_the_previous_epoch(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    settle(one, two)
    member = harness.group.members["one"]
    assert (member.previous_epoch, member.epoch) == (2, 3)

    response = harness.heartbeat("one", 2, owned={**nothing(), "active": set(member.assigned.active)})

    assert response.error_code is ErrorCode.NONE
    assert response.member_epoch == 3


def test_a_member_that_missed_its_revocation_gets_it_again(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    two.beat()
    lost = harness.heartbeat("one", one.epoch, owned=one.owned)
    assert len(tasks_of(lost.active_tasks)) == 2

    again = harness.heartbeat("one", one.epoch, owned=one.owned)

    assert again.active_tasks == lost.active_tasks


def test_a_member_that_missed_its_assignment_gets_it_again(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    two.beat()
    one.beat()
    one.beat()
    harness.heartbeat("two", two.epoch, owned=two.owned)

    two.beat()

    assert two.active == ALL - one.active


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [(2, None), (2, {**nothing(), "active": ALL}), (1, nothing()), (4, nothing())],
    ids=["says nothing of its tasks", "has too many tasks", "is two behind", "is ahead"],
)
def test_other_epochs_are_fenced(harness: StreamsHarness, epoch: int, owned: Any) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    settle(one, two)

    assert harness.heartbeat("one", epoch, owned=owned).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_unknown_groups_and_members(harness: StreamsHarness) -> None:
    assert harness.heartbeat("one", 1).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.heartbeat("one", -1).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    harness.heartbeat("one")
    assert harness.heartbeat("two", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("two", -1).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_of_another_type_with_members_is_not_replaced(harness: StreamsHarness) -> None:
    ConsumerHarness.heartbeat(harness, "reader", topics=["in"], group_id=GROUP)

    response = harness.heartbeat("one")

    assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.heartbeat("one", 1).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_tasks_of_a_member_that_leaves_are_free(harness: StreamsHarness) -> None:
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one, two)

    response = harness.heartbeat("one", -1)

    assert (response.member_id, response.member_epoch, response.status) == ("one", -1, [])
    assert harness.group.state_name() == "Assigning"
    settle(two)
    assert two.active == ALL


def test_a_full_group_accepts_no_member() -> None:
    harness = StreamsHarness({"group.streams.max.size": "1"})
    harness.create_topic("in", 1)
    harness.heartbeat("one")

    assert harness.heartbeat("two").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_changed_member_metadata_begins_a_new_epoch(harness: StreamsHarness) -> None:
    harness.heartbeat("one")

    response = harness.heartbeat("one", 2, rack_id="rack", owned={**nothing(), "active": ALL})

    assert response.member_epoch == 3
    assert harness.group.members["one"].rack_id == "rack"
    moved = harness.heartbeat("one", 3, client=Client("other", "/127.0.0.2"))
    assert moved.member_epoch == 4
    assert harness.group.members["one"].client_host == "/127.0.0.2"


# -- topologies


def test_a_topology_cannot_be_changed(harness: StreamsHarness) -> None:
    harness.heartbeat("one")
    harness.create_topic("other", 1)

    different = harness.heartbeat("two", topology=topology(subtopology(sources=["other"])))
    newer = harness.heartbeat("two", topology=simple_topology(epoch=1))

    assert different.error_code is newer.error_code is ErrorCode.INVALID_REQUEST
    assert "two" not in harness.group.members


def test_a_member_with_an_older_topology_gets_a_status(harness: StreamsHarness) -> None:
    harness.heartbeat("one", topology=simple_topology(epoch=3))

    joined = harness.heartbeat("two", topology=topology(subtopology(sources=["gone"]), epoch=2))
    later = harness.heartbeat("two", joined.member_epoch)

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
def test_invalid_topologies_are_refused(harness: StreamsHarness, bad: Any) -> None:
    assert harness.heartbeat("one", topology=bad).error_code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert harness.log == []


def test_a_valid_topology_is_accepted() -> None:
    check_topology(simple_topology())


# -- invalid requests


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
    ),  # without the values: some are sets, whose order differs between test workers
)
def test_invalid_requests_are_refused_before_a_group_is_created(
    harness: StreamsHarness, fields: dict[str, Any]
) -> None:
    assert harness.heartbeat(**fields).error_code is ErrorCode.INVALID_REQUEST
    assert harness.log == []


def test_source_topics_by_pattern_are_not_supported(harness: StreamsHarness) -> None:
    part = subtopology(sources=["in"])
    part.source_topic_regex = ["in.*"]

    assert harness.heartbeat(topology=topology(part)).error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("subtopology_id", "partition"), [("0", 3), ("0", -1), ("other", 0)])
def test_tasks_that_do_not_exist_are_refused(
    harness: StreamsHarness, subtopology_id: str, partition: int
) -> None:
    harness.heartbeat("one")
    tasks = [TaskIds(subtopology_id=subtopology_id, partitions=[partition])]

    response = harness.heartbeat("one", 2, active_tasks=tasks, standby_tasks=[], warmup_tasks=[])

    assert response.error_code is ErrorCode.INVALID_REQUEST


def test_a_refused_write_changes_nothing(harness: StreamsHarness) -> None:
    harness.refuse = ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused):
        harness.beat("one")
    assert GROUP not in harness.context.groups

    harness.refuse = None
    harness.heartbeat("one")
    harness.create_topic("unrelated", 1)
    harness.grow_topic("in", 5)
    harness.refuse = ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused):
        harness.beat("one", 2)
    harness.refuse = None

    assert harness.heartbeat("one", 2).member_epoch == 3
    assert len(harness.group.members["one"].assigned.active) == 5
