"""A broker joins under load and faults. When all is quiet again, another one is drained, stopped and unregistered."""

from __future__ import annotations

import asyncio

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from simulator.cluster import SimulatedCluster
from simulator.clusters.administrators import TIMEOUT_MS, retry_until
from simulator.clusters.chaos import ClusterChaos
from simulator.clusters.client import ClusterClient
from simulator.clusters.inside import active_controller, image_of

NEW_BROKER = 9
DRAIN_S_MAX = 120.0


class Elasticity(ClusterClient):
    def __init__(self, cluster: SimulatedCluster, chaos: ClusterChaos, *, seconds: float) -> None:
        super().__init__(cluster, "elasticity")
        self._chaos = chaos
        self._seconds = seconds

    async def add_broker(self) -> None:
        """Some time in the first half of the faults."""
        await asyncio.sleep(self.random.uniform(1.0, self._seconds / 2))
        self.cluster.trace.note(f"node {NEW_BROKER} joins")
        self.cluster.add_node(NEW_BROKER, "broker")
        self._chaos.operate(NEW_BROKER)

    async def remove_broker(self) -> int:
        """Move all replicas away from a broker that is no controller, stop it, and unregister it. Returns its id."""
        candidates = [node_id for node_id in self.cluster.broker_ids if node_id not in self.cluster.voters]
        chosen = self.random.choice(candidates)
        self.cluster.trace.note(f"node {chosen} is drained")

        async def has_moved() -> bool:
            return not self._replicas_on(chosen) or not await self._move_all_from(chosen)

        await retry_until(f"replicas can be moved from node {chosen}", has_moved, within_s=DRAIN_S_MAX)

        async def is_drained() -> bool:
            return not self._replicas_on(chosen)

        await retry_until(f"node {chosen} has no replicas", is_drained, within_s=DRAIN_S_MAX)
        await self._chaos.retire(chosen)

        async def unregister() -> bool:
            response = await self.ask_any(UnregisterBrokerRequest(broker_id=chosen))
            return response.error_code in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED)

        await retry_until(f"node {chosen} can be unregistered", unregister, within_s=DRAIN_S_MAX)
        return chosen

    def _replicas_on(self, node_id: int) -> list[tuple[str, int, tuple[int, ...]]]:
        """Topic, index and replicas of all partitions on a broker, or moving to or from it."""
        controller_id = active_controller(self.cluster)
        if controller_id is None:
            return [("unknown", 0, ())]
        return [
            (topic.name, index, partition.replicas)
            for topic in image_of(self.cluster.nodes[controller_id]).topics.by_name.values()
            for index, partition in enumerate(topic.partitions)
            if node_id in partition.replicas
        ]

    async def _move_all_from(self, node_id: int) -> bool:
        """Ask for all moves at once. True if some were refused."""
        topics: dict[str, list[ReassignablePartition]] = {}
        others = [each for each in self.cluster.broker_ids if each != node_id]
        for topic, index, replicas in self._replicas_on(node_id):
            kept = [each for each in replicas if each in others]
            spare = [each for each in others if each not in kept]
            chosen = kept + self.random.sample(spare, min(len(spare), len(replicas) - len(kept)))
            topics.setdefault(topic, []).append(ReassignablePartition(partition_index=index, replicas=chosen))
        response = await self.ask_any(
            AlterPartitionReassignmentsRequest(
                timeout_ms=TIMEOUT_MS,
                topics=[ReassignableTopic(name=name, partitions=each) for name, each in topics.items()],
            )
        )
        codes = [
            response.error_code,
            *[each.error_code for topic in response.responses for each in topic.partitions],
        ]
        return any(code != ErrorCode.NONE for code in codes)
