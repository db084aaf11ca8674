"""Connections of a node to the other nodes of its cluster: one for each (node, purpose), opened on demand.

Each part of a node has its own purpose, so that a large fetch never delays a heartbeat. The caller names the node with
its address, as the metadata has it now; a connection to an older address is closed. After a failure the next attempt
waits for a backoff, which all callers share. Nothing is sent twice: a request fails with its connection, and only its
sender knows whether to retry.

Invariant: after `close` there is no connection and no task.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
from typing import Any, NamedTuple

from penstock.net.request_connection import REQUEST_TIMEOUT_S, RequestConnection
from penstock.net.request_errors import ConnectionRefused, Disconnected, RequestFailed, RequestTimedOut
from penstock.runtime.backoff import Backoff
from penstock.runtime.network import Network

SETUP_TIMEOUT_MS, SETUP_TIMEOUT_MAX_MS = 10_000, 30_000  # the defaults of socket.connection.setup.timeout.*
RECONNECT_MS, RECONNECT_MAX_MS = (
    50,
    500,
)  # as Kafka's nodes have them; both are short, because a fail-over waits


class NodeAddress(NamedTuple):
    """Where a node listens. A bootstrap server, whose node id is not known yet, has a negative id."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"node {self.node_id} at {self.host}:{self.port}"


class _Link:
    """The state of one (node, purpose) that outlives a connection."""

    __slots__ = ("address", "connection", "failures", "opening", "retry_at", "setup_timeouts")

    def __init__(self, address: NodeAddress) -> None:
        self.address = address
        self.connection: RequestConnection | None = None
        self.opening: asyncio.Task[RequestConnection | RequestFailed] | None = None
        self.failures = 0
        """Consecutive ones."""
        self.retry_at = 0.0
        self.setup_timeouts = 0
        """Consecutive ones; each raises the timeout of the next attempt (KIP-601)."""


class NodeConnections:
    def __init__(
        self,
        network: Network,
        *,
        client_id: str,
        rng: random.Random,
        reconnect_ms: int = RECONNECT_MS,
        reconnect_max_ms: int = RECONNECT_MAX_MS,
        setup_timeout_ms: int = SETUP_TIMEOUT_MS,
        setup_timeout_max_ms: int = SETUP_TIMEOUT_MAX_MS,
    ) -> None:
        """`client_id` is what the other nodes see, such as `broker-1`. Between two attempts is a backoff of
        `reconnect_ms` to `reconnect_max_ms`. An attempt may take `setup_timeout_ms`; that grows with each timeout in a
        row."""
        self._network = network
        self._client_id = client_id
        self._reconnect = Backoff(reconnect_ms, reconnect_max_ms, draw=rng.random)
        self._setup = Backoff(setup_timeout_ms, setup_timeout_max_ms, draw=rng.random)
        self._links: dict[tuple[int, str], _Link] = {}
        self._is_closed = False

    def connection(self, address: NodeAddress, purpose: str) -> RequestConnection | None:
        """The open connection to this address, to send in this iteration of the loop; None if there is none."""
        link = self._links.get((address.node_id, purpose))
        if link is None or link.connection is None or link.connection.is_closed or link.address != address:
            return None
        return link.connection

    async def connect(self, address: NodeAddress, purpose: str) -> RequestConnection:
        """The open connection, or a new one after the backoff. One attempt; raises its `RequestFailed`."""
        if self._is_closed:
            raise Disconnected("this node is stopping")
        connection = self.connection(address, purpose)
        if connection is not None:
            return connection
        key = (address.node_id, purpose)
        link = self._links.get(key)
        if link is None or link.address != address:
            self.drop(address.node_id, purpose)  # the node has a new address
            link = self._links[key] = _Link(address)
        opening = link.opening
        if opening is None:
            opening = link.opening = asyncio.get_running_loop().create_task(
                self._open(link), name=f"connect to {address} for {purpose}"
            )
        # A caller that gives up does not cancel the attempt of the others.
        await asyncio.wait([opening])
        if opening.cancelled():
            raise Disconnected(f"{address}: the connection attempt was cancelled")
        opened = opening.result()
        if isinstance(opened, RequestFailed):
            raise type(opened)(*opened.args) from opened
        return opened

    async def ask(
        self, address: NodeAddress, purpose: str, request: Any, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Any:
        """Connect if needed, send, and wait for the response, all within `timeout_s`. Raises a `RequestFailed`: in
        doubt, as after every lost connection, the other node may have done what the request asks for."""
        connection = self.connection(address, purpose)
        if connection is None:
            deadline = asyncio.get_running_loop().time() + timeout_s
            try:
                async with asyncio.timeout_at(None if timeout_s == math.inf else deadline):
                    connection = await self.connect(address, purpose)
            except TimeoutError as error:
                raise RequestTimedOut(f"{address}: no connection within {timeout_s * 1000:.0f} ms") from error
            timeout_s = max(0.0, deadline - asyncio.get_running_loop().time())
        return await connection.ask(request, timeout_s=timeout_s)

    def drop(self, node_id: int, purpose: str) -> None:
        """Close the connection, if there is one, and forget its failures."""
        link = self._links.pop((node_id, purpose), None)
        if link is None:
            return
        if link.opening is not None:
            link.opening.cancel()
        if link.connection is not None:
            link.connection.on_closed = None
            link.connection.abort()

    async def close(self) -> None:
        """Close all connections. Requests without a response fail with `Disconnected`."""
        self._is_closed = True
        links = list(self._links.values())
        for node_id, purpose in list(self._links):
            self.drop(node_id, purpose)
        await asyncio.gather(
            *(link.opening for link in links if link.opening is not None), return_exceptions=True
        )
        for link in links:
            if link.connection is not None:
                await link.connection.ended(timeout_s=0)

    async def _open(self, link: _Link) -> RequestConnection | RequestFailed:
        """One attempt, after the backoff. Never raises, because no caller may be left."""
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, link.retry_at - loop.time()))
            try:
                connection = await self._attempt(link)
            except RequestFailed as error:
                self._failed(link)
                return error
        finally:
            link.opening = None
        link.failures = link.setup_timeouts = 0
        link.connection = connection
        connection.on_closed = lambda: self._ended(link, connection)
        if connection.is_closed:
            self._ended(link, connection)
        return connection

    async def _attempt(self, link: _Link) -> RequestConnection:
        address = link.address
        setup_ms = self._setup.wait_ms(link.setup_timeouts + 1)
        try:
            async with asyncio.timeout(setup_ms / 1000):
                return await RequestConnection.open(
                    self._network, address.host, address.port, client_id=self._client_id, timeout_s=math.inf
                )
        except TimeoutError as error:
            link.setup_timeouts += 1
            raise Disconnected(f"{address}: no connection within {setup_ms:.0f} ms") from error
        except OSError as error:
            kind = ConnectionRefused if isinstance(error, ConnectionRefusedError) else Disconnected
            raise kind(f"{address}: {_message(error)}") from error
        except UnicodeError as error:  # Python rejects names like "a..b"
            raise Disconnected(f"{address}: not a valid host name ({error})") from error

    def _ended(self, link: _Link, connection: RequestConnection) -> None:
        if link.connection is connection:
            link.connection = None
            self._failed(link)

    def _failed(self, link: _Link) -> None:
        link.failures += 1
        link.retry_at = asyncio.get_running_loop().time() + self._reconnect.wait_ms(link.failures) / 1000


def _message(error: OSError) -> str:
    """The system's message, without the error number and the address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return error.strerror or str(error) or type(error).__name__
