"""A node as a process, with the real clock, disk and network, stopped by signals."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import penstock
from penstock.config.broker import BrokerSettings
from penstock.net.connection import Server
from penstock.net.sockets import SocketBuffers, SocketNetwork
from penstock.node.node import CannotStart, Node, Ready
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import RealDisk
from penstock.runtime.loop import run as run_loop
from penstock.runtime.loop import settle_memory
from penstock.runtime.network import Network
from penstock.runtime.signals import signals_to_handle
from penstock.runtime.workers import ThreadWorkers
from penstock.storage.errors import StorageError

__all__ = ["CannotStart", "Ready", "run"]

logger = logging.getLogger(__name__)

FAILED_STOP_S = 30  # to close the parts that still work after a failure
BACKLOG = 1024  # connections that wait to be accepted; the system may limit it further


def run(
    settings: BrokerSettings,
    *,
    on_ready: Callable[[Ready], None],
    wrap_server: Callable[[Server], Server] | None = None,
    wrap_network: Callable[[Network], Network] | None = None,
) -> int:
    """Run until SIGTERM, or SIGINT unless it is ignored (as in a background job), and return the exit status. Raises
    `CannotStart`. `wrap_server` can wrap the dispatcher, and `wrap_network` the network, to inject faults."""
    files_max = _allow_many_files()
    _log_start(settings)
    return run_loop(_serve(settings, on_ready, files_max, wrap_server, wrap_network))


async def _serve(
    settings: BrokerSettings,
    on_ready: Callable[[Ready], None],
    files_max: int,
    wrap_server: Callable[[Server], Server] | None,
    wrap_network: Callable[[Network], Network] | None,
) -> int:
    workers = ThreadWorkers(settings.get("background.threads"), read_threads=settings.get("num.io.threads"))
    network: Network = SocketNetwork(_socket_buffers(settings))
    runtime = Runtime(
        clock=SystemClock(),
        random=random.Random(os.urandom(16)),
        disk=RealDisk(),
        network=wrap_network(network) if wrap_network is not None else network,
        workers=workers,
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        if stopping.is_set():
            logger.warning("received %s again: exiting without a clean shutdown", number.name)
            os._exit(128 + number)
        logger.info("stopping: received %s", number.name)
        stopping.set()

    for number in signals_to_handle(signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    node = Node(settings, runtime, descriptors_max=files_max, wrap_server=wrap_server)
    try:
        began = loop.time()
        ready = await start_unless_stopped(node, stopping)
        if ready is None:
            logger.info("stopped before the start was complete")
            return 0
        logger.info(
            "started node %d of cluster %s in %d ms: listeners %s, log directories %s",
            ready.node_id,
            ready.cluster_id,
            (loop.time() - began) * 1000,
            ", ".join(ready.addresses),
            ", ".join(ready.log_dirs),
        )
        on_ready(ready)
        settle_memory()
        status = await _wait(node, stopping)
        if status == 0:
            began = loop.time()
            await node.stop()
            logger.info("shutdown completed in %d ms", (loop.time() - began) * 1000)
        else:  # without a log line, so that the last one is the reason
            await stop_failed(node)
    finally:
        workers.close()
    return status


async def start_unless_stopped(node: Node, stopping: asyncio.Event) -> Ready | None:
    """Start the node; None if it was told to stop meanwhile. A node that waits for other nodes may wait long."""
    starting = asyncio.ensure_future(node.start())
    asked = asyncio.ensure_future(stopping.wait())
    either: set[asyncio.Future[Any]] = {starting, asked}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if starting.done():
        return starting.result()
    starting.cancel()
    await asyncio.wait([starting])
    return None


async def _wait(node: Node, stopping: asyncio.Event) -> int:
    """Wait for a signal to stop (0), or until the node fails (1)."""
    asked: asyncio.Future[bool] = asyncio.ensure_future(stopping.wait())
    either: set[asyncio.Future[Any]] = {asked, node.ended}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        return 0
    asked.cancel()
    error = node.ended.exception()
    cause = None if error is None else error.__cause__
    # The message explains a failed disk. Anything else is a bug and needs its traceback.
    logger.error("stopping: %s", error, exc_info=None if isinstance(cause, StorageError) else cause)
    return 1


async def stop_failed(node: Node, *, halt: Callable[[int], object] = os._exit) -> None:
    """Stop a failed node. Kafka halts at once; here the log directories that still work are closed first. There is a
    time limit, because a hanging disk would block the process forever."""
    try:
        async with asyncio.timeout(FAILED_STOP_S):
            await node.stop()
    except TimeoutError:
        logger.error("the shutdown did not complete within %d s; exiting without it", FAILED_STOP_S)
        halt(1)


def _log_start(settings: BrokerSettings) -> None:
    """Log the version and the settings, before anything can fail."""
    logger.info(
        "Penstock %s, Python %s, process id %d", penstock.__version__, sys.version.split()[0], os.getpid()
    )
    for name, value in settings.overridden().items():
        logger.info("setting %s=%s", name, value)


def _socket_buffers(settings: BrokerSettings) -> SocketBuffers:
    """Use only values that are set: Kafka's default of 100 KiB would disable the tuning of the system, and its backlog
    of 50 drops packets in a burst of connections (bench "1,000 idle connections")."""
    send, receive = "socket.send.buffer.bytes", "socket.receive.buffer.bytes"
    backlog = "socket.listen.backlog.size"
    return SocketBuffers(
        send_bytes=settings.get(send) if settings.is_set(send) else -1,
        receive_bytes=settings.get(receive) if settings.is_set(receive) else -1,
        backlog=settings.get(backlog) if settings.is_set(backlog) else BACKLOG,
    )


def _allow_many_files() -> int:
    """Raise the limit of open files to its maximum: partitions and connections both need many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
