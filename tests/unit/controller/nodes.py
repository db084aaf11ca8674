"""A controller on a log in memory, that can be stopped, cut off and started again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from penstock.controller import Controller
from penstock.metadata.cache import MetadataCache
from penstock.metadata.image import MetadataImage
from penstock.metadata.loader import MetadataLoader
from penstock.metadata.settings import DynamicSettings
from penstock.node.quorum_listener import MetadataListener
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.types import Uuid
from penstock.quorum.driver import Quorum
from penstock.quorum.snapshots import Snapshots
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.voters import ReplicaKey, Voter, Voters
from penstock.runtime import Supervisor
from penstock.runtime.disk import RealDisk
from unit.controller.clusters import CLUSTER_ID, NODE_ID, SETTINGS, registration
from unit.quorum.fakes import FixedClock, InlineWorkers, MemoryLog


class ControllerNode:
    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.log = MemoryLog()
        self.state_file = QuorumStateFile(RealDisk(), str(folder))
        self.starts = 0
        self.quorum: Quorum
        self.cache: MetadataCache
        self.controller: Controller

    @property
    def image(self) -> MetadataImage:
        """The committed image."""
        return self.cache.image

    async def start(self, *, joins: bool = True) -> Controller:
        me = Voter(ReplicaKey(NODE_ID, Uuid(b"disk".ljust(16, b"\0"))))
        self.quorum = Quorum(
            me=me,
            log=self.log,
            state_file=self.state_file,
            snapshots=Snapshots(RealDisk(), self.folder),
            clock=FixedClock(),
            workers=InlineWorkers(),
            rng=random.Random(self.starts),
            cluster_id=CLUSTER_ID,
            initial_voters=Voters([me]),
        )
        self.cache = MetadataCache()
        loader = MetadataLoader(self.cache)
        self.controller = Controller(
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            quorum=self.quorum,
            loader=loader,
            settings=DynamicSettings(SETTINGS),
            rng=random.Random(self.starts),
            supervisor=Supervisor(),
        )
        await self.quorum.start(
            MetadataListener(loader, self.controller, node_id=NODE_ID, leader_changed=lambda: None)
        )
        if joins:
            await self.join()
        return self.controller

    async def close(self) -> None:
        await self.quorum.close()

    async def join(self, *, previous_broker_epoch: int = -1) -> None:
        """Register the broker and unfence it, as its lifecycle does."""
        request = registration(
            start=self.starts, cluster_id=CLUSTER_ID, previous_broker_epoch=previous_broker_epoch
        )
        self.starts += 1
        registered = await self.controller.register_broker(request)
        await self.controller.broker_heartbeat(
            BrokerHeartbeatRequest(
                broker_id=request.broker_id,
                broker_epoch=registered.broker_epoch,
                current_metadata_offset=self.image.offset,
                want_fence=False,
                want_shut_down=False,
            )
        )

    async def cut_power(self) -> None:
        await self.close()
        self.log.cut_power()


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
