"""What befalls a node: power cuts at any instruction, kill -9, failing disks, lost connections, and clean restarts.

And whoever brings it up again afterwards, as an operator would: disks are mended sooner or later, and the node must
start on whatever it finds.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Sequence

from penstock.runtime.network import Listening
from penstock.testing.disk import WRITING
from penstock.testing.inspection import check_time_indexes
from penstock.testing.ledger import Ledger
from penstock.testing.producers import Weather
from penstock.testing.simulation import HOST, PORT, BrokenPromise, Crashed, End, Simulation

START_OFFSETS_MS = 500  # so often the node notes where logs start
LIFE_S_MAX = 2.5  # between two things that happen
DOWN_S = 0.2  # what was on the wire has arrived before the node is up again
CHANGES_MAX = 150
RARE_CHANGES: Sequence[str] = (".timeindex", ".snapshot", "leader-epoch", "recovery-point", ".deleted")
"""What happens seldom, and so hardly ever just before a power cut that comes at any time."""
RARE_CHANGES_MAX = 12  # between the one that was waited for and the power cut
SKEW_MS_MAX = 60_000  # what a clock may jump by in a restart
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
        """The disk answers with errors."""
        self._is_ailing = False
        """It did so in this life of the node, so that a directory may be offline until the next."""
        self._cluster_id: str | None = None
        self._last_end: End | None = None
        """How the last life ended; None where it had been disturbed."""
        self.on_end: list[Callable[[End], None]] = []
        """Told of every end of the node, after the ledger."""
        simulation.on_end = self._node_ended
        self.weather = Weather(is_over=lambda: self._is_over, is_disk_ailing=lambda: self._is_ailing)

    async def run(self) -> None:
        """Bring the node up, do to it what chance wants, and leave it in good health."""
        simulation, rng = self._simulation, self._random
        await self.bring_up()
        actions = [self._cut_power] * 3 + [self._cut_power_within] * 4 + [self._kill] * 2 + [self._stop] * 2
        actions += [self._cut_streams] * 3 + [self._break_disk] * 2
        while simulation.loop.time() < self._ends_at:
            await self._live(rng.uniform(0.05, self._life_s_max))
            if simulation.is_up:
                await rng.choice(actions)()
        await self._live(0.5)
        simulation.crash_after(1 << 60)
        self._heal()
        if self._is_ailing and simulation.is_up:
            await self._stop_if_it_can()
        if not simulation.is_up:
            await self.bring_up()
        self._is_over = True

    async def bring_up(self) -> None:
        """Start the node; it may die on the way, but has to come up in the end."""
        simulation, rng = self._simulation, self._random
        while True:
            await asyncio.sleep(DOWN_S)
            if self._has_fault and rng.random() < 0.6:
                self._heal()
            self._is_ailing = self._has_fault
            if rng.random() < 0.2:
                simulation.clock.skew_ms += rng.randint(-SKEW_MS_MAX, SKEW_MS_MAX)
            squatter = await self._squat() if rng.random() < 0.1 else None
            try:
                ready = await simulation.start(dies_after=rng.randint(0, 80) if rng.random() < 0.2 else None)
            except Crashed:
                continue
            except Exception as error:
                if squatter is not None and "cannot listen" in str(error):
                    continue
                if not self._has_fault:
                    raise BrokenPromise(f"the node does not start: {error}") from error
                self._heal()
                continue
            finally:
                if squatter is not None:
                    squatter.close()
            break
        simulation.crash_after(1 << 60)
        if self._last_end is End.STOPPED and any("was cut" in line for line in simulation.said):
            raise BrokenPromise(f"after a clean stop there was something to recover: {simulation.said}")
        self._settle()
        self._inspect()
        if self._cluster_id not in (None, ready.cluster_id):
            raise BrokenPromise(f"cluster {self._cluster_id} is now called {ready.cluster_id}")
        self._cluster_id = ready.cluster_id

    async def _squat(self) -> Listening:
        """Take the node's address, so that it can not start."""
        listening = await self._simulation.network.listen(HOST, PORT, lambda stream: None)
        listening.start()
        return listening

    # What happens to it

    async def _live(self, seconds: float) -> None:
        """Let time pass; if the node goes down meanwhile, bring it up again."""
        simulation = self._simulation
        until = simulation.loop.time() + seconds
        while (left := until - simulation.loop.time()) > 0:
            try:
                await asyncio.wait_for(simulation.wait_until_down(), left)
            except TimeoutError:
                return
            if simulation.is_up:
                if not self._is_ailing:
                    raise BrokenPromise(f"the node gave up: {simulation.node.ended.exception()}")
                self._heal()
                await self._stop_if_it_can()
            await self.bring_up()

    async def _cut_power(self) -> None:
        self._simulation.crash()
        await self.bring_up()

    async def _cut_power_within(self) -> None:
        """Somewhere between two of the next changes of the disk, or of those round a rare one."""
        rng = self._random
        if rng.random() < 0.5:
            self._simulation.crash_after(rng.randint(0, CHANGES_MAX))
        else:
            since = rng.choice(self._rare_changes)
            self._simulation.crash_after(rng.randint(0, RARE_CHANGES_MAX), since=since)

    async def _kill(self) -> None:
        self._simulation.crash(loses_power=False)
        await self.bring_up()
        if self._random.random() < 0.4:  # what one life left unsynced is the next one's to sync
            await asyncio.sleep(self._random.uniform(0, 0.2))
            if self._simulation.is_up:
                await self._cut_power()

    async def _stop(self) -> None:
        if self._random.random() < 0.3:
            self._simulation.crash_after(self._random.randint(0, CHANGES_MAX))
        await self._stop_if_it_can()
        await self.bring_up()

    async def _stop_if_it_can(self) -> None:
        with contextlib.suppress(Crashed):  # the power may go on the way down
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
        self._has_fault = self._is_ailing = True
        self._simulation.disk.fail(f"{directory}/", error, operations=operations, skip=rng.randint(0, 30))

    def _heal(self) -> None:
        if self._has_fault:
            self._simulation.trace.note("the disk is mended")
        self._has_fault = False
        self._simulation.disk.heal()

    # What it means for promises

    def _node_ended(self, end: End) -> None:
        now = self._simulation.loop.time()
        self._last_end = None if self._is_ailing else end
        if self._is_ailing:
            persisted_until = 0.0
        elif end is End.STOPPED:
            persisted_until = now + 1
        else:
            persisted_until = now - START_OFFSETS_MS / 1000 - self._simulation.settle_s
        self._ledger.node_ended(persisted_until=persisted_until, lost_power=end is End.LOST_POWER)
        for listener in self.on_end:
            listener(end)

    def _inspect(self) -> None:
        """See whether the node believes nothing that is not so."""
        for partition in self._simulation.node.partitions.all():
            if not partition.is_offline and not self._has_fault:
                check_time_indexes(self._simulation.disk, partition.log.folder)

    def _settle(self) -> None:
        """See where logs end that may have lost their end."""
        for (topic_id, index), ledger in self._ledger.partitions.items():
            partition = self._simulation.node.partitions.get_by_id(topic_id, index)
            if ledger.is_doubtful and partition is not None and not partition.is_offline:
                ledger.found_after_power_cut(partition.log.end_offset)
