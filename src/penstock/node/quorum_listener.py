"""Passes committed metadata from the quorum to the loader, and elections to the controller of this node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from penstock.controller import Controller
from penstock.metadata.loader import MetadataLoader
from penstock.quorum.log import DataBatch
from penstock.quorum.messages import SnapshotId

logger = logging.getLogger(__name__)


class MetadataListener:
    """The `QuorumListener` of a node."""

    def __init__(
        self,
        loader: MetadataLoader,
        controller: Controller | None,
        *,
        node_id: int,
        leader_changed: Callable[[], None],
    ) -> None:
        """`controller` is None on a node without that role. `leader_changed` is called when another node leads, and
        again when this one has become the active controller."""
        self._node_id = node_id
        self._loader = loader
        self._controller = controller
        self._leader_changed = leader_changed

    def load_snapshot(self, batches: Iterator[DataBatch], snapshot_id: SnapshotId) -> None:
        self._loader.load_snapshot(batches, end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)

    def replay(self, batches: Sequence[DataBatch]) -> None:
        self._loader.replay(batches)

    def elected(self, epoch: int) -> None:
        assert self._controller is not None, "only a controller can lead the quorum"
        self._controller.elected(epoch)
        self._leader_changed()  # requests that this node refused until now need not wait for their backoff

    def committed(self, high_watermark: int) -> None:
        if self._controller is not None:
            self._controller.committed(high_watermark)

    def resigned(self) -> None:
        if self._controller is not None:
            self._controller.resigned()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        if leader_id == self._node_id:
            logger.info("this node is the active controller in epoch %d", epoch)
        elif leader_id >= 0:
            logger.info("node %d is the active controller in epoch %d", leader_id, epoch)
        self._leader_changed()
