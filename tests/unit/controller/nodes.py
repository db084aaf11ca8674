"""A controller on a log in memory, that can be stopped, cut off and started again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from penstock.controller import Controller
from penstock.metadata.cache import MetadataCache
from penstock.metadata.image import MetadataImage
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.types import Uuid
from penstock.quorum.driver import Quorum
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.voters import ReplicaKey, Voter
from penstock.runtime.disk import RealDisk
from unit.controller.clusters import NODE_ID, SETTINGS, registration
from unit.quorum.fakes import FixedClock, InlineWorkers, MemoryLog


class ControllerNode:
    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog()
        self.state_file = QuorumStateFile(RealDisk(), str(folder))
        self.starts = 0
        self.quorum: Quorum
        self.cache: MetadataCache
        self.controller: Controller

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self.cache.image

    async def start(self, *, joins: bool = True) -> Controller:
        self.quorum = Quorum(
            me=Voter(ReplicaKey(NODE_ID, Uuid(b"disk".ljust(16, b"\0")))),
            log=self.log,
            state_file=self.state_file,
            clock=FixedClock(),
            workers=InlineWorkers(),
        )
        self.cache = MetadataCache()
        self.controller = Controller(
            node_id=NODE_ID,
            quorum=self.quorum,
            cache=self.cache,
            settings=DynamicSettings(SETTINGS),
            rng=random.Random(self.starts),
        )
        await self.controller.start()
        if joins:
            await self.join()
        return self.controller

    async def join(self, *, keeps_epochs: bool = False) -> None:
        await self.controller.join(registration(start=self.starts), keeps_epochs=keeps_epochs)
        self.starts += 1

    async def cut_power(self) -> None:
        await self.controller.close()
        self.log.cut_power()


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
