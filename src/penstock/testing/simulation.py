"""A whole node in one thread, from one seed: virtual time, a network in memory, a disk that loses what was not synced.

    simulation = Simulation(seed=7, settings={"log.dirs": "/a,/b"})
    simulation.run(scenario)        # an async function of the simulation

The node is the real one (`penstock.node.node.Node`); only its `Runtime` is simulated. It can be stopped as an
operator does it (`stop`), killed (`crash(loses_power=False)`: the disk keeps all that was written), or lose power
at any moment, also in the middle of a call that writes several files (`crash_after`). Everything that chance
decides is drawn from the seed, one generator for each concern, so that a change in one does not reshuffle
the others. `trace.fingerprint()` is the same for every run of a seed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum, auto
from typing import Any, TypeVar

from penstock.client.connection import ClientConnection
from penstock.config.broker import BrokerSettings
from penstock.node.node import Node, Ready
from penstock.runtime import Runtime
from penstock.testing.disk import SimulatedDisk
from penstock.testing.loop import VirtualClock, VirtualLoop, run_virtual
from penstock.testing.mount import Mount
from penstock.testing.network import SimulatedNetwork
from penstock.testing.process import Died, Process
from penstock.testing.trace import Trace
from penstock.testing.workers import STALL_FACTOR, SimulatedWorkers

T = TypeVar("T")

HOST, PORT = "127.0.0.1", 9092


class Crashed(Exception):
    """The node died before it had done what was asked of it."""


class BrokenPromise(AssertionError):
    """The node did something that it must never do."""


class End(Enum):
    """How a life of the node ended."""

    STOPPED = auto()
    KILLED = auto()
    LOST_POWER = auto()


class Simulation:
    def __init__(self, seed: int, *, settings: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        self.properties = {"listeners": f"PLAINTEXT://{HOST}:{PORT}", "log.dirs": "/data", **(settings or {})}
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.trace = Trace(self.loop.time)
        self.random = self.generator("scenario")
        """For scenarios; the parts have generators of their own."""
        self.disk = SimulatedDisk(now_ms=self.clock.wall_ms)
        self.disk.eviction = self.generator("page cache")
        self.disk.on_cold_read = self._read_cold
        self.network = SimulatedNetwork(self.generator("network"), note=self.trace.note)
        self.worker_delay_s_max = 0.02
        self.node: Node
        self.lives = 0
        self.on_end: Callable[[End], None] | None = None
        """Told at once how the node ended, each time."""
        self.mishaps: list[str] = []
        """What the node itself calls a bug, and what nobody waited for."""
        self.said: list[str] = []
        """What the node logged in this life."""
        self._crash_random = self.generator("crash")
        self._process: Process | None = None
        self._mount: Mount
        self._workers: SimulatedWorkers
        self._is_serving = False

    @property
    def stall_s_max(self) -> float:
        """So long a busy disk may keep one call waiting."""
        return STALL_FACTOR * self.worker_delay_s_max

    @property
    def settle_s(self) -> float:
        """After so long the node has done what it was about to do, even if its disk was busy."""
        return 0.5 + 2 * self.stall_s_max

    def generator(self, concern: str) -> random.Random:
        return random.Random(f"{self.seed}/{concern}")

    # Running

    def run(self, scenario: Callable[[Simulation], Coroutine[Any, Any, T]]) -> T:
        """Run a scenario to its end; whatever of the node is left then is dropped."""
        self.loop.set_exception_handler(self._unhandled)
        watch = _LogWatch(self)
        logger = logging.getLogger("penstock")
        level = logger.level
        logger.addHandler(watch)
        logger.setLevel(logging.INFO)
        try:
            return run_virtual(self.loop, self._run(scenario))
        finally:
            logger.removeHandler(watch)
            logger.setLevel(level)

    async def _run(self, scenario: Callable[[Simulation], Coroutine[Any, Any, T]]) -> T:
        try:
            result = await scenario(self)
        except BaseException as error:
            for mishap in self.mishaps:
                error.add_note(mishap)
            raise
        finally:
            self.on_end = None
            if self.is_up:
                self.crash(loses_power=False)
        gc.collect()  # tasks that failed unseen say so when they are collected
        if self.mishaps:
            raise BrokenPromise("\n".join(self.mishaps))
        return result

    # The node

    @property
    def is_up(self) -> bool:
        return self._process is not None

    async def start(self, *, dies_after: int | None = None) -> Ready:
        """Start the node on what the disk holds; Crashed if it dies on the way, or what it raises.

        `dies_after` is as for `crash_after`, from the first instruction on.
        """
        assert self._process is None, "the node runs already"
        self.lives += 1
        process = self._process = Process(f"life {self.lives}")
        self.said.clear()
        self.trace.note(f"{process.name} begins")
        self._mount = Mount(self.disk, process, note=self.trace.note, die=self.crash)
        self._mount.fuse = dies_after
        workers_random = self.generator(f"workers/{self.lives}")
        self._workers = SimulatedWorkers(workers_random, delay_s_max=self.worker_delay_s_max)
        runtime = Runtime(
            clock=self.clock,
            random=self.generator(f"node/{self.lives}"),
            disk=self._mount,
            network=self.network,
            workers=self._workers,
        )
        self.node = process.context.run(Node, BrokerSettings.load(self.properties), runtime)
        try:
            ready = await self._within(process, self.node.start())
        except Exception:
            if process.is_alive:
                self._end(process, End.STOPPED)
            raise
        self.trace.note(f"{process.name} serves")
        self._is_serving = True
        return ready

    async def stop(self) -> None:
        """Stop as SIGTERM does it; Crashed if the node dies on the way."""
        process = self._process
        assert process is not None, "the node does not run"
        self.trace.note(f"{process.name} is asked to stop")
        await self._within(process, self.node.stop())
        self._end(process, End.STOPPED)

    async def restart(self) -> Ready:
        if self.is_up:
            await self.stop()
        return await self.start()

    def crash(self, *, loses_power: bool = True) -> None:
        """The process is gone between two instructions; without power, so is what the disk had not synced."""
        process = self._process
        assert process is not None, "the node does not run"
        self._end(process, End.LOST_POWER if loses_power else End.KILLED)

    def crash_after(self, changes: int, *, since: str = "") -> None:
        """Lose power just before the disk is changed once more after `changes` changes, which are counted from the
        first whose description holds `since`.
        """
        self._mount.fuse = changes
        self._mount.fuse_lit_by = since

    async def wait_until_down(self) -> None:
        """Return when the node is dead, or has stopped serving for want of a disk to keep its metadata on."""
        if self._process is not None:
            await _first(self._process.death, self.node.ended)

    async def connect(self, client_id: str = "simulated") -> ClientConnection:
        return await ClientConnection.open(self.network, HOST, PORT, client_id=client_id)

    # Inside

    async def _within(self, process: Process, work: Coroutine[Any, Any, T]) -> T:
        """Do something as the process, which may die meanwhile."""
        task = self.loop.create_task(work, context=process.context)
        await _first(task, process.death)
        if not process.is_alive:
            raise Crashed
        return task.result()

    def _end(self, process: Process, end: End) -> None:
        self.trace.note(f"{process.name} ends: {end.name.lower()}")
        self._is_serving = False
        self._process = None
        process.die()
        self.loop.bury(process)
        self.network.died(process)
        if end is End.LOST_POWER:
            self.disk.crash(self._crash_random)
        else:
            self.disk.kill()
        if self.on_end is not None:
            self.on_end(end)

    def _read_cold(self, path: str) -> None:
        """A read has to wait for the disk. While the node serves, only workers may wait."""
        if self._is_serving and not self._workers.is_working:
            self.mishaps.append(f"the event loop waited for the disk to read {path}")

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Died):
            self.mishaps.append(f"{context['message']}: {error!r}")


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Return when any of them is done, whatever became of it."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(_: asyncio.Future[Any]) -> None:
        if not done.done():
            done.set_result(None)

    for future in futures:
        future.add_done_callback(note)
    await done


class _LogWatch(logging.Handler):
    """Puts what the node says into the trace, and takes its word for it where it says that it has a bug."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.INFO)
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        self._simulation.trace.note(f"{record.levelname}: {message}")
        self._simulation.said.append(message)
        if "this is a bug" in message:
            error = record.exc_info[1] if record.exc_info else None
            self._simulation.mishaps.append(f"{message}: {error!r}")
