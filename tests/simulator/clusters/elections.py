"""Elections of the quorum under the worst faults: three controllers, cut links, and crashes right after a vote.

    run_election_seed(17)

There are no brokers, so a seed is short and sees many elections. Each epoch has at most one leader, and what one leader
committed no later leader lacks. Once the faults end, a leader is elected that stays.

A vote that is not on disk counts twice only if the voter dies after its response and before it learns who won, and
another candidate of the same epoch is still waiting. So links change every few hundred milliseconds, in half of the
seeds candidates wait for long, and nodes lose power right before the write that follows a vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from simulator.cluster import SimulatedCluster, host_of
from simulator.clusters.inside import active_controller, metadata_offset_of
from simulator.clusters.scenario import LINES_SHOWN
from simulator.clusters.watch import Watch
from simulator.node import Crashed, End
from simulator.world import BrokenPromise

CHAOS_S = 20.0
STEP_S_MAX = 0.9
DOWN_S_MAX = 0.1  # short, so that the node takes part in the same election again
CHANGES_OF_ONE_SAVE = 6  # of the disk, for one save of the quorum's state
SETTLE_S_MAX = 60.0
STABLE_S = 5.0
SETTINGS = {
    "metadata.max.idle.interval.ms": "200",  # the leader writes a record that often
    "controller.quorum.request.timeout.ms": "600",
    "controller.quorum.fetch.timeout.ms": "700",
}
PATIENT_ELECTION_MS, QUICK_ELECTION_MS = 1000, 200


def run_election_seed(seed: int, *, on_line: Callable[[str], None] | None = None) -> int:
    """Returns the number of epochs with a leader."""
    election_ms = PATIENT_ELECTION_MS if seed % 2 else QUICK_ELECTION_MS
    settings = {**SETTINGS, "controller.quorum.election.timeout.ms": str(election_ms)}
    cluster = SimulatedCluster(seed, roles=dict.fromkeys((1, 2, 3), "controller"), settings=settings)
    cluster.trace.on_line = on_line
    scenario = ElectionScenario(cluster)
    try:
        cluster.run(lambda _: scenario.run())
    except Exception as error:
        lines = list(cluster.trace.lines)[-LINES_SHOWN:]
        error.add_note("\n".join([f"election seed {seed}; the last events:", *lines]))
        raise
    return len(scenario.watch.quorum_leaders)


class ElectionScenario:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.watch = Watch(cluster)
        self._random = cluster.generator("elections")
        self._is_over = False
        for node in cluster.nodes.values():
            node.worker_delay_s_max = 0.005
            node.on_end = self._node_ended

    async def run(self) -> None:
        operators = [asyncio.ensure_future(self._operate(node_id)) for node_id in self.cluster.nodes]
        watching = asyncio.ensure_future(self.watch.run())
        tasks = [*operators, watching]
        try:
            while self.cluster.loop.time() < CHAOS_S:
                self._break_something()
                if self._random.random() < 0.3:
                    self._arm(self._random.choice(list(self.cluster.nodes)))
                await self._sleep(self._random.uniform(0.02, STEP_S_MAX), tasks)
            self._is_over = True
            self._heal()
            for node in self.cluster.all_nodes:
                node.resume_if_paused()
                if node.is_up:
                    node.crash_after(1 << 60)
            await self._settle(tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _operate(self, node_id: int) -> None:
        node, rng = self.cluster.nodes[node_id], self._random
        while True:
            await asyncio.sleep(rng.uniform(0, DOWN_S_MAX))
            try:
                await node.start()
            except Crashed:
                continue
            await node.wait_until_down()
            if node.is_up and (failure := node.failure) is not None:
                raise BrokenPromise(f"node {node_id} ended itself: {failure}")
            await node.wait_until_dead()

    def _break_something(self) -> None:
        cluster, rng = self.cluster, self._random
        node_id, other = rng.sample(list(cluster.nodes), 2)
        node = cluster.nodes[node_id]
        match rng.randrange(6):
            case 0:
                self._heal()
            case 1:
                cluster.cut(node_id, other)
            case 2 | 3:
                self._isolate(node_id)
            case 4 if node.is_up:
                node.crash(loses_power=rng.random() < 0.5)
            case 5 if node.is_up and not node.is_paused:
                node.pause()
                life = node.lives
                cluster.loop.call_later(rng.uniform(0, 2.0), lambda: self._resume(node_id, life))

    def _heal(self) -> None:
        """Heal the links, but leave them slow."""
        self.cluster.heal()
        for source in self.cluster.nodes:
            for destination in self.cluster.nodes:
                link = self.cluster.network.links.own(host_of(source), host_of(destination))
                link.delay_s_max = 0.005 if self._is_over else self._random.choice((0.005, 0.1))

    def _isolate(self, node_id: int) -> None:
        self._heal()
        self.cluster.partition({node_id}, {each for each in self.cluster.nodes if each != node_id})

    def _arm(self, node_id: int) -> None:
        """Let the node lose power between its next vote and the next save after it, most often right before that."""
        node = self.cluster.nodes[node_id]
        if node.is_serving:
            changes = self._random.choice(
                (CHANGES_OF_ONE_SAVE, CHANGES_OF_ONE_SAVE, self._random.randint(1, 12))
            )
            node.crash_after(changes, since="quorum-state")

    def _node_ended(self, end: End) -> None:
        """When a voter dies, another node often loses its links, so that the voter meets other candidates."""
        if not self._is_over and self._random.random() < 0.7:
            self._isolate(self._random.choice(list(self.cluster.nodes)))

    def _resume(self, node_id: int, life: int) -> None:
        node = self.cluster.nodes[node_id]
        if node.lives == life:
            node.resume_if_paused()

    async def _sleep(self, seconds: float, tasks: list[asyncio.Task[None]]) -> None:
        await asyncio.sleep(seconds)
        for task in tasks:
            if task.done():
                task.result()

    async def _settle(self, tasks: list[asyncio.Task[None]]) -> None:
        """A leader is elected and stays, and all nodes get what it commits."""
        until = self.cluster.loop.time() + SETTLE_S_MAX
        while active_controller(self.cluster) is None:
            if self.cluster.loop.time() > until:
                raise BrokenPromise(f"there is no leader {SETTLE_S_MAX} s after the last fault")
            await self._sleep(0.1, tasks)
        await self._sleep(STABLE_S, tasks)
        leader, epochs = active_controller(self.cluster), max(self.watch.quorum_leaders)
        before = max(metadata_offset_of(node) for node in self.cluster.all_nodes if node.is_serving)
        await self._sleep(STABLE_S, tasks)
        if active_controller(self.cluster) != leader or max(self.watch.quorum_leaders) != epochs:
            raise BrokenPromise(f"the leader {leader} of epoch {epochs} did not stay, without a fault")
        for node in self.cluster.all_nodes:
            if not node.is_serving or metadata_offset_of(node) < before:
                raise BrokenPromise(
                    f"{node.name} does not follow: {metadata_offset_of(node)} is before {before}"
                )
        self.watch.look()
        self.watch.logs.check()
