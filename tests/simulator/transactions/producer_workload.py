"""The workload of one transactional id: producer instances start, crash at any moment, and are followed by others.

Some successors start while the old instance still runs. In the end the remaining ones finish their transactions, or
crash and leave them to the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from simulator.transactions.identity import Identity
from simulator.transactions.instance import ProducerInstance
from simulator.transactions.shared import SharedState

LIFE_S_MAX = 3.0
GAP_S_MAX = 0.5
LOOK_S = 0.05

MakeInstance = Callable[[SharedState, Identity, str], ProducerInstance]
"""Makes an instance with this name."""


class ProducerWorkload:
    OVERLAPS = True
    """Whether an instance may start while the previous one still runs."""

    def __init__(self, shared: SharedState, transactional_id: str, make_instance: MakeInstance) -> None:
        self.shared = shared
        self.identity = Identity(transactional_id)
        self.random = shared.simulation.generator(f"actor/{transactional_id}")
        self._make_instance = make_instance
        self._names = 0
        self._instances: dict[ProducerInstance, asyncio.Task[None]] = {}

    async def run(self) -> None:
        rng, conditions = self.random, self.shared.conditions
        while not conditions.is_over():
            instance = self.start_instance()
            await self._wait(self._instances[instance], rng.uniform(0.1, LIFE_S_MAX))
            if not self.OVERLAPS or rng.random() < 0.6:
                self.crash_instance(instance)
            if rng.random() < 0.5:
                await asyncio.sleep(rng.uniform(0, GAP_S_MAX))
            self.shared.raise_task_errors()
        for instance in list(self._instances):
            instance.is_leaving = True
            if rng.random() < 0.3:
                self.crash_instance(instance)

    def start_instance(self) -> ProducerInstance:
        self._names += 1
        instance = self._make_instance(
            self.shared, self.identity, f"{self.identity.transactional_id}-{self._names}"
        )
        instance.note("starts")
        self._instances[instance] = self.shared.start(instance.name, instance.run())
        return instance

    def crash_instance(self, instance: ProducerInstance) -> None:
        task = self._instances.pop(instance)
        if not task.done():
            instance.note("crashes")
            task.cancel()
            if self.random.random() < 0.5:
                instance.disconnect()

    async def _wait(self, task: asyncio.Task[None], seconds: float) -> None:
        until = self.shared.simulation.loop.time() + seconds
        while (
            self.shared.simulation.loop.time() < until
            and not task.done()
            and not self.shared.conditions.is_over()
        ):
            await asyncio.sleep(LOOK_S)
