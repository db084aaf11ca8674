"""Partitions without a leader: the warning after five seconds, and the error."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Node, PartitionInfo, Topic, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.offset_finder import list_offsets
from penstock.client.reachability import LeaderWait
from penstock.runtime.backoff import Backoff

LED, OFFLINE, GONE = (TopicPartition("orders", index) for index in range(3))
ALL = (LED, OFFLINE, GONE)
CLUSTER = Cluster(
    nodes={1: Node(1, "localhost", 9092)},
    topics={
        "orders": Topic(
            "orders",
            partitions=(
                PartitionInfo(0, leader_id=1),
                PartitionInfo(1, offline_replicas=(1,)),
                PartitionInfo(2, leader_id=3),
            ),
        )
    },
)
WHY = (
    "orders-1 has no leader: its replicas on node 1 are offline; "
    "orders-2: its leader, node 3, is not in the cluster"
)


def test_a_wait_for_a_leader_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    wait = LeaderWait()

    for now_ms in range(0, 4_999, 500):
        wait.missing(ALL, CLUSTER, now_ms)
    assert not caplog.messages
    for now_ms in range(5_000, 20_000, 500):
        wait.missing(ALL, CLUSTER, now_ms)

    assert caplog.messages == [f"no leader for 5 s, still trying: {WHY}"]


def test_a_later_wait_for_a_leader_warns_again(caplog: pytest.LogCaptureFixture) -> None:
    wait = LeaderWait()

    for began_ms in (0, 60_000):
        for passed_ms in range(0, 6_000, 500):
            wait.missing(ALL, CLUSTER, began_ms + passed_ms)

    assert len(caplog.messages) == 2


def test_partitions_with_a_leader_and_unknown_ones_are_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wait = LeaderWait()

    for now_ms in range(0, 20_000, 500):
        wait.missing([LED, TopicPartition("nosuch", 0)], CLUSTER, now_ms)

    assert not caplog.messages


class Client:
    """Replaces `ClusterClient`: node 1 does not respond, and the deadline has passed."""

    cluster = CLUSTER

    backoff = Backoff(100, 100, jitter=0)

    class settings:
        @staticmethod
        def get(name: str) -> int:
            return 100

    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    def need_leaders(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def mark_stale(self) -> None:
        pass

    async def topics(self, names: object, **rest: object) -> Cluster:
        return CLUSTER

    async def ask(self, node_id: int, request: Any) -> Any:
        raise errors.Disconnected


@pytest.mark.parametrize(
    ("wanted", "message"),
    [(ALL, WHY), ([LED], "the leaders of orders-0 did not respond in time")],
)
def test_missing_offsets_name_their_partitions(wanted: Collection[TopicPartition], message: str) -> None:
    async def run() -> None:
        client = cast(ClusterClient, Client())
        await list_offsets(
            client, dict.fromkeys(wanted, -1), isolation_level=0, deadline_ms=client.now_ms() + 10
        )

    with pytest.raises(errors.TimedOut) as raised:
        asyncio.run(run())

    assert str(raised.value) == f"could not list offsets: {message}"
