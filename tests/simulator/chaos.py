"""Injects faults into a node: power cuts at any instruction, kill -9, failing disks, lost connections, clean restarts.

It also restarts the node, as an operator would. Disks are repaired sooner or later, and the node must start on any
data that it finds.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Sequence

from penstock.runtime.network import Listening
from simulator.checks.inspection import check_time_indexes
from simulator.checks.ledger import Ledger
from simulator.clients.producers import Conditions
from simulator.disk import WRITING
from simulator.simulation import HOST, PORT, BrokenPromise, Crashed, End, Simulation

START_OFFSETS_MS = 500  # how often the node writes log start offsets to disk
LIFE_S_MAX = 2.5  # between two faults
DOWN_S = 0.2  # so that data in flight arrives before the node restarts
CHANGES_MAX = 150
RARE_CHANGES: Sequence[str] = (".timeindex", ".snapshot", "leader-epoch", "recovery-point", ".deleted")
"""Rare changes of the disk, which power cuts at random times hardly ever hit."""
RARE_CHANGES_MAX = 12  # between the rare change and the power cut
SKEW_MS_MAX = 60_000  # how far the clock may jump in a restart
FAULTY_OPERATIONS: Sequence[frozenset[str]] = (
    frozenset({"append"}),
    frozenset({"sync"}),
    frozenset({"create", "make_directory"}),
    frozenset({"rename"}),
    frozenset({"sync_directory"}),
    frozenset({"read"}),
    WRITING,
)


class Chaos:
    def __init__(
        self,
        simulation: Simulation,
        ledger: Ledger,
        *,
        log_dirs: Sequence[str],
        seconds: float,
        life_s_max: float = LIFE_S_MAX,
        rare_changes: Sequence[str] = RARE_CHANGES,
    ) -> None:
        self._simulation = simulation
        self._random = simulation.generator("chaos")
        self._ledger = ledger
        self._log_dirs = log_dirs
        self._ends_at = seconds
        self._life_s_max = life_s_max
        self._rare_changes = rare_changes
        self._is_over = False
        self._has_fault = False
        """The disk returns errors."""
        self._is_degraded = False
        """It has returned errors since the node started, so a directory may be offline until the next start."""
        self._cluster_id: str | None = None
        self._last_end: End | None = None
        """How the last run of the node ended; None if its disk failed."""
        self.on_end: list[Callable[[End], None]] = []
        """Called at every end of the node, after the ledger."""
        simulation.on_end = self._node_ended
        self.conditions = Conditions(
            is_over=lambda: self._is_over, is_disk_degraded=lambda: self._is_degraded
        )

    async def run(self) -> None:
        """Start the node, inject random faults, and leave the node healthy."""
        simulation, rng = self._simulation, self._random
        await self.bring_up()
        actions = [self._cut_power] * 3 + [self._cut_power_within] * 4 + [self._kill] * 2 + [self._stop] * 2
        actions += [self._cut_streams] * 3 + [self._break_disk] * 2
        while simulation.loop.time() < self._ends_at:
            await self._wait(rng.uniform(0.05, self._life_s_max))
            if simulation.is_up:
                await rng.choice(actions)()
        await self._wait(0.5)
        simulation.crash_after(1 << 60)
        self._repair_disk()
        if self._is_degraded and simulation.is_up:
            await self._stop_unless_crashed()
        if not simulation.is_up:
            await self.bring_up()
        self._is_over = True

    async def bring_up(self) -> None:
        """Start the node. It may die while starting, but has to start in the end."""
        simulation, rng = self._simulation, self._random
        while True:
            await asyncio.sleep(DOWN_S)
            if self._has_fault and rng.random() < 0.6:
                self._repair_disk()
            self._is_degraded = self._has_fault
            if rng.random() < 0.2:
                simulation.clock.skew_ms += rng.randint(-SKEW_MS_MAX, SKEW_MS_MAX)
            other_listener = await self._occupy_address() if rng.random() < 0.1 else None
            try:
                ready = await simulation.start(dies_after=rng.randint(0, 80) if rng.random() < 0.2 else None)
            except Crashed:
                continue
            except Exception as error:
                if other_listener is not None and "cannot listen" in str(error):
                    continue
                if not self._has_fault:
                    raise BrokenPromise(f"the node cannot start: {error}") from error
                self._repair_disk()
                continue
            finally:
                if other_listener is not None:
                    other_listener.close()
            break
        simulation.crash_after(1 << 60)
        if self._last_end is End.STOPPED and any("was cut" in line for line in simulation.log_lines):
            raise BrokenPromise(f"the node had to recover after a clean stop: {simulation.log_lines}")
        self._settle()
        self._inspect()
        if self._cluster_id not in (None, ready.cluster_id):
            raise BrokenPromise(f"the id of cluster {self._cluster_id} changed to {ready.cluster_id}")
        self._cluster_id = ready.cluster_id

    async def _occupy_address(self) -> Listening:
        """Occupy the node's address, so that it cannot start."""
        listening = await self._simulation.network.listen(HOST, PORT, lambda stream: None)
        listening.start()
        return listening

    # Faults

    async def _wait(self, seconds: float) -> None:
        """Let time pass. If the node goes down meanwhile, restart it."""
        simulation = self._simulation
        until = simulation.loop.time() + seconds
        while (left := until - simulation.loop.time()) > 0:
            try:
                await asyncio.wait_for(simulation.wait_until_down(), left)
            except TimeoutError:
                return
            if simulation.is_up:
                if not self._is_degraded:
                    raise BrokenPromise(f"the node ended itself: {simulation.node.ended.exception()}")
                self._repair_disk()
                await self._stop_unless_crashed()
            await self.bring_up()

    async def _cut_power(self) -> None:
        self._simulation.crash()
        await self.bring_up()

    async def _cut_power_within(self) -> None:
        """Cut the power between two of the next disk changes, or near a rare one."""
        rng = self._random
        if rng.random() < 0.5:
            self._simulation.crash_after(rng.randint(0, CHANGES_MAX))
        else:
            since = rng.choice(self._rare_changes)
            self._simulation.crash_after(rng.randint(0, RARE_CHANGES_MAX), since=since)

    async def _kill(self) -> None:
        self._simulation.crash(loses_power=False)
        await self.bring_up()
        if self._random.random() < 0.4:  # the next run has to sync what this one left unsynced
            await asyncio.sleep(self._random.uniform(0, 0.2))
            if self._simulation.is_up:
                await self._cut_power()

    async def _stop(self) -> None:
        if self._random.random() < 0.3:
            self._simulation.crash_after(self._random.randint(0, CHANGES_MAX))
        await self._stop_unless_crashed()
        await self.bring_up()

    async def _stop_unless_crashed(self) -> None:
        with contextlib.suppress(Crashed):  # the power cut may come during the stop
            await self._simulation.stop()

    async def _cut_streams(self) -> None:
        streams = [stream for stream in self._simulation.network.streams if stream.process is None]
        for stream in self._random.sample(streams, self._random.randint(0, len(streams))):
            stream.cut()

    async def _break_disk(self) -> None:
        rng = self._random
        directory = rng.choice(list(self._log_dirs))
        error = rng.choice((errno.EIO, errno.ENOSPC, errno.EROFS))
        operations = rng.choice(FAULTY_OPERATIONS)
        self._simulation.trace.note(f"{directory} fails with {errno.errorcode[error]}: {sorted(operations)}")
        self._has_fault = self._is_degraded = True
        self._simulation.disk.fail(f"{directory}/", error, operations=operations, skip=rng.randint(0, 30))

    def _repair_disk(self) -> None:
        if self._has_fault:
            self._simulation.trace.note("the disk is repaired")
        self._has_fault = False
        self._simulation.disk.heal()

    # What faults do to promises

    def _node_ended(self, end: End) -> None:
        now = self._simulation.loop.time()
        self._last_end = None if self._is_degraded else end
        if self._is_degraded:
            persisted_until = 0.0
        elif end is End.STOPPED:
            persisted_until = now + 1
        else:
            persisted_until = now - START_OFFSETS_MS / 1000 - self._simulation.settle_s
        self._ledger.node_ended(persisted_until=persisted_until, lost_power=end is End.LOST_POWER)
        for listener in self.on_end:
            listener(end)

    def _inspect(self) -> None:
        """Check that the node relies on no damaged index."""
        for partition in self._simulation.node.partitions.all():
            if not partition.is_offline and not self._has_fault:
                check_time_indexes(self._simulation.disk, partition.log.folder)

    def _settle(self) -> None:
        """Find the new end of logs that may have lost records."""
        for (topic_id, index), ledger in self._ledger.partitions.items():
            partition = self._simulation.node.partitions.get_by_id(topic_id, index)
            if ledger.is_doubtful and partition is not None and not partition.is_offline:
                ledger.found_after_power_cut(partition.log.end_offset)
