"""One simulated machine with one node: a disk, a clock, worker threads, and the lives of a process.

The node is the real one (`penstock.node.node.Node`); only its `Runtime` is simulated. It can be stopped cleanly
(`stop`), killed (`crash(loses_power=False)`: the disk keeps everything that was written), or lose power at any moment,
also within a call that writes several files (`crash_after`). `pause` and `resume` are SIGSTOP and SIGCONT.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Mapping
from enum import Enum, auto
from typing import Any, TypeVar

from penstock.config.broker import BrokerSettings
from penstock.node.node import Node, Ready
from penstock.runtime import Runtime
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualClock, VirtualLoop
from simulator.mount import Mount
from simulator.network import SimulatedNetwork
from simulator.process import Process, describe_frames
from simulator.trace import Trace
from simulator.workers import DELAY_S_MAX, STALL_FACTOR, SimulatedWorkers

T = TypeVar("T")


class Crashed(Exception):
    """The node died before it finished the call."""


class End(Enum):
    """How a run of the node ended."""

    STOPPED = auto()
    KILLED = auto()
    LOST_POWER = auto()


class SimulatedNode:
    def __init__(
        self,
        name: str,
        *,
        host: str,
        properties: Mapping[str, str],
        loop: VirtualLoop,
        network: SimulatedNetwork,
        trace: Trace,
        generator: Callable[[str], random.Random],
        failures: list[str],
    ) -> None:
        self.name = name
        """Empty for the only node of a simulation."""
        self.host = host
        self.properties = dict(properties)
        self.clock = VirtualClock(loop)
        self.disk = SimulatedDisk(now_ms=self.clock.wall_ms)
        self.disk.eviction = generator("page cache")
        self.disk.on_cold_read = self._read_cold
        self._worker_delay_s_max = DELAY_S_MAX
        self.node: Node
        self.lives = 0
        self.on_end: Callable[[End], None] | None = None
        """Called at once at every end of the node."""
        self.log_lines: list[str] = []
        """The log lines of the current run."""
        self.is_silent_without_power = False
        """Whether connections to a machine without power just hang. Otherwise its peers see them end."""
        self._label = f"{name}: " if name else ""
        self._loop = loop
        self._network = network
        self._trace = trace
        self._generator = generator
        self._failures = failures
        self._crash_random = generator("crash")
        self._process: Process | None = None
        self._mount: Mount
        self._workers: SimulatedWorkers | None = None
        self._is_serving = False

    @property
    def is_up(self) -> bool:
        """Whether its process exists: it may be starting, serving, paused or stopping."""
        return self._process is not None

    @property
    def is_serving(self) -> bool:
        """Whether it has started and is neither stopped nor dead."""
        return self._is_serving

    @property
    def is_paused(self) -> bool:
        return self._process is not None and self._process.is_paused

    def owns(self, process: Process) -> bool:
        return process is self._process

    @property
    def worker_delay_s_max(self) -> float:
        """How long the disk takes for one call, unless it stalls."""
        return self._worker_delay_s_max

    @worker_delay_s_max.setter
    def worker_delay_s_max(self, seconds: float) -> None:
        self._worker_delay_s_max = seconds
        if self._workers is not None:
            self._workers.delay_s_max = seconds

    @property
    def stall_s_max(self) -> float:
        """How long a busy disk may delay one call."""
        return STALL_FACTOR * self.worker_delay_s_max

    async def start(self, *, dies_after: int | None = None) -> Ready:
        """Start the node on the present disk. Raises Crashed if it dies while starting, else what the node raises.

        `dies_after` works like `crash_after`, from the first instruction on.
        """
        assert self._process is None, "the node is already running"
        self.lives += 1
        process = self._process = Process(
            f"{self._label}life {self.lives}", host=self.host, label=self._label
        )
        self.log_lines.clear()
        self._trace.note(f"{process.name} begins")
        self._network.powered_on(self.host)
        self._mount = Mount(
            self.disk, process, note=lambda event: self._trace.note(f"{self._label}{event}"), die=self.crash
        )
        self._mount.changes_left = dies_after
        workers_random = self._generator(f"workers/{self.lives}")
        self._workers = SimulatedWorkers(workers_random, delay_s_max=self._worker_delay_s_max)
        runtime = Runtime(
            clock=self.clock,
            random=self._generator(f"node/{self.lives}"),
            disk=self._mount,
            network=self._network,
            workers=self._workers,
        )
        self.node = process.context.run(Node, BrokerSettings.load(self.properties), runtime)
        try:
            ready = await self._within(process, self.node.start())
        except Exception:
            if process.is_alive:
                self._end(process, End.STOPPED)
            raise
        self._trace.note(f"{process.name} serves")
        self._is_serving = True
        return ready

    async def stop(self) -> None:
        """Stop as SIGTERM does. Raises Crashed if the node dies while stopping."""
        process = self._process
        assert process is not None, "the node is not running"
        self._trace.note(f"{process.name} is asked to stop")
        await self._within(process, self.node.stop())
        self._end(process, End.STOPPED)

    async def restart(self) -> Ready:
        if self.is_up:
            await self.stop()
        return await self.start()

    def crash(self, *, loses_power: bool = True) -> None:
        """Kill the process between two instructions. With `loses_power`, unsynced data is lost."""
        process = self._process
        assert process is not None, "the node is not running"
        self._end(process, End.LOST_POWER if loses_power else End.KILLED)

    def crash_after(self, changes: int, *, since: str = "") -> None:
        """Lose power after `changes` more changes of the disk, counted from the first whose description contains
        `since`.
        """
        self._mount.changes_left = changes
        self._mount.countdown_trigger = since

    def pause(self) -> None:
        """SIGSTOP: nothing of the process runs; its connections stay open, and the kernel keeps receiving."""
        assert self._process is not None, "the node is not running"
        self._trace.note(f"{self._process.name} pauses")
        self._loop.pause_process(self._process)

    def resume(self) -> None:
        """SIGCONT: everything that became due meanwhile runs now."""
        assert self._process is not None, "the node is not running"
        self._trace.note(f"{self._process.name} continues")
        self._loop.resume_process(self._process)

    def resume_if_paused(self) -> None:
        if self.is_paused:
            self.resume()

    async def wait_until_down(self) -> None:
        """Return when the node is dead, or has stopped because its metadata log failed."""
        if self._process is not None:
            await _first(self._process.death, self.node.ended)

    async def wait_until_dead(self) -> None:
        """Return when the process has ended."""
        if self._process is not None:
            await _first(self._process.death)

    @property
    def failure(self) -> BaseException | None:
        """Why the running node has ended itself; None if it has not."""
        ended = self.node.ended
        return ended.exception() if ended.done() and not ended.cancelled() else None

    # Internals

    async def _within(self, process: Process, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine as the process, which may die meanwhile."""
        task = self._loop.create_task(work, context=process.context)
        await _first(task, process.death)
        if not process.is_alive:
            raise Crashed
        return task.result()

    def _end(self, process: Process, end: End) -> None:
        self._trace.note(f"{process.name} ends: {end.name.lower()}")
        self._is_serving = False
        self._process = None
        process.die()
        self._loop.drop_process(process)
        self._network.died(process, is_silent=end is End.LOST_POWER and self.is_silent_without_power)
        if end is End.LOST_POWER:
            self.disk.crash(self._crash_random)
        else:
            self.disk.kill()
        if self.on_end is not None:
            self.on_end(end)

    def _read_cold(self, path: str) -> None:
        """A read has to wait for the disk. While the node serves, only worker threads may wait."""
        if self._is_serving and self._workers is not None and not self._workers.is_working:
            where = describe_frames(traceback.extract_stack())
            self._failures.append(
                f"{self._label}the event loop waited for the disk to read {path}, in {where}"
            )


async def _first(*futures: asyncio.Future[Any]) -> None:
    """Return when any of them is done, with a result or an error."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note(_: asyncio.Future[Any]) -> None:
        if not done.done():
            done.set_result(None)

    for future in futures:
        future.add_done_callback(note)
    await done
