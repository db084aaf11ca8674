"""A listener accepts streams at one address, makes connections of them, and bounds their number and idleness."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.net.connection import Connection, Server
from penstock.net.framing import SCRATCH_BYTES
from penstock.net.peer_faults import PeerFaults
from penstock.runtime.network import Listening, Network, Stream

logger = logging.getLogger(__name__)

SWEEPS_PER_IDLE_LIMIT = 10  # an idle connection is closed at most a tenth of the limit too late
SWEEP_S_MAX = 30.0  # quiet connections give their buffers back at least this often


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    connections_max: int
    connections_per_host_max: int
    host_overrides: Mapping[str, int]
    """Hosts with a limit of their own."""
    idle_ms_max: int
    """-1 lets connections idle for ever."""
    frame_bytes_max: int


class ConnectionTable:
    """All connections of a node over all its listeners; the one place that counts them."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._connections: dict[Connection, None] = {}  # in order of arrival; a set would have none
        self._per_host: Counter[str] = Counter()
        self.refused_count = 0
        self.faults = PeerFaults()

    def __len__(self) -> int:
        return len(self._connections)

    def refusal(self, host: str) -> str | None:
        """Why one more connection of `host` is too many, or None."""
        if len(self._connections) >= self.limits.connections_max:
            return (
                f"the limit of {self.limits.connections_max} connections is reached; raise max.connections, or the "
                "limit of open files (ulimit -n)"
            )
        host_max = self.limits.host_overrides.get(host, self.limits.connections_per_host_max)
        if self._per_host.get(host, 0) >= host_max:
            return f"{host} has reached its limit of connections, max.connections.per.ip={host_max}"
        return None

    def add(self, connection: Connection) -> None:
        self._connections[connection] = None
        self._per_host[connection.peer_host] += 1

    def remove(self, connection: Connection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]

    def sweep(self, now: float) -> None:
        """Close what has idled too long, or has not read for as long, or is gone; take back the buffers of what
        is merely quiet."""
        limit_s = self.limits.idle_ms_max / 1000
        for connection in list(self._connections):
            try:
                self._look_at(connection, now, limit_s)
            except Exception:
                # One broken connection must not keep the others from being swept.
                logger.exception("sweeping the connection of %s failed; closing it", connection.peer)
                connection.abort()

    def _look_at(self, connection: Connection, now: float, limit_s: float) -> None:
        if connection.stream.is_reset():
            logger.debug("%s is gone", connection.peer)
            connection.abort()
            return
        connection.look_at_backlog(now)
        if connection.has_work():
            return
        idle_s = now - connection.last_active
        if 0 <= limit_s < idle_s:
            if connection.is_stuck():
                logger.info(
                    "%s has read nothing for %.0f s; dropping what it was sent", connection.peer, idle_s
                )
                connection.abort()
            else:
                logger.debug("closing %s, idle for %.0f s", connection.peer, idle_s)
                connection.close()
        elif idle_s > 1:
            connection.shrink()

    def close_all(self) -> None:
        for connection in list(self._connections):
            connection.close()


class Listener:
    """One entry of `listeners`. Start it, and every accepted stream is served by `server` until it ends."""

    def __init__(self, name: str, server: Server, table: ConnectionTable) -> None:
        self.name = name
        self.serve = server.serve  # the server's own method: a connection calls it for every frame
        self._server = server
        self._table = table
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._listening: Listening | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        assert self._listening is not None, "the listener has not been bound"
        return self._listening.port

    async def bind(self, network: Network, host: str, port: int) -> None:
        """Take the address; whoever connects waits until `start`."""
        self._loop = asyncio.get_running_loop()
        self._listening = await network.listen(host, port, self._accept)

    def start(self) -> None:
        assert self._listening is not None, "the listener has not been bound"
        self._listening.start()
        self._schedule_sweep()

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def connection_closed(self, connection: Connection) -> None:
        self._table.remove(connection)
        self._server.connection_closed(connection)

    def _accept(self, stream: Stream) -> Connection | None:
        refusal = self._table.refusal(stream.peer_host)
        if refusal is not None:
            self._table.refused_count += 1
            self._table.faults.report(stream.peer, stream.peer_host, refusal, now=self._loop.time())
            return None
        connection = Connection(
            stream,
            self,
            listener=self.name,
            scratch=self._scratch,
            frame_bytes_max=self._table.limits.frame_bytes_max,
            now=self._loop.time,
            faults=self._table.faults,
        )
        self._table.add(connection)
        return connection

    def _schedule_sweep(self) -> None:
        limit_s = self._table.limits.idle_ms_max / 1000
        every_s = min(limit_s / SWEEPS_PER_IDLE_LIMIT, SWEEP_S_MAX) if limit_s > 0 else SWEEP_S_MAX
        self._sweeper = self._loop.call_later(every_s, self._sweep)

    def _sweep(self) -> None:
        self._schedule_sweep()  # first: a sweep that fails must not be the last one
        self._table.sweep(self._loop.time())
