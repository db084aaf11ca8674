"""Controllers of both kinds vote for each other: Penstock and Apache Kafka in one KRaft quorum."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.brokers import free_port
from harness.clusters import SETTINGS
from harness.mixed_cluster import Kind, MixedQuorum, make_controller
from harness.penstock_cluster import PenstockNode
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from penstock.protocol.types import parse_uuid

pytestmark = [pytest.mark.timeout(600), pytest.mark.penstock_only("runs a quorum of both kinds of nodes")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedQuorum]:
    cluster = MixedQuorum(tmp_path, kinds=["penstock", "kafka", "penstock"])
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
    cluster.check_outputs()


def test_controllers_of_both_kinds_lead_in_turn_and_keep_the_metadata(cluster: MixedQuorum) -> None:
    topics: list[str] = []
    kinds: set[str] = set()

    for _ in range(20):  # who wins an election is up to chance
        active = cluster.controller()
        kinds.add(cluster.kinds[active])
        topics.append(create_topic(cluster))
        await_topics(cluster, topics)
        if len(kinds) == 2 and len(topics) > 2:
            break
        cluster.kill(active)
        assert cluster.controller() != active
        topics.append(create_topic(cluster))
        cluster.restart(active)

    assert kinds == {"penstock", "kafka"}


def create_topic(cluster: MixedQuorum) -> str:
    topic = f"mixed-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, num_partitions=2, replication_factor=2)
    admin.create_topics([new], operation_timeout=60)[topic].result(60)
    return topic


def await_topics(cluster: MixedQuorum, topics: list[str]) -> None:
    """Wait until every node knows all topics."""
    for node in cluster.nodes.values():
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        wait_until(
            lambda admin=admin: set(topics) <= set(admin.list_topics(timeout=60).topics),  # type: ignore[misc]
            f"{node.bootstrap} knows all topics",
            seconds=60,
        )


# -- a dynamic quorum


@pytest.mark.parametrize(("old", "new"), [("kafka", "penstock"), ("penstock", "kafka")])
def test_a_controller_is_replaced_by_one_of_the_other_kind_while_it_runs(
    tmp_path: Path, old: Kind, new: Kind
) -> None:
    ports = (free_port(), free_port())
    first = make_controller(old, tmp_path / "first", node_id=1, bootstrap=ports, is_first=True)
    second = make_controller(new, tmp_path / "second", node_id=2, bootstrap=ports, is_first=False)
    port = free_port()
    broker = PenstockNode(
        tmp_path / "broker",
        port=port,
        settings={
            **SETTINGS,
            "process.roles": "broker",
            "node.id": "3",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}",
        },
    )
    nodes = [first, second, broker]
    try:
        for node in nodes:
            node.start()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("before", 1, 1)], operation_timeout=60)["before"].result(60)
        wait_until(
            lambda: has_caught_up(ports[0], observer=2), "the new controller has caught up", seconds=60
        )

        listeners = [Listener(name="CONTROLLER", host="127.0.0.1", port=ports[1])]
        add = AddRaftVoterRequest(
            cluster_id=None,
            timeout_ms=30_000,
            voter_id=2,
            voter_directory_id=parse_uuid(second.directory_id),
            listeners=listeners,
        )
        assert change_voters(ports[0], add) is ErrorCode.NONE
        assert describe(ports[0]).voters == [1, 2]
        remove = RemoveRaftVoterRequest(
            cluster_id=None, voter_id=1, voter_directory_id=parse_uuid(first.directory_id)
        )
        assert change_voters(ports[0], remove) is ErrorCode.NONE

        wait_until(lambda: describe(ports[1]).leader == 2, "the new controller is active", seconds=60)
        assert describe(ports[1]).voters == [2]
        first.stop()
        admin.create_topics([NewTopic("after", 1, 1)], operation_timeout=60)["after"].result(60)
        assert {"before", "after"} <= set(admin.list_topics(timeout=60).topics)
    finally:
        for node in nodes:
            if node.is_alive():
                node.kill()
    for node in nodes:
        node.check_output()


class Described(NamedTuple):
    leader: int
    voters: list[int]
    progress: dict[int, int]
    """The end offset of each replica."""


def describe(port: int) -> Described:
    topic = DescribeQuorumRequestTopic(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumRequestPartition(partition_index=0)]
    )
    with WireConnection(port) as connection:
        response = ask(connection, DescribeQuorumRequest(topics=[topic]), 2)
    found = response.topics[0].partitions[0] if response.topics else None
    if found is None or found.error_code is not ErrorCode.NONE:
        return Described(-1, [], {})
    progress = {each.replica_id: each.log_end_offset for each in (*found.current_voters, *found.observers)}
    return Described(found.leader_id, sorted(each.replica_id for each in found.current_voters), progress)


def has_caught_up(port: int, *, observer: int) -> bool:
    described = describe(port)
    return described.progress.get(observer, -1) >= described.progress.get(described.leader, 0) - 5


def change_voters(port: int, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> ErrorCode:
    """The error, after the changes before it are committed."""
    errors: list[ErrorCode] = []

    def is_decided() -> bool:
        with WireConnection(port) as connection:
            response = ask(connection, request, 0)
        errors.append(response.error_code)
        return response.error_code is not ErrorCode.REQUEST_TIMED_OUT

    wait_until(is_decided, "the voters are changed", seconds=60)
    return errors[-1]
