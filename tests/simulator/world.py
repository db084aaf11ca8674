"""What all simulated nodes share: one seed, one virtual clock, one network, one trace.

`Simulation` holds one node, `SimulatedCluster` several. All randomness comes from the seed, with one generator per
concern, so that a change in one does not affect the others. `trace.fingerprint()` is the same for every run of a seed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, TypeVar

from simulator.loop import VirtualLoop, run_virtual
from simulator.network import SimulatedNetwork
from simulator.node import SimulatedNode
from simulator.process import PROCESS, Died, describe_frames
from simulator.trace import Trace

T = TypeVar("T")


class BrokenPromise(AssertionError):
    """A node did something that it must never do."""


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = VirtualLoop()
        self.trace = Trace(self.loop.time)
        self.random = self.generator("scenario")
        """For scenarios. Other parts have their own generators."""
        self.network = SimulatedNetwork(self.generator("network"), note=self.trace.note)
        self.failures: list[str] = []
        """Bugs that a node logged, and unhandled errors of tasks."""
        self._running: asyncio.Task[Any] | None = None
        self._interruption: BaseException | None = None
        """Raised by something outside the simulation, such as the time limit of the test. It is not a bug of a node."""

    @property
    def all_nodes(self) -> Sequence[SimulatedNode]:
        """Every node that was ever started, in order of creation."""
        raise NotImplementedError

    def generator(self, concern: str) -> random.Random:
        """The generator for one concern. Renaming one changes every seed, also those that tests replay."""
        return random.Random(f"{self.seed}/{concern}")

    def run(self, scenario: Callable[[Self], Coroutine[Any, Any, T]]) -> T:
        """Run a scenario to its end, then drop the nodes."""
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

    async def _run(self, scenario: Callable[[Self], Coroutine[Any, Any, T]]) -> T:
        self._running = asyncio.current_task()
        try:
            result = await scenario(self)
        except BaseException as error:
            if self._interruption is not None:
                raise self._interruption from error
            for failure in self.failures:
                error.add_note(failure)
            raise
        finally:
            for node in self.all_nodes:
                node.on_end = None
                if node.is_up:
                    node.crash(loses_power=False)
        gc.collect()  # tasks whose errors were never retrieved report them when collected
        if self._interruption is not None:
            raise self._interruption
        if self.failures:
            raise BrokenPromise("\n".join(self.failures))
        return result

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Died):
            return
        if error is not None and not isinstance(error, (Exception, asyncio.CancelledError)):
            self._interruption = error
            if self._running is not None:
                self._running.cancel()
            return
        task = context.get("task")
        self.failures.append(f"{context['message']}: {error!r}{'' if task is None else f' in {task}'}")


class _LogWatch(logging.Handler):
    """Copies the nodes' logs into the trace, and collects lines that report a bug.

    A simulation runs in one thread. Lines of other threads come from clients that earlier tests left behind."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world
        self._thread_id = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread != self._thread_id:
            return
        message = record.getMessage()
        process = PROCESS.get()
        label = process.label if process is not None else ""
        self._world.trace.note(f"{label}{record.levelname}: {message}")
        for node in self._world.all_nodes:
            if process is None or node.owns(process):
                node.log_lines.append(message)
        if "this is a bug" in message:
            error = record.exc_info[1] if record.exc_info else None
            frames = traceback.extract_tb(error.__traceback__) if error is not None else ()
            self._world.failures.append(f"{label}{message}: {error!r}, in {describe_frames(frames)}")
