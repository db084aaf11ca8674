"""Truncations of followers: what is decided is done only while it still applies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch
from harness.replicas import Replicas, values
from penstock.replication.following import Following
from penstock.replication.truncating import Truncator

LEADER = 2


class Outcomes(list[bool]):
    """Which truncations ended well, in their order."""

    async def wait_for(self, count: int) -> list[bool]:
        while len(self) < count:
            await asyncio.sleep(0.001)
        return self


@pytest.fixture
def following(cluster: Cluster, node: DataNode) -> Following:
    """A follower with the records "a" and "b"."""
    cluster.add_topic("orders", replicas=(LEADER, 1))
    following = Following(node.partition())
    for offset, value in enumerate((b"a", b"b")):
        append(following, value, offset)
    return following


@pytest.fixture
def truncator(node: DataNode) -> Truncator:
    return Truncator(node.runtime.workers)


def append(following: Following, value: bytes, offset: int) -> None:
    batch = make_batch(value, base_offset=offset, leader_epoch=0)
    following.append(batch, high_watermark=0, start_offset=0, now_ms=0)


async def test_a_truncation_keeps_what_was_fetched_since_it_was_decided(
    following: Following, truncator: Truncator
) -> None:
    """A truncation that was decided twice cut what the follower had fetched and acknowledged after the first."""
    outcomes = Outcomes()
    truncator.truncate(following, 1, outcomes.append)
    append(following, b"c", 2)

    assert await outcomes.wait_for(1) == [False]

    assert following.position().offset == 3
    truncator.truncate(following, 1, outcomes.append)
    assert await outcomes.wait_for(2) == [False, True]
    assert following.position().offset == 1


async def test_a_log_without_a_directory_is_not_truncated(following: Following, truncator: Truncator) -> None:
    following.partition.go_offline()
    outcomes = Outcomes()

    truncator.truncate(following, 1, outcomes.append)

    assert await outcomes.wait_for(1) == [False]


def test_a_truncation_of_an_older_leader_epoch_does_not_let_a_busy_follower_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The follower fetched while its truncation waited, and the same truncation was begun twice."""
    cluster = Replicas(nodes=(1, 2))
    wanted: list[tuple[Any, ...]] = []
    truncate = Truncator.truncate

    def hold(truncator: Truncator, *arguments: Any, **options: Any) -> None:
        wanted.append((truncator, *arguments))

    async def scenario() -> None:
        cluster.add_topic(replicas=(1, 2))
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"kept")
        cluster.network.links.partition([["10.0.0.1"], ["10.0.0.2"]])
        cluster.nodes[1].append(b"lost")
        cluster.elect(2, isr=[2])
        await asyncio.sleep(0.1)
        await cluster.nodes[2].produce(b"new", b"newer")
        monkeypatch.setattr(Truncator, "truncate", hold)
        cluster.network.links.heal()
        await cluster.until(lambda: len(wanted) == 1)
        cluster.elect(2)
        await cluster.until(lambda: len(wanted) == 2)
        for is_well in (True, False):
            *_, on_truncated = wanted[0]
            on_truncated(is_well)  # of the first leader epoch
            await asyncio.sleep(3)
            assert len(wanted) == 2, "the follower is still to be truncated"

        truncate(*wanted[1])
        monkeypatch.undo()
        await cluster.until_in_sync((1, 2))

        assert values(cluster.nodes[1].partition(), 3) == [b"kept", b"new", b"newer"]

    cluster.run(scenario)
