"""A client in a cluster with random faults: every call ends in time, and afterwards the client recovers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from harness.scripted_cluster import HANG_UP, NOTHING, Led, ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.cluster import Leader, TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.settings import AdminSettings
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.metadata import MetadataRequest

SEEDS = 40
CALLS = 30
CALLERS = 4
SLACK_MS = 10


class Trouble:
    """Kills and starts nodes, moves leaders, and makes responses late, missing, or truncated."""

    def __init__(self, world: ScriptedCluster, rng: random.Random) -> None:
        self.world = world
        self.random = rng
        self.is_on = True
        self.down: set[int] = set()
        self.epoch = 1
        for kind, calm in ((MetadataRequest, world._metadata), (ListGroupsRequest, self._list)):
            world.answer(kind, self._troubled(calm))

    async def run(self) -> None:
        while self.is_on:
            await asyncio.sleep(self.random.uniform(0, 2))
            node_id = self.random.choice(list(self.world.nodes))
            if node_id in self.down:
                self.down.remove(node_id)
                await self.world.start(node_id)
            elif self.random.random() < 0.4:
                self.down.add(node_id)
                self.world.kill(node_id)
            elif self.random.random() < 0.3:
                self.world.nodes[node_id].hang_up()
            self.move_leader()

    def move_leader(self) -> None:
        self.epoch += 1
        alive = [node_id for node_id in self.world.nodes if node_id not in self.down]
        leader = self.random.choice(alive) if alive else -1
        self.world.topics["orders"] = {0: Led(leader=leader, epoch=self.epoch)}
        self.world.coordinators["readers"] = self.random.choice(list(self.world.nodes))

    async def end(self, causing: asyncio.Task[None]) -> None:
        self.is_on = False
        await causing
        for node_id in list(self.down):
            await self.world.start(node_id)
        self.down.clear()
        self.move_leader()

    def _troubled(self, calm: Callable[[Any, ScriptedNode], Any]) -> Callable[[Any, ScriptedNode], Any]:
        async def later(request: Any, node: ScriptedNode) -> Any:
            await asyncio.sleep(self.random.uniform(0, 3))
            return calm(request, node)

        def script(request: Any, node: ScriptedNode) -> Any:
            draw = self.random.random() if self.is_on else 1.0
            if draw < 0.05:
                return NOTHING
            if draw < 0.15:
                return HANG_UP
            return later(request, node) if draw < 0.3 else calm(request, node)

        return script

    def _list(self, request: ListGroupsRequest, node: ScriptedNode) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[])


async def call_often(client: ClusterClient, rng: random.Random, seen: list[Leader]) -> None:
    """Make various calls. Every failure comes in time and is one of `errors`."""
    failures: list[errors.PenstockError] = []
    for _ in range(CALLS):
        deadline_ms = client.deadline(rng.choice([200, 1000, 5000]))
        try:
            await call(client, rng, deadline_ms)
        except errors.PenstockError as error:
            failures.append(error)
        assert client.now_ms() <= deadline_ms + SLACK_MS
        leader = client.cluster.leader_of(TopicPartition("orders", 0))
        if leader is not None:
            seen.append(leader)
    assert all(error.retriable for error in failures), "nothing here was for good"


async def call(client: ClusterClient, rng: random.Random, deadline_ms: int) -> None:
    request = ListGroupsRequest()
    match rng.randrange(5):
        case 0:
            await client.topics(["orders"], deadline_ms=deadline_ms)
        case 1:
            await client.refresh(deadline_ms=deadline_ms)
        case 2:
            await client.ask_any(request, deadline_ms=deadline_ms)
        case 3:
            await client.ask_controller(request, deadline_ms=deadline_ms)
        case _:
            await client.ask_coordinator(CoordinatorKind.GROUP, "readers", request, deadline_ms=deadline_ms)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_call_ends_in_time_and_the_client_recovers(seed: int) -> None:
    world = ScriptedCluster(node_ids=(1, 2, 3), seed=seed)
    rng = random.Random(seed)

    async def test() -> None:
        trouble = Trouble(world, rng)
        trouble.move_leader()
        settings = AdminSettings.of(world.bootstrap, None, {"request_timeout_ms": 3000})
        client = ClusterClient(settings, network=world.network, clock=world.clock, rng=world.random)
        client.want(["orders"])
        causing = asyncio.create_task(trouble.run())
        seen: list[Leader] = []
        await asyncio.gather(
            *(call_often(client, random.Random(f"{seed}/{each}"), seen) for each in range(CALLERS))
        )
        await trouble.end(causing)
        await asyncio.sleep(5)  # by now unanswered requests have timed out, and their connections are closed
        cluster = await client.refresh()
        assert set(cluster.nodes) == {1, 2, 3}
        leader = cluster.leader_of(TopicPartition("orders", 0))
        assert leader is not None
        assert leader.epoch == trouble.epoch
        await client.ask(leader.node_id, ListGroupsRequest())
        await client.ask_any(ListGroupsRequest())
        await client.ask_controller(ListGroupsRequest())
        await client.ask_coordinator(CoordinatorKind.GROUP, "readers", ListGroupsRequest())
        await client.close()
        await asyncio.sleep(1)
        assert all(not node.streams for node in world.nodes.values())
        mine = [each for each in asyncio.all_tasks() if each.get_name().startswith("penstock")]
        assert mine == []
        epochs = [each.epoch for each in seen]
        assert epochs == sorted(epochs), "a leader is never replaced by an older one"

    world.run(test)
