"""A node as a process: the real clock, disk and network, and the signals that stop it."""

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
from penstock.runtime.signals import signals_to_handle
from penstock.runtime.workers import ThreadWorkers
from penstock.storage.errors import StorageError

__all__ = ["CannotStart", "Ready", "run"]

logger = logging.getLogger(__name__)

FAILED_STOP_S = 30  # to close what still works after a failure
BACKLOG = 1024  # connections that wait to be accepted; the system may allow fewer


def run(
    settings: BrokerSettings,
    *,
    on_ready: Callable[[Ready], None],
    wrap_server: Callable[[Server], Server] | None = None,
) -> int:
    """Serve until SIGTERM, or SIGINT unless it is ignored (as in a background job); the exit status. Raises what keeps
    the node from starting. `wrap_server` may put something between the connections and the dispatcher."""
    files_max = _allow_many_files()
    _log_start(settings)
    return run_loop(_serve(settings, on_ready, files_max, wrap_server))


async def _serve(
    settings: BrokerSettings,
    on_ready: Callable[[Ready], None],
    files_max: int,
    wrap_server: Callable[[Server], Server] | None,
) -> int:
    workers = ThreadWorkers(settings.get("background.threads"), read_threads=settings.get("num.io.threads"))
    runtime = Runtime(
        clock=SystemClock(),
        random=random.Random(os.urandom(16)),
        disk=RealDisk(),
        network=SocketNetwork(_socket_buffers(settings)),
        workers=workers,
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        logger.info("stopping: received %s", number.name)
        stopping.set()

    for number in signals_to_handle(signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    node = Node(settings, runtime, descriptors_max=files_max, wrap_server=wrap_server)
    try:
        began = loop.time()
        ready = await node.start()
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
        else:  # the last line of the log stays the reason
            await stop_failed(node)
    finally:
        workers.close()
    return status


async def _wait(node: Node, stopping: asyncio.Event) -> int:
    """Until somebody asks the node to stop (0), or it cannot go on (1)."""
    asked: asyncio.Future[bool] = asyncio.ensure_future(stopping.wait())
    either: set[asyncio.Future[Any]] = {asked, node.ended}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        return 0
    asked.cancel()
    error = node.ended.exception()
    cause = None if error is None else error.__cause__
    # The message explains a disk that failed. Anything else is a bug, and needs its traceback.
    logger.error("stopping: %s", error, exc_info=None if isinstance(cause, StorageError) else cause)
    return 1


async def stop_failed(node: Node, *, halt: Callable[[int], object] = os._exit) -> None:
    """Stop a node that cannot go on. Kafka halts at once; here the log directories that still work are closed first.
    That has a limit: a disk that does not answer would keep the process for ever."""
    try:
        async with asyncio.timeout(FAILED_STOP_S):
            await node.stop()
    except TimeoutError:
        logger.error("the node could not be stopped in order within %d s; exiting", FAILED_STOP_S)
        halt(1)


def _log_start(settings: BrokerSettings) -> None:
    """Version and settings, one line each, before anything can go wrong."""
    logger.info(
        "Penstock %s, Python %s, process id %d", penstock.__version__, sys.version.split()[0], os.getpid()
    )
    for name, value in settings.overridden().items():
        logger.info("setting %s=%s", name, value)


def _socket_buffers(settings: BrokerSettings) -> SocketBuffers:
    """Only values that were set are used: Kafka's default of 100 KiB would switch the system's own tuning off, and its
    backlog of 50 makes a burst of connections wait for lost packets (bench "1,000 idle connections")."""
    send, receive = "socket.send.buffer.bytes", "socket.receive.buffer.bytes"
    backlog = "socket.listen.backlog.size"
    return SocketBuffers(
        send_bytes=settings.get(send) if settings.is_set(send) else -1,
        receive_bytes=settings.get(receive) if settings.is_set(receive) else -1,
        backlog=settings.get(backlog) if settings.is_set(backlog) else BACKLOG,
    )


def _allow_many_files() -> int:
    """A partition holds files open, and so does a connection: take all that the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
