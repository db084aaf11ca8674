"""One transactional id on the stage: its incarnations come, vanish at any moment, and are followed by others.

Some are followed while they still act. At the end those that are left finish what they have begun, or vanish and leave
it open: then the coordinator has to end it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.testing.transactions.identity import Identity
from penstock.testing.transactions.performer import Performer
from penstock.testing.transactions.stage import Stage

LIFE_S_MAX = 3.0
GAP_S_MAX = 0.5
LOOK_S = 0.05

MakePerformer = Callable[[Stage, Identity, str], Performer]
"""From the name of the incarnation."""


class Actor:
    OVERLAPS = True
    """Whether one may come while the one before still acts."""

    def __init__(self, stage: Stage, transactional_id: str, make_performer: MakePerformer) -> None:
        self.stage = stage
        self.identity = Identity(transactional_id)
        self.random = stage.simulation.generator(f"actor/{transactional_id}")
        self._make_performer = make_performer
        self._names = 0
        self._present: dict[Performer, asyncio.Task[None]] = {}

    async def run(self) -> None:
        rng, weather = self.random, self.stage.weather
        while not weather.is_over():
            performer = self.appear()
            await self._live(self._present[performer], rng.uniform(0.1, LIFE_S_MAX))
            if not self.OVERLAPS or rng.random() < 0.6:
                self.vanish(performer)
            if rng.random() < 0.5:
                await asyncio.sleep(rng.uniform(0, GAP_S_MAX))
            self.stage.look_after_tasks()
        for performer in list(self._present):
            performer.is_leaving = True
            if rng.random() < 0.3:
                self.vanish(performer)

    def appear(self) -> Performer:
        self._names += 1
        performer = self._make_performer(
            self.stage, self.identity, f"{self.identity.transactional_id}-{self._names}"
        )
        performer.note("comes")
        self._present[performer] = self.stage.start(performer.name, performer.run())
        return performer

    def vanish(self, performer: Performer) -> None:
        task = self._present.pop(performer)
        if not task.done():
            performer.note("vanishes")
            task.cancel()
            if self.random.random() < 0.5:
                performer.hang_up()

    async def _live(self, task: asyncio.Task[None], seconds: float) -> None:
        until = self.stage.simulation.loop.time() + seconds
        while (
            self.stage.simulation.loop.time() < until and not task.done() and not self.stage.weather.is_over()
        ):
            await asyncio.sleep(LOOK_S)
