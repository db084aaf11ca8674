"""Runs the nodes of a cluster on this host, one process each, and restarts a node that dies.

A node that exits is restarted after a backoff, which doubles with every exit in a row. If a node exits before it was
ever ready, the start has failed: all nodes are stopped. The output of a node is written to stderr, each line with the
node's name before it. Nodes stop when this process ends, whatever ended it: their standard input is a pipe from it, and
they stop at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from typing import BinaryIO

from penstock.node.local_layout import LocalLayout, LocalNode
from penstock.runtime.backoff import Backoff
from penstock.runtime.signals import signals_to_handle

logger = logging.getLogger(__name__)

RESTART_BACKOFF = Backoff(500, 30_000, jitter=0)
STEADY_S = 60.0  # a node that ran this long counts as healthy: its next exit is the first one again
STOP_S = 30.0  # then a node is killed
LAST_STOP_S = 15.0  # a node is killed sooner if no quorum is left to move its partitions to other nodes
CHUNK_BYTES = 1 << 16
READY = b"penstock ready"

Command = Callable[[LocalNode], Sequence[str]]


class NodeFailed(Exception):
    """A node did not start. Its output has the reason."""


class LocalCluster:
    def __init__(self, layout: LocalLayout, command: Command, *, output: BinaryIO | None = None) -> None:
        """`command` is the program of a node, which prints a line that begins with `penstock ready` when it serves."""
        output = output or sys.stderr.buffer
        self._layout = layout
        self._nodes = [_NodeProcess(node, command, output) for node in layout.nodes]

    async def run(self, on_ready: Callable[[LocalLayout], None]) -> int:
        """Run all nodes until SIGTERM or SIGINT; return the exit status. A second signal kills the nodes."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        numbers = signals_to_handle(signal.SIGTERM, signal.SIGINT)

        def stop(number: signal.Signals) -> None:
            if stopping.is_set():
                logger.warning("killing all nodes: received %s again", number.name)
                self._kill()
            else:
                logger.info("stopping all nodes: received %s", number.name)
                stopping.set()

        for number in numbers:
            loop.add_signal_handler(number, stop, number)
        supervised = [
            loop.create_task(node.keep_running(), name=f"node {node.node_id}") for node in self._nodes
        ]
        started = loop.create_task(self._wait_until_ready(on_ready), name="cluster start")
        asked = loop.create_task(stopping.wait(), name="stop signal")
        try:
            done, _ = await asyncio.wait([asked, *supervised], return_when=asyncio.FIRST_COMPLETED)
            failures = [task.exception() for task in supervised if task in done]
        finally:
            started.cancel()
            asked.cancel()
            await self._stop()
            for task in supervised:
                task.cancel()
            await asyncio.gather(started, asked, *supervised, return_exceptions=True)
            for number in numbers:
                loop.remove_signal_handler(number)
        for failure in failures:
            if failure is not None:
                raise failure
        return 0

    def process_id(self, node_id: int) -> int | None:
        """The process of a node; None while it is down."""
        return next(node.process_id for node in self._nodes if node.node_id == node_id)

    async def _wait_until_ready(self, on_ready: Callable[[LocalLayout], None]) -> None:
        for node in self._nodes:
            await node.ready.wait()
        on_ready(self._layout)

    async def _stop(self) -> None:
        """Brokers hand over the leadership of their partitions before they exit. The last one cannot."""
        for node in self._nodes:
            node.stop()
        waiting = {asyncio.ensure_future(node.exited()): node for node in self._nodes}
        loop = asyncio.get_running_loop()
        deadline, last_stop = loop.time() + STOP_S, None
        while waiting:
            if last_stop is None and len(waiting) * 2 <= len(self._nodes):
                last_stop = loop.time() + LAST_STOP_S  # the quorum is lost, so there is no controller
            limit = min(deadline, last_stop if last_stop is not None else deadline)
            done, _ = await asyncio.wait(
                waiting, timeout=max(0.0, limit - loop.time()), return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                del waiting[each]
            if not done and loop.time() >= deadline:
                self._kill()
                deadline = float("inf")
            elif not done:
                for node in waiting.values():
                    node.stop()
                last_stop = float("inf")

    def _kill(self) -> None:
        for node in self._nodes:
            node.kill()


class _NodeProcess:
    """One node: its present process, if there is one."""

    def __init__(self, node: LocalNode, command: Command, output: BinaryIO) -> None:
        self.node_id = node.node_id
        self.ready = asyncio.Event()
        self._node = node
        self._command = command
        self._output = output
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def keep_running(self) -> None:
        """Start the node, and start it again when it exits. Returns when `stop` was called; raises `NodeFailed` if it
        exits before it was ever ready."""
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping.is_set():
            began = loop.time()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            if not self.ready.is_set():
                raise NodeFailed(
                    f"node {self.node_id} did not start ({_describe(status)}); its output is above"
                )
            failures = 1 if loop.time() - began >= STEADY_S else failures + 1
            delay_ms = RESTART_BACKOFF.wait_ms(failures)
            logger.warning(
                "node %d ended (%s); restarting it in %d ms", self.node_id, _describe(status), delay_ms
            )
            await asyncio.sleep(delay_ms / 1000)

    def stop(self) -> None:
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._stopping.set()
        self._signal(signal.SIGKILL)

    async def exited(self) -> None:
        process = self._process
        if process is not None:
            await process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _run_once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command(self._node),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches only this process, which then stops the nodes in order
        )
        self._process = process
        if self._stopping.is_set():  # asked to stop while the process was being created
            self._signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            await asyncio.gather(
                self._copy(process.stdout, looks_for_ready=True), self._copy(process.stderr), process.wait()
            )
        finally:
            self._process = None if process.returncode is not None else process
        return process.returncode or 0

    async def _copy(self, stream: asyncio.StreamReader, *, looks_for_ready: bool = False) -> None:
        prefix = b"node %d | " % self.node_id
        rest = b""
        while data := await stream.read(CHUNK_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            self._write(b"".join(b"%s%s\n" % (prefix, line) for line in lines))
            if looks_for_ready and any(line.startswith(READY) for line in lines):
                self.ready.set()
        if rest:
            self._write(prefix + rest + b"\n")

    def _write(self, data: bytes) -> None:
        # Our stderr is closed, no longer read, or a file on a full disk: the nodes must continue.
        with contextlib.suppress(OSError, ValueError):
            self._output.write(data)
            self._output.flush()


def _describe(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"
