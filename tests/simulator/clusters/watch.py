"""Watches the nodes while they run: at most one leader per epoch, equal and sound images at equal offsets.

It looks every few milliseconds, so it sees every state that lasts. What two leaders of one epoch would write is found
by `logs.LogMatching` as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from simulator.cluster import SimulatedCluster
from simulator.clusters.inside import image_of, metadata_offset_of, partitions_of, quorum_state_of
from simulator.clusters.logs import LogMatching
from simulator.clusters.metadata import check_image, check_successor
from simulator.world import BrokenPromise

INTERVAL_S = 0.05
LOGS_INTERVAL_S = 3.0
IMAGES_KEPT = 200


class Watch:
    def __init__(self, cluster: SimulatedCluster, *, compacted: Collection[str] = ()) -> None:
        """`compacted` are names of topics."""
        self._cluster = cluster
        self.logs = LogMatching(cluster, compacted=compacted)
        self.quorum_leaders: dict[int, int] = {}
        """Leader of the quorum by epoch."""
        self._partition_leaders: dict[tuple[bytes, int, int], int] = {}
        self._newest = EMPTY_IMAGE
        self._images: dict[int, tuple[int, MetadataImage]] = {}

    async def run(self) -> None:
        """Until cancelled."""
        logs_at = LOGS_INTERVAL_S
        while True:
            await asyncio.sleep(INTERVAL_S)
            self.look()
            if self._cluster.loop.time() >= logs_at:
                logs_at += LOGS_INTERVAL_S
                self.logs.check()

    def look(self) -> None:
        for node_id, node in self._cluster.nodes.items():
            if not node.is_serving:
                continue
            if "controller" in self._cluster.roles[node_id]:
                epoch, is_leader = quorum_state_of(node)
                if is_leader:
                    self._note_quorum_leader(epoch, node_id)
            if "broker" in self._cluster.roles[node_id]:
                for partition in partitions_of(node):
                    if partition.is_leader:
                        key = (bytes(partition.topic_id), partition.index, partition.leader_epoch)
                        known = self._partition_leaders.setdefault(key, node_id)
                        if known != node_id:
                            raise BrokenPromise(
                                f"{partition}: nodes {known} and {node_id} both lead in leader epoch"
                                f" {partition.leader_epoch}"
                            )
            self._note_image(node_id, metadata_offset_of(node), image_of(node))

    def _note_quorum_leader(self, epoch: int, node_id: int) -> None:
        known = self.quorum_leaders.setdefault(epoch, node_id)
        if known != node_id:
            raise BrokenPromise(f"nodes {known} and {node_id} both lead the quorum in epoch {epoch}")

    def _note_image(self, node_id: int, offset: int, image: MetadataImage) -> None:
        if offset > self._newest.offset:
            check_image(image)
            check_successor(self._newest, image)
            self._newest = image
        known_on, known = self._images.setdefault(offset, (node_id, image))
        if known is not image and known_on != node_id and known != image:
            raise BrokenPromise(
                f"the metadata of nodes {known_on} and {node_id} differs at offset {offset}:"
                f" {difference(known, image)}"
            )
        while len(self._images) > IMAGES_KEPT:
            del self._images[min(self._images)]


def difference(one: MetadataImage, other: MetadataImage) -> str:
    """The parts that differ."""
    names = [name for name in type(one).__dataclass_fields__ if getattr(one, name) != getattr(other, name)]
    return "; ".join(f"{name}: {getattr(one, name)} / {getattr(other, name)}" for name in names)[:2000]
