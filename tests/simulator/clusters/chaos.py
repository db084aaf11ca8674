"""Injects faults into a cluster: kills, power cuts, pauses, partitions, one-way cuts, bad links, bad disks, clocks.

Each seed draws some kinds of faults, so that rare ones are not always hidden by frequent ones. Faults overlap. An
operator per node restarts it whenever it is down. In the end everything is repaired, and the cluster has to recover.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable
from enum import Enum

from simulator.cluster import SimulatedCluster, host_of
from simulator.clusters.inside import active_controller, is_fully_in_sync, partitions_of
from simulator.disk import WRITING
from simulator.network import CLIENT_HOST
from simulator.node import Crashed, SimulatedNode
from simulator.world import BrokenPromise

DOWN_S_MAX = 4.0
PAUSE_S_MAX = 6.0
CUT_S_MAX = 6.0
LIFE_S_MAX = 2.5  # between two faults
CHANGES_MAX = 150
SKEW_MS_MAX = 60_000
START_S_MAX = 120.0  # of a node, after the last fault
STOP_S_MAX = 60.0
SLOW_DISK_S = 0.3
FULL_DISK_BYTES_MAX = 20_000


class Power(Enum):
    """When machines lose power."""

    NEVER = "never"
    ONE_AT_A_TIME = "one at a time"
    """Only while all replicas are in sync, and no process dies until they are again: even without fsync nothing
    acknowledged may be lost. As in Kafka, a broker that was killed counts as one that has lost records (KIP-966). So if
    all in-sync replicas die before a controller notices, the one that really has lost records may be elected."""
    ALWAYS = "always"
    """Any machine at any time: only what was synced before the acknowledgement is safe."""


class ClusterChaos:
    def __init__(
        self, cluster: SimulatedCluster, *, seconds: float, power: Power, log_dirs: tuple[str, ...]
    ) -> None:
        self._cluster = cluster
        self._random = cluster.generator("chaos")
        self._ends_at = seconds
        self._power = power
        self._log_dirs = log_dirs
        self._is_over = False
        self._operators: dict[int, asyncio.Task[None]] = {}
        self._faults: dict[asyncio.Task[None], str] = {}
        self._is_recovering = False
        """Since the last power cut, not all replicas have been in sync."""
        self._broken_disks: set[int] = set()
        """Nodes whose disk returns errors, or did so in the present life."""
        self._normal_delay_s = next(iter(cluster.nodes.values())).worker_delay_s_max
        self.counts: dict[str, int] = {}
        kinds: list[Callable[[int], Awaitable[None]]] = [
            self._kill, self._stop, self._pause, self._isolate, self._cut_one_way, self._slow_links,
            self._lose_connections, self._cut_streams, self._slow_disk, self._break_disk, self._fill_disk, self._skew,
        ]  # fmt: skip
        self._kinds = self._random.sample(kinds, self._random.randint(3, len(kinds)))
        if power is not Power.NEVER:
            self._kinds += [self._cut_power] * 2
        if power is Power.ALWAYS:
            self._kinds.append(self._cut_power_within)

    def is_over(self) -> bool:
        return self._is_over

    async def run(self) -> None:
        """Start the nodes, inject faults, and leave all nodes serving."""
        cluster, rng = self._cluster, self._random
        self.start_operators()
        while cluster.loop.time() < self._ends_at:
            await self._sleep(rng.uniform(0.05, LIFE_S_MAX))
            candidates = [node_id for node_id in cluster.nodes if cluster.nodes[node_id].is_up]
            if candidates:
                fault = rng.choice(self._kinds)
                self._begin(fault, self._choose_target(candidates))
        await self.repair_everything()
        self._is_over = True

    def start_operators(self) -> None:
        for node_id in self._cluster.nodes:
            self.operate(node_id)

    def operate(self, node_id: int) -> None:
        """Keep this node running from now on."""
        self._operators[node_id] = asyncio.ensure_future(self._operate(node_id))

    async def retire(self, node_id: int) -> None:
        """Stop this node for good."""
        self._operators.pop(node_id).cancel()
        await self._cluster.nodes[node_id].stop()
        self._cluster.remove_node(node_id)

    async def repair_everything(self) -> None:
        """End all faults, and wait until all nodes serve."""
        for task, name in list(self._faults.items()):
            if name != "stop":  # a node that is stopping has to stop
                task.cancel()
        self._cluster.heal()
        for node_id, node in self._cluster.nodes.items():
            node.resume_if_paused()
            node.worker_delay_s_max = self._normal_delay_s
            if node.is_up:
                node.crash_after(1 << 60)
            if node_id in self._broken_disks:
                self._repair_disk(node_id)
                if node.is_up:
                    node.crash(loses_power=False)
        if self._faults:
            await asyncio.wait(self._faults)
        until = self._cluster.loop.time() + START_S_MAX
        while not all(node.is_serving for node in self._cluster.nodes.values()):
            if self._cluster.loop.time() > until:
                down = [node_id for node_id, node in self._cluster.nodes.items() if not node.is_serving]
                raise BrokenPromise(f"nodes {down} did not start within {START_S_MAX} s after the last fault")
            await self._sleep(0.1)

    def _choose_target(self, candidates: list[int]) -> int:
        """Any node, but often the active controller or the leader of some partition."""
        rng = self._random
        if rng.random() < 0.3 and (controller_id := active_controller(self._cluster)) in candidates:
            assert controller_id is not None, "it is a candidate"
            return controller_id
        leaders = [
            node_id
            for node_id in candidates
            if self._cluster.nodes[node_id].is_serving
            and "broker" in self._cluster.roles[node_id]
            and any(partition.is_leader for partition in partitions_of(self._cluster.nodes[node_id]))
        ]
        return rng.choice(leaders if leaders and rng.random() < 0.5 else candidates)

    def _begin(self, fault: Callable[[int], Awaitable[None]], node_id: int) -> None:
        name = fault.__name__.lstrip("_")
        self.counts[name] = self.counts.get(name, 0) + 1
        task = asyncio.ensure_future(fault(node_id))
        self._faults[task] = name
        task.add_done_callback(self._faults.pop)
        task.add_done_callback(self._check_fault)

    def _check_fault(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._cluster.failures.append(f"a fault could not be injected: {error!r}")

    async def _sleep(self, seconds: float) -> None:
        """Let time pass. Raises what an operator found."""
        await asyncio.sleep(seconds)
        for operator in self._operators.values():
            if operator.done():
                operator.result()

    # The operator of one node

    async def _operate(self, node_id: int) -> None:
        """Start the node whenever it is down."""
        node, rng = self._cluster.nodes[node_id], self._random
        down_s_max = 0.1  # all nodes of a new cluster start at about the same time
        while True:
            await asyncio.sleep(rng.uniform(0, down_s_max))
            down_s_max = 0.5 if self._is_over else DOWN_S_MAX
            if rng.random() < 0.6:
                self._repair_disk(node_id)
            dies_after = rng.randint(0, 80) if self._power is Power.ALWAYS and rng.random() < 0.1 else None
            try:
                await node.start(dies_after=dies_after if self._cluster.loop.time() < self._ends_at else None)
            except Crashed:
                continue
            except Exception as error:
                if node_id not in self._broken_disks:
                    raise BrokenPromise(f"node {node_id} cannot start: {error}") from error
                self._repair_disk(node_id)
                continue
            node.crash_after(1 << 60)
            await node.wait_until_down()
            if node.is_up and (failure := node.failure) is not None:
                if node_id not in self._broken_disks:
                    raise BrokenPromise(f"node {node_id} ended itself: {failure}")
                node.crash(loses_power=False)
            await node.wait_until_dead()  # it may still be stopping

    # Faults of nodes

    async def _kill(self, node_id: int) -> None:
        if self._may_die():
            self._cluster.nodes[node_id].crash(loses_power=False)

    async def _cut_power(self, node_id: int) -> None:
        is_safe = len(self._cluster.broker_ids) > 1 and is_fully_in_sync(self._cluster)
        if self._power is Power.ALWAYS or (is_safe and not self._broken_disks):
            self._is_recovering = True
            self._cluster.nodes[node_id].crash()

    def _may_die(self) -> bool:
        """Whether another process may die."""
        if self._is_recovering and is_fully_in_sync(self._cluster):
            self._is_recovering = False
        return not self._is_recovering or self._power is Power.ALWAYS

    async def _cut_power_within(self, node_id: int) -> None:
        """Cut the power between two of the next changes of the disk."""
        self._cluster.nodes[node_id].crash_after(self._random.randint(0, CHANGES_MAX))

    async def _stop(self, node_id: int) -> None:
        node = self._cluster.nodes[node_id]
        if not node.is_serving or node.is_paused:
            return
        with contextlib.suppress(Crashed):
            try:
                async with asyncio.timeout(STOP_S_MAX + PAUSE_S_MAX):
                    await node.stop()
            except TimeoutError:
                raise BrokenPromise(f"node {node_id} did not stop within {STOP_S_MAX} s") from None

    async def _pause(self, node_id: int) -> None:
        node = self._cluster.nodes[node_id]
        if not node.is_paused:
            life = node.lives
            node.pause()
            await asyncio.sleep(self._random.uniform(0.1, PAUSE_S_MAX))
            if node.lives == life:
                node.resume_if_paused()

    async def _skew(self, node_id: int) -> None:
        clock = self._cluster.nodes[node_id].clock
        skew_ms = clock.skew_ms + self._random.randint(-SKEW_MS_MAX, SKEW_MS_MAX)
        clock.skew_ms = max(-SKEW_MS_MAX, min(SKEW_MS_MAX, skew_ms))

    # Faults of links

    async def _isolate(self, node_id: int) -> None:
        """Separate one node, or two groups. Clients stay with one side, or reach both."""
        rng, nodes = self._random, list(self._cluster.nodes)
        group = {node_id}
        if len(nodes) > 3 and rng.random() < 0.3:
            group |= set(rng.sample(nodes, rng.randint(1, len(nodes) // 2)))
        others = set(nodes) - group
        clients_with = rng.choice((None, group, others))
        self._cluster.partition(group, others, clients_with=clients_with)
        await self._heal_later()

    async def _cut_one_way(self, node_id: int) -> None:
        rng = self._random
        others = [other for other in self._cluster.nodes if other != node_id]
        if not others or rng.random() < 0.3:
            hosts = rng.sample((host_of(node_id), CLIENT_HOST), 2)
            self._cluster.network.links.cut(*hosts)
        else:
            for other in rng.sample(others, rng.randint(1, len(others))):
                pair = (node_id, other) if rng.random() < 0.5 else (other, node_id)
                self._cluster.cut(*pair)
        await self._heal_later()

    async def _slow_links(self, node_id: int) -> None:
        for source, destination in self._links_of(node_id):
            link = self._cluster.network.links.own(source, destination)
            link.delay_s_max = self._random.choice((0.05, 0.3, 1.5))
        await self._heal_later()

    async def _lose_connections(self, node_id: int) -> None:
        for source, destination in self._links_of(node_id):
            self._cluster.network.links.own(source, destination).reset_chance = 0.1
        await self._heal_later()

    async def _cut_streams(self, node_id: int) -> None:
        host = host_of(node_id)
        streams = [each for each in self._cluster.network.streams if host in (each.host, each.other.host)]
        for stream in self._random.sample(streams, self._random.randint(0, len(streams))):
            stream.cut()

    def _links_of(self, node_id: int) -> list[tuple[str, str]]:
        others = [host_of(other) for other in self._cluster.nodes if other != node_id] + [CLIENT_HOST]
        host = host_of(node_id)
        return [pair for other in others for pair in ((host, other), (other, host))]

    async def _heal_later(self) -> None:
        await asyncio.sleep(self._random.uniform(0.1, CUT_S_MAX))
        self._cluster.heal()

    # Faults of disks

    async def _slow_disk(self, node_id: int) -> None:
        node = self._cluster.nodes[node_id]
        node.worker_delay_s_max = SLOW_DISK_S
        await asyncio.sleep(self._random.uniform(0.1, CUT_S_MAX))
        node.worker_delay_s_max = self._normal_delay_s

    async def _break_disk(self, node_id: int) -> None:
        if not self._may_die():
            return
        rng, node = self._random, self._cluster.nodes[node_id]
        directory = rng.choice(self._log_dirs)
        error = rng.choice((errno.EIO, errno.EROFS))
        operations = rng.choice((frozenset({"append"}), frozenset({"sync"}), frozenset({"read"}), WRITING))
        self._cluster.trace.note(
            f"node {node_id}: {directory} fails with {errno.errorcode[error]}: {sorted(operations)}"
        )
        self._broken_disks.add(node_id)
        node.disk.fail(f"{directory}/", error, operations=operations, skip=rng.randint(0, 30))
        await self._repair_later(node)

    async def _fill_disk(self, node_id: int) -> None:
        if not self._may_die():
            return
        node = self._cluster.nodes[node_id]
        room = self._random.randint(0, FULL_DISK_BYTES_MAX)
        self._cluster.trace.note(f"node {node_id}: the disk is full after {room} bytes")
        self._broken_disks.add(node_id)
        node.disk.capacity_bytes = node.disk.used_bytes() + room
        await self._repair_later(node)

    async def _repair_later(self, node: SimulatedNode) -> None:
        """An operator sees the failure after a while, and restarts the node on a repaired disk."""
        await asyncio.sleep(self._random.uniform(0.5, CUT_S_MAX))
        while not self._may_die():
            await asyncio.sleep(0.5)
        if node.is_up:
            node.crash(loses_power=False)

    def _repair_disk(self, node_id: int) -> None:
        if node_id in self._broken_disks:
            node = self._cluster.nodes[node_id]
            self._cluster.trace.note(f"node {node_id}: the disk is repaired")
            self._broken_disks.discard(node_id)
            node.disk.heal()
            node.disk.capacity_bytes = None
