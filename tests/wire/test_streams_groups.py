"""Streams groups on the wire: whole responses to valid and invalid requests.

Also run against Apache Kafka (`--broker=kafka`), to verify the rules that the unit tests of
`coordinator.group.streams` expect. Messages differ and are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.group_requests import await_coordinator, join
from harness.requests import ask, create_topic
from harness.streams_groups import statuses, subtopology, topic_info, topology
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import streams_group_describe as describe
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from penstock.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    KeyValue,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
    TopicPartition,
    Topology,
)

HEARTBEAT_MS = 5000
AT_ONCE = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
"""So that every answer shows what it led to."""

NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    broker = make_broker(tmp_path_factory.mktemp("streams"), settings=AT_ONCE)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


class Application:
    """One group, and topics with names of its own."""

    def __init__(self, connection: WireConnection) -> None:
        self.connection = connection
        self.group = new_name("application")
        self.source = f"{self.group}-in"
        self.words = f"{self.group}-words"
        self.counts = f"{self.group}-counts"
        await_coordinator(connection, self.group)

    def topology(self, epoch: int = 0) -> Topology:
        return topology(subtopology("0", sources=[self.source]), epoch=epoch)

    def counting(self) -> Topology:
        return topology(
            subtopology("0", sources=[self.source], sinks=[self.words]),
            subtopology(
                "1",
                repartitions=[topic_info(self.words, retention_ms="-1")],
                changelogs=[topic_info(self.counts, cleanup_policy="compact")],
                joined=[([], [0])],
            ),
        )

    def request(self, member: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
        if epoch == 0:
            fields = {
                "rebalance_timeout_ms": 60_000,
                "topology": self.topology(),
                "process_id": f"process of {member}",
                "client_tags": [],
                **NOTHING,
                **fields,
            }
        return StreamsGroupHeartbeatRequest(
            **{"group_id": self.group, "endpoint_information_epoch": 0, **fields},
            member_id=member,
            member_epoch=epoch,
        )

    def beat(self, member: str = "one", epoch: int = 0, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """The response, without its message."""
        response = ask(self.connection, self.request(member, epoch, **fields), 0)
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        response.error_message = None
        for status in response.status or []:
            status.status_detail = ""
        return response

    def describe(self) -> DescribedGroup:
        request = StreamsGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=False)
        (group,) = ask(self.connection, request, 0).groups
        assert isinstance(group, DescribedGroup)
        group.error_message = None
        group.members.sort(key=lambda member: member.member_id)
        for part in (group.topology and group.topology.subtopologies) or []:
            for topic in (*part.state_changelog_topics, *part.repartition_source_topics):
                topic.partitions = 0  # Kafka returns them only after one more write
        return group

    def create(self, name: str, partitions: int) -> None:
        """A topic that the coordinator knows. Kafka's coordinator is notified a little later than clients."""
        create_topic(self.connection, name, partitions=partitions)
        probe = self.request(
            "probe", 0, group_id=new_name("probe"), topology=topology(subtopology(sources=[name]))
        )
        wait_until(lambda: ask(self.connection, probe, 0).status == [], f"{name} is known")

    def has_topic(self, name: str) -> bool:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (topic,) = ask(self.connection, request, 9).topics
        return bool(topic.error_code is ErrorCode.NONE)


@pytest.fixture
def app(served: Broker) -> Iterator[Application]:
    with WireConnection(served.port) as connection:
        yield Application(connection)


@pytest.fixture
def reading(app: Application) -> Application:
    """With a source topic of two partitions."""
    app.create(app.source, 2)
    return app


def answer(member: str = "one", epoch: int = 2, **fields: Any) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        **{
            "member_id": member,
            "member_epoch": epoch,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "acceptable_recovery_lag": 0,
            "task_offset_interval_ms": 0,
            "status": [],
            "endpoint_information_epoch": 0,
            **fields,
        }
    )


def refused(error: ErrorCode) -> StreamsGroupHeartbeatResponse:
    return answer("", 0, error_code=error, heartbeat_interval_ms=0)


def tasks(*partitions: int, subtopology_id: str = "0") -> list[TaskIds]:
    return [TaskIds(subtopology_id=subtopology_id, partitions=list(partitions))]


def with_tasks(active: list[TaskIds]) -> dict[str, Any]:
    return {**NOTHING, "active_tasks": active}


def with_statuses(*codes: StatusCode) -> list[Status]:
    return [Status(status_code=int(code), status_detail="") for code in codes]


