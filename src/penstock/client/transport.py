"""Connections to the nodes of a cluster: at most one for each, opened on demand, closed when idle.

A `Link` keeps the state of one node that outlives a connection: the number of consecutive failures, when it may be
tried again, and the last error. All callers that want a node share one connection attempt, which waits for the backoff
first, so frequent callers do no harm. Nothing is sent twice: a request fails with its connection, and its sender knows
whether to retry.

Invariant: after `close` there is no connection, no task and no timer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from penstock.client import addresses
from penstock.client.cluster import Node
from penstock.client.connection import ClientConnection
from penstock.client.errors import ClientClosed, Disconnected, PenstockError, TimedOut
from penstock.client.reachability import Reachability
from penstock.client.security import Security
from penstock.runtime.backoff import Backoff
from penstock.runtime.network import Network

LIFETIME_USED = 0.9  # of a login: the broker closes a connection after its session expires (KIP-368)

Resolve = Callable[[str, int], Awaitable[list[str]]]


class Link:
    """The connection state of one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.connection: ClientConnection | None = None
        self.opening: asyncio.Task[ClientConnection | PenstockError] | None = None
        self.failures = 0
        """Consecutive ones."""
        self.setup_timeouts = 0
        """Consecutive ones; each raises the timeout of the next attempt (KIP-601)."""
        self.retry_at = 0.0
        self.failure: PenstockError | None = None
        self.idle_timer: asyncio.TimerHandle | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a request can be sent now: the node is connected and not throttling."""
        connection = self.connection
        return (
            connection is not None
            and not connection.is_closed
            and connection.muted_until <= asyncio.get_running_loop().time() < connection.retires_at
        )

    @property
    def in_flight(self) -> int:
        return self.connection.in_flight if self.connection is not None else 0


class Transport:
    def __init__(
        self,
        network: Network,
        *,
        client_id: str,
        security: Security,
        reconnect: Backoff,
        setup: Backoff,
        request_timeout_s: float,
        idle_s: float,
        resolve: Resolve = addresses.resolve,
        on_disconnect: Callable[[Node], None] = lambda node: None,
    ) -> None:
        self._network = network
        self._client_id = client_id
        self._security = security
        self._reconnect = reconnect
        self._setup = setup
        self._request_timeout_s = request_timeout_s
        self._idle_s = idle_s
        self._resolve = resolve
        self._on_disconnect = on_disconnect
        self._links: dict[int, Link] = {}
        self._closing: set[ClientConnection] = set()
        """Closed by us, while queued bytes are still sent."""
        self._is_closed = False
        self._reachability = Reachability(explain=self._failures, is_connecting=self._is_connecting)

    def link(self, key: int) -> Link | None:
        """The state of a node; None if it was never used."""
        return self._links.get(key)

    def connection(self, key: int) -> ClientConnection | None:
        """The open connection, if there is one."""
        link = self._links.get(key)
        if link is None or link.connection is None or link.connection.is_closed:
            return None
        return link.connection

    def is_ready(self, key: int) -> bool:
        link = self._links.get(key)
        return link is not None and link.is_ready

    async def connect(self, key: int, node: Node) -> ClientConnection:
        """The open connection, or a new one after the backoff; raises the error of the attempt. One attempt.

        `key` is the node's id, or another number if a node has several connections.
        """
        if self._is_closed:
            raise ClientClosed
        link = self._links.get(key)
        if link is None or (link.node.host, link.node.port) != (node.host, node.port):
            self.drop(key)  # the node has a new address
            link = self._links[key] = Link(node)
        connection = self.connection(key)
        while connection is not None and not link.is_ready:
            await self._until_ready(link, connection)
            connection = link.connection
        if connection is not None:
            return connection
        opening = link.opening
        if opening is None:
            opening = link.opening = asyncio.get_running_loop().create_task(
                self._open(link), name=f"penstock-connect-{node.host}:{node.port}"
            )
        # A caller that gives up does not cancel the attempt of the others. Only the caller's own cancellation is raised
        # here, also if both are cancelled at once, as at the end of asyncio.run().
        await asyncio.wait([opening])
        if opening.cancelled():
            raise Disconnected(f"the connection attempt to {node} was cancelled")
        opened = opening.result()
        if isinstance(opened, ClientConnection):
            return opened
        raise opened

    async def _until_ready(self, link: Link, connection: ClientConnection) -> None:
        now = asyncio.get_running_loop().time()
        if connection.retires_at <= now:
            # The old one ends first, so that requests stay in order.
            await connection.quiet()
            if link.connection is connection:
                link.connection = None
                self._stop_idle_timer(link)
                self._end(connection)
        elif connection.is_closed:
            self._ended(link, connection)
        else:
            await asyncio.sleep(connection.muted_until - now)

    def adopt(self, key: int, node: Node, *, of: int) -> None:
        """Use the connection known as `of` for `key`, unless there is one: it has the same address."""
        link, present = self._links.get(of), self._links.get(key)
        if link is None or link.connection is None or link.connection.is_closed:
            return
        if present is not None and (present.connection is not None or present.opening is not None):
            return
        del self._links[of]
        link.node = node
        self._links[key] = link

    def drop(self, key: int) -> None:
        """Close the connection and forget the node."""
        link = self._links.pop(key, None)
        if link is None:
            return
        if link.opening is not None:
            link.opening.cancel()
        self._stop_idle_timer(link)
        connection, link.connection = link.connection, None
        if connection is not None:
            self._end(connection)

    async def close(self, *, timeout_s: float = 0.0) -> None:
        """Close everything. Queued data is still sent, within `timeout_s`."""
        self._is_closed = True
        self._reachability.stop()
        openings = [link.opening for link in self._links.values() if link.opening is not None]
        for key in list(self._links):
            self.drop(key)
        await asyncio.gather(*openings, return_exceptions=True)
        for connection in list(self._closing):
            await connection.ended(timeout_s=timeout_s)

    # -- opening

    async def _open(self, link: Link) -> ClientConnection | PenstockError:
        """One attempt, after the backoff. Never raises, because no caller may be left."""
        loop = asyncio.get_running_loop()
        if not any(each.connection is not None for each in self._links.values()):
            self._reachability.attempt_began()
        try:
            await asyncio.sleep(max(0.0, link.retry_at - loop.time()))
            try:
                connection = await self._attempt(link)
            except PenstockError as error:
                link.failures += 1
                link.retry_at = loop.time() + self._reconnect.wait_ms(link.failures) / 1000
                link.failure = error
                self._reachability.attempt_failed()
                self._on_disconnect(link.node)
                return error
        finally:
            link.opening = None
        self._reachability.reached()
        link.failures = 0
        link.setup_timeouts = 0
        link.failure = None
        link.connection = connection
        connection.on_closed = lambda: self._ended(link, connection)
        if connection.is_closed:
            self._ended(link, connection)
        self._watch_idle(link)
        return connection

    async def _attempt(self, link: Link) -> ClientConnection:
        """Try each address of the node until one accepts."""
        node = link.node
        try:
            found = await self._resolve(node.host, node.port)
        except OSError as error:
            raise Disconnected(f"the host name cannot be resolved ({_message(error)})", about=node) from error
        except UnicodeError as error:  # Python rejects names like "a..b"
            raise Disconnected(f"not a valid host name ({error})", about=node) from error
        failure: PenstockError | None = None
        for host in found:
            try:
                return await self._attempt_one(link, host)
            except Disconnected as error:
                failure = error
        raise failure or Disconnected("the host name has no address", about=node)

    async def _attempt_one(self, link: Link, host: str) -> ClientConnection:
        node = link.node
        setup_s = self._setup.wait_ms(link.setup_timeouts + 1) / 1000
        try:
            async with asyncio.timeout(setup_s):
                connection = await ClientConnection.over(
                    lambda handler: self._security.connect(
                        self._network, host, node.port, handler, server_name=node.host
                    ),
                    client_id=self._client_id,
                )
        except TimeoutError as error:
            link.setup_timeouts += 1
            raise Disconnected(f"no connection within {setup_s * 1000:.0f} ms", about=node) from error
        except OSError as error:
            raise Disconnected(_message(error), about=node) from error
        try:
            await connection.agree_on_versions(timeout_s=self._request_timeout_s)
            lifetime_s = await self._security.log_in(connection, timeout_s=self._request_timeout_s)
        except TimedOut as error:
            message = str(error.detail).removeprefix(f"{connection.peer} ")
            raise Disconnected(message, about=node) from error
        except Disconnected as error:
            raise self._security.explained(error) from error
        except BaseException:
            connection.abort()
            raise
        if lifetime_s is not None:
            connection.retires_at = asyncio.get_running_loop().time() + lifetime_s * LIFETIME_USED
        return connection

    # -- for the warning of `reachability`

    def _is_connecting(self) -> bool:
        return any(link.opening is not None for link in self._links.values())

    def _failures(self) -> str:
        """Why each address could not be reached. A node may have several connections, and also be a bootstrap
        server."""
        reasons = {
            f"{link.node.host}:{link.node.port}": "no response yet"
            if link.failure is None
            else link.failure.detail or str(link.failure)
            for link in self._links.values()
        }
        return "; ".join(f"{address}: {reason}" for address, reason in reasons.items())

    # -- closing

    def _end(self, connection: ClientConnection) -> None:
        self._closing.add(connection)
        connection.on_closed = lambda: self._closing.discard(connection)
        connection.close()

    def _ended(self, link: Link, connection: ClientConnection) -> None:
        if link.connection is not connection:
            return
        link.connection = None
        self._stop_idle_timer(link)
        link.failure = connection.failure
        link.failures += 1
        link.retry_at = asyncio.get_running_loop().time() + self._reconnect.wait_ms(link.failures) / 1000
        if not self._is_closed:
            self._on_disconnect(link.node)

    def _watch_idle(self, link: Link) -> None:
        if self._idle_s <= 0 or link.connection is None:
            return
        when = link.connection.used_at + self._idle_s
        link.idle_timer = asyncio.get_running_loop().call_at(when, self._look_for_idle, link)

    def _look_for_idle(self, link: Link) -> None:
        link.idle_timer = None
        connection = link.connection
        if connection is None:
            return
        now = asyncio.get_running_loop().time()
        if connection.in_flight:
            connection.used_at = now
        if connection.used_at + self._idle_s <= now:
            # Not a failure: an idle client needs no new metadata.
            link.connection = None
            self._end(connection)
        else:
            self._watch_idle(link)

    @staticmethod
    def _stop_idle_timer(link: Link) -> None:
        if link.idle_timer is not None:
            link.idle_timer.cancel()
            link.idle_timer = None


def _message(error: OSError) -> str:
    """The system's message, without the error number and the address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return error.strerror or str(error) or type(error).__name__
