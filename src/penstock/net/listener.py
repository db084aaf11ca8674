"""Listeners: accept connections, limit their number, and close idle ones."""

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

SWEEPS_PER_IDLE_LIMIT = 10  # an idle connection is closed at most a tenth of the limit late
SWEEP_S_MAX = 30.0  # idle connections release their buffers at least this often


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of connections of clients."""

    connections_max: int
    connections_per_host_max: int
    host_overrides: Mapping[str, int]
    """Limits of single hosts."""
    idle_ms_max: int
    """-1 means no limit."""
    frame_bytes_max: int


class ConnectionTable:
    """All connections of a node on all its listeners."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._connections: dict[Connection, None] = {}  # a dict and not a set, for its order
        self._per_host: Counter[str] = Counter()
        self.refused_count = 0
        self.faults = PeerFaults()

    def __len__(self) -> int:
        return len(self._connections)

    def refusal(self, host: str) -> str | None:
        """Why a new connection of `host` must be rejected, or None."""
        if len(self._connections) >= self.limits.connections_max:
            return (
                f"the limit of {self.limits.connections_max} connections is reached; increase max.connections, or the "
                "limit of open files (ulimit -n)"
            )
        host_max = self.limits.host_overrides.get(host, self.limits.connections_per_host_max)
        if self._per_host.get(host, 0) >= host_max:
            return f"{host} has reached the limit of connections per IP address, max.connections.per.ip={host_max}"
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
        """Close connections that were reset, are idle, or do not read; release the buffers of quiet ones."""
        limit_s = self.limits.idle_ms_max / 1000
        for connection in list(self._connections):
            try:
                self._check(connection, now, limit_s)
            except Exception:
                # One broken connection must not stop the sweep.
                logger.exception("checking the connection from %s failed; closing it", connection.peer)
                connection.abort()

    def _check(self, connection: Connection, now: float, limit_s: float) -> None:
        if connection.stream.is_reset():
            logger.debug("%s reset its connection", connection.peer)
            connection.abort()
            return
        connection.check_backlog(now)
        if connection.has_work():
            return
        idle_s = now - connection.last_active
        if 0 <= limit_s < idle_s:
            if connection.is_stuck():
                logger.info(
                    "closing the connection from %s: it has read no response for %.0f s",
                    connection.peer,
                    idle_s,
                )
                connection.abort()
            else:
                logger.debug("closing the connection from %s: idle for %.0f s", connection.peer, idle_s)
                connection.close()
        elif idle_s > 1:
            connection.shrink()

    def close_all(self) -> None:
        for connection in list(self._connections):
            connection.close()


class Listener:
    """One entry of `listeners`. `server` handles the requests of all its connections."""

    def __init__(self, name: str, server: Server, table: ConnectionTable) -> None:
        self.name = name
        self.serve = server.serve  # bound once, because a connection calls it for every frame
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
        """Bind the address. Clients that connect wait until `start`."""
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
        self._schedule_sweep()  # first, so that a failed sweep is not the last one
        self._table.sweep(self._loop.time())