# -- joining, living, leaving


def test_a_member_joins_lives_and_leaves(reading: Application) -> None:
    assert reading.beat() == answer(**with_tasks(tasks(0, 1)))
    assert reading.beat("one", 2) == answer()
    assert reading.beat("one", 2, **with_tasks(tasks(0, 1))) == answer()

    assert reading.beat("one", -1) == answer("one", -1, heartbeat_interval_ms=0)

    assert reading.describe().group_state == "Empty"
    assert reading.beat("one", 2) == refused(ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_task_moves_after_the_first_member_has_revoked_it(reading: Application) -> None:
    reading.beat("one")

    assert reading.beat("two") == answer("two", 3, **NOTHING)
    told_to_give_up = reading.beat("one", 2)
    (kept,) = told_to_give_up.active_tasks or []
    assert told_to_give_up == answer("one", 2, **with_tasks([kept]))
    assert reading.beat("two", 3) == answer("two", 3)
    assert reading.beat("one", 2, **with_tasks([kept])) == answer("one", 3)
    (other,) = reading.beat("two", 3).active_tasks or []
    assert sorted(kept.partitions + other.partitions) == [0, 1]
    assert reading.describe().group_state == "Stable"


def test_a_member_may_be_one_epoch_behind(reading: Application) -> None:
    reading.beat("one")
    reading.beat("one", 2, rack_id="rack", **with_tasks(tasks(0, 1)))

    assert reading.beat("one", 2, **with_tasks(tasks(0, 1))) == answer("one", 3)
    assert reading.beat("one", 2) == refused(ErrorCode.FENCED_MEMBER_EPOCH)
    assert reading.beat("one", 1, **NOTHING) == refused(ErrorCode.FENCED_MEMBER_EPOCH)
    assert reading.beat("one", 4, **NOTHING) == refused(ErrorCode.FENCED_MEMBER_EPOCH)


def test_a_member_may_join_twice(reading: Application) -> None:
    reading.beat()

    assert reading.beat() == answer(**with_tasks(tasks(0, 1)))


def test_unknown_groups_and_members(reading: Application) -> None:
    assert reading.beat("one", 1) == refused(ErrorCode.GROUP_ID_NOT_FOUND)
    assert reading.beat("one", -1) == refused(ErrorCode.GROUP_ID_NOT_FOUND)
    reading.beat("one")
    assert reading.beat("two", 1) == refused(ErrorCode.UNKNOWN_MEMBER_ID)
    assert reading.beat("two", -1) == refused(ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_classic_group_with_members_is_not_taken_over(reading: Application) -> None:
    member = join(reading.connection, reading.group, reading.source)

    assert reading.beat() == refused(ErrorCode.GROUP_ID_NOT_FOUND)
    assert reading.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    member.leave(reading.connection)
    assert reading.beat() == answer(**with_tasks(tasks(0, 1)))


# -- requests that are wrong


@pytest.mark.parametrize(
    ("epoch", "fields"),
    [
        (0, {"instance_id": "static"}),
        (0, {"rack_id": ""}),
        (0, {"rebalance_timeout_ms": -1}),
        (0, {"topology": None}),
        (0, with_tasks(tasks(0))),
        (0, {"standby_tasks": tasks(0)}),
        (0, {"standby_tasks": None}),
        (0, {"task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=1)]}),
        (0, {"task_end_offsets": []}),
        (-2, {}),
        (-2, {"instance_id": "static"}),
        (-3, {}),
        (1, {"topology": topology()}),
        (1, {"warmup_tasks": tasks(0)}),
        (1, {"active_tasks": []}),
        (1, {"group_id": ""}),
    ],
    ids=str,
)
def test_wrong_requests(reading: Application, epoch: int, fields: dict[str, Any]) -> None:
    assert reading.beat("one", epoch, **fields) == refused(ErrorCode.INVALID_REQUEST)


def test_a_member_needs_an_id(reading: Application) -> None:
    assert reading.beat("") == refused(ErrorCode.INVALID_REQUEST)


def test_tasks_that_do_not_exist(reading: Application) -> None:
    reading.beat()

    assert reading.beat("one", 2, **with_tasks(tasks(2))) == refused(ErrorCode.INVALID_REQUEST)
    other = with_tasks(tasks(0, subtopology_id="1"))
    assert reading.beat("one", 2, **other) == refused(ErrorCode.INVALID_REQUEST)


def test_invalid_topologies_are_refused(reading: Application) -> None:
    source = reading.source
    for bad in (
        topology(subtopology(sources=["__consumer_offsets"])),
        topology(subtopology(sources=["a/b"])),
        topology(subtopology(sources=[source], changelogs=[topic_info(reading.counts, partitions=1)])),
        topology(subtopology(sources=[source], repartitions=[topic_info(reading.words)])),
        topology(subtopology(repartitions=[topic_info(reading.words)], sinks=[reading.words])),
        topology(subtopology()),
    ):
        assert reading.beat(topology=bad) == refused(ErrorCode.STREAMS_INVALID_TOPOLOGY)


def test_a_topology_cannot_be_changed(reading: Application) -> None:
    reading.beat("one", topology=reading.topology(epoch=1))

    newer = reading.beat("two", topology=reading.topology(epoch=2))
    other = reading.beat("two", topology=topology(subtopology("other", sources=[reading.source]), epoch=1))
    older = reading.beat("two", topology=reading.topology(epoch=0))

    assert newer == other == refused(ErrorCode.INVALID_REQUEST)
    assert older == answer("two", 3, status=with_statuses(StatusCode.STALE_TOPOLOGY), **NOTHING)


# -- topics


def test_missing_source_topics_are_reported_until_they_exist(app: Application) -> None:
    missing = with_statuses(StatusCode.MISSING_SOURCE_TOPICS)
    assert app.beat() == answer(status=missing, **NOTHING)
    assert app.beat("one", 2) == answer(status=missing)
    assert app.describe().group_state == "NotReady"

    app.create(app.source, 1)

    assert app.beat("one", 2) == answer("one", 3, **with_tasks(tasks(0)))


def test_internal_topics_are_created(reading: Application) -> None:
    first = reading.beat(topology=reading.counting())
    assert first == answer(status=with_statuses(StatusCode.MISSING_INTERNAL_TOPICS), **NOTHING)

    epoch, every = 2, [*tasks(0, 1), *tasks(0, 1, subtopology_id="1")]

    def is_ready() -> bool:
        """Kafka's coordinator is notified of new topics a little later than its clients."""
        nonlocal epoch
        response = reading.beat("one", epoch)
        epoch = response.member_epoch
        if response.status == []:
            assert response == answer("one", epoch, **with_tasks(every))
        return response.status == []

    wait_until(is_ready, "the topics are there")
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=[key])
            for name, key in ((reading.words, "retention.ms"), (reading.counts, "cleanup.policy"))
        ]
    )
    results = ask(reading.connection, request, 4).results
    assert [result.configs[0].value for result in results] == ["-1", "compact"]


def test_topics_that_are_joined_must_fit(reading: Application) -> None:
    reading.create(reading.words, 3)
    joined = topology(subtopology(sources=[reading.source, reading.words], joined=[([0, 1], [])]))

    wrong = with_statuses(StatusCode.INCORRECTLY_PARTITIONED_TOPICS)
    assert reading.beat(topology=joined) == answer(status=wrong, **NOTHING)


def test_an_internal_topic_that_exists_must_fit(reading: Application) -> None:
    reading.create(reading.words, 2)
    reading.create(reading.counts, 5)

    wrong = with_statuses(StatusCode.INCORRECTLY_PARTITIONED_TOPICS)
    assert reading.beat(topology=reading.counting()) == answer(status=wrong, **NOTHING)


def test_an_internal_topic_that_cannot_be_created_is_reported(reading: Application) -> None:
    impossible = topology(
        subtopology(sources=[reading.source], changelogs=[topic_info(reading.counts, replicas=7)])
    )
    reading.beat(topology=impossible)

    def is_reported() -> bool:
        response = ask(reading.connection, reading.request("one", 2), 0)
        (status,) = response.status
        assert status.status_code == StatusCode.MISSING_INTERNAL_TOPICS
        return f"{reading.counts} (" in status.status_detail

    wait_until(is_reported, "the member gets the reason")
    assert not reading.has_topic(reading.counts)


# -- shutdown, endpoints


def test_one_member_may_ask_all_to_shut_down(reading: Application) -> None:
    reading.beat("one")
    reading.beat("two")

    first = reading.beat("two", 3, shutdown_application=True)
    assert statuses(first) == [StatusCode.SHUTDOWN_APPLICATION]
    assert statuses(reading.beat("one", 2)) == [StatusCode.SHUTDOWN_APPLICATION]
    reading.beat("one", -1)
    reading.beat("two", -1)
    assert statuses(reading.beat("three")) == []


def test_members_learn_of_endpoints(reading: Application) -> None:
    endpoint = Endpoint(host="here", port=65_535)
    served = EndpointToPartitions(
        user_endpoint=endpoint,
        active_partitions=[TopicPartition(topic=reading.source, partitions=[0, 1])],
        standby_partitions=[],
    )

    # A new group does not keep its intermediate epoch.
    first = reading.beat("one", user_endpoint=endpoint)
    assert first == answer(partitions_by_user_endpoint=[served], **with_tasks(tasks(0, 1)))
    again = reading.beat("one", user_endpoint=endpoint)
    assert again == answer(
        partitions_by_user_endpoint=[served], endpoint_information_epoch=1, **with_tasks(tasks(0, 1))
    )
    assert reading.beat("one", 2, endpoint_information_epoch=1) == answer(endpoint_information_epoch=1)
    assert reading.beat("one", 2) == answer(
        endpoint_information_epoch=1, partitions_by_user_endpoint=[served]
    )


# -- administration


def test_a_group_is_described(reading: Application) -> None:
    reading.create(reading.words, 2)
    reading.create(reading.counts, 2)
    reading.beat(
        topology=reading.counting(),
        rack_id="rack",
        client_tags=[KeyValue(key="zone", value="a")],
        user_endpoint=Endpoint(host="here", port=1),
    )
    reading.beat("one", 2)
    group = reading.describe()

    every = [
        describe.TaskIds(subtopology_id="0", partitions=[0, 1]),
        describe.TaskIds(subtopology_id="1", partitions=[0, 1]),
    ]
    assignment = describe.Assignment(active_tasks=every, standby_tasks=[], warmup_tasks=[])
    assert group == DescribedGroup(
        group_id=reading.group,
        group_state="Stable",
        group_epoch=2,
        assignment_epoch=2,
        topology=describe.Topology(
            epoch=0,
            subtopologies=[
                describe.Subtopology(
                    subtopology_id="0",
                    source_topics=[reading.source],
                    repartition_sink_topics=[reading.words],
                    state_changelog_topics=[],
                    repartition_source_topics=[],
                ),
                describe.Subtopology(
                    subtopology_id="1",
                    source_topics=[],
                    repartition_sink_topics=[],
                    state_changelog_topics=[described_topic(reading.counts, "cleanup.policy", "compact")],
                    repartition_source_topics=[described_topic(reading.words, "retention.ms", "-1")],
                ),
            ],
        ),
        members=[
            describe.Member(
                member_id="one",
                member_epoch=2,
                rack_id="rack",
                client_id="wire",
                client_host="/127.0.0.1",
                topology_epoch=0,
                process_id="process of one",
                user_endpoint=describe.Endpoint(host="here", port=1),
                client_tags=[describe.KeyValue(key="zone", value="a")],
                task_offsets=[],
                task_end_offsets=[],
                assignment=assignment,
                target_assignment=assignment,
                is_classic=False,
            )
        ],
    )


def described_topic(name: str, key: str, value: str) -> describe.TopicInfo:
    return describe.TopicInfo(
        name=name,
        partitions=0,
        replication_factor=0,
        topic_configs=[describe.KeyValue(key=key, value=value)],
    )


def test_a_group_of_another_type_is_not_found(app: Application) -> None:
    request = StreamsGroupDescribeRequest(group_ids=["", "nobody"], include_authorized_operations=True)
    found = {group.group_id: group for group in ask(app.connection, request, 0).groups}

    assert found[""].error_code is ErrorCode.INVALID_GROUP_ID
    assert found["nobody"].error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert found["nobody"].authorized_operations == -(2**31)


def test_a_group_is_listed_and_deleted_when_it_is_empty(reading: Application) -> None:
    reading.beat()
    listed = ask(reading.connection, ListGroupsRequest(states_filter=[], types_filter=["streams"]), 5).groups
    (found,) = [group for group in listed if group.group_id == reading.group]
    assert (found.protocol_type, found.group_state, found.group_type) == ("streams", "Stable", "streams")

    delete = DeleteGroupsRequest(groups_names=[reading.group])
    assert ask(reading.connection, delete, 2).results[0].error_code is ErrorCode.NON_EMPTY_GROUP
    reading.beat("one", -1)
    assert ask(reading.connection, delete, 2).results[0].error_code is ErrorCode.NONE
    assert reading.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND
