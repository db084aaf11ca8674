"""A client's way to a cluster: requests to a node, to any node, to the controller or to a coordinator, and metadata.

One for each producer, consumer or admin, on one event loop. Producers and consumers send to leaders themselves (`send`)
and know what to do when that fails; everything that is asked now and then goes by `ask_any`, `ask_controller` and
`ask_coordinator`, which find the right node again and repeat what may be repeated until the deadline.

Deadlines are milliseconds of the loop's own clock (`now_ms`), never of the wall's. Every failure is one of
`penstock.client.errors`. Invariant: after `close` there is no task, no socket and no timer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock.client import coordinators as finding
from penstock.client import errors
from penstock.client.addresses import Address, parse_addresses, resolve
from penstock.client.answers import first_of
from penstock.client.backoff import Backoff
from penstock.client.cluster import Cluster, LeaderChange, Node
from penstock.client.connection import ClientConnection
from penstock.client.coordinators import CoordinatorKind, Coordinators
from penstock.client.metadata import MetadataUpdater
from penstock.client.transport import Transport
from penstock.net.sockets import SocketBuffers, SocketNetwork
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.errors import ErrorCode
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.network import Network

if TYPE_CHECKING:
    from penstock.client.settings import ClientSettings

__all__ = ["ClusterClient", "CoordinatorKind"]

API_TIMEOUT_MS = 60_000  # of clients that have no `default.api.timeout.ms`

# A node has a second connection for what it coordinates: on the first, a fetch may wait for records, and a heartbeat
# behind it would come too late. Kafka's own client numbers them the same way.
COORDINATOR_LANE = 2**31 - 1


class ClusterClient:
    def __init__(
        self,
        settings: ClientSettings,
        *,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self._random = rng or random.Random()
        self._request_timeout_ms: int = settings.get("request.timeout.ms")
        self._bootstrap = _bootstrap_nodes(parse_addresses(settings.get("bootstrap.servers")))
        self._retry = Backoff(
            settings.get("retry.backoff.ms"), settings.get("retry.backoff.max.ms"), draw=self._random.random
        )
        self._transport = _transport(settings, network, self._random, self._disconnected)
        self._metadata = MetadataUpdater(
            self, max_age_s=settings.get("metadata.max.age.ms") / 1000, backoff=self._retry
        )
        self._coordinators = Coordinators()
        self._found_nodes: dict[int, Node] = {}
        """Coordinators that the picture does not show yet."""
        self._is_closed = False

    # -- time

    @staticmethod
    def now_ms() -> int:
        """The clock of all deadlines: that of the running loop."""
        return round(asyncio.get_running_loop().time() * 1000)

    def deadline(self, timeout_ms: int | None = None) -> int:
        """So long from now; without a number, the client's own patience."""
        return self.now_ms() + (self.api_timeout_ms if timeout_ms is None else timeout_ms)

    @property
    def api_timeout_ms(self) -> int:
        try:
            timeout_ms: int | None = self.settings.get("default.api.timeout.ms")
        except KeyError:
            timeout_ms = None
        return API_TIMEOUT_MS if timeout_ms is None else timeout_ms

    # -- the picture

    @property
    def cluster(self) -> Cluster:
        return self._metadata.cluster

    def want(self, names: Collection[str] | None) -> None:
        self._metadata.want(names)

    def mark_stale(self) -> None:
        self._metadata.mark_stale()

    def on_update(self, listener: Callable[[Cluster], None]) -> None:
        self._metadata.on_update(listener)

    def take_leaders(self, changes: Collection[LeaderChange], nodes: Collection[Node]) -> None:
        """Leaders that the answer to a produce or a fetch told of (KIP-951)."""
        self._metadata.take_leaders(changes, nodes)

    async def refresh(self, *, deadline_ms: int | None = None) -> Cluster:
        self._start()
        async with self._until(deadline_ms, "metadata of the cluster"):
            return await self._metadata.news(at_once=True)

    async def topics(
        self,
        names: Collection[str],
        *,
        deadline_ms: int | None = None,
        may_create: bool = False,
        patience_ms: int | None = None,
    ) -> Cluster:
        """A picture in which all these topics are known; raises the first error of one that waiting does not cure.

        A topic that no broker knows is waited for: it may just have been made. `patience_ms` bounds that wait where the
        deadline is far.
        """
        self._start()
        began_ms = self.now_ms()
        self._metadata.ask_for(names, may_create=may_create)
        cluster, is_fresh = self.cluster, False
        async with self._until(deadline_ms, f"metadata of {', '.join(sorted(names))}") as overdue:
            while True:
                error = _error_of_topics(cluster, names)
                if error is None:
                    return cluster
                if is_fresh:
                    overdue.append(error)
                    patience = patience_ms is not None and self.now_ms() - began_ms >= patience_ms
                    if patience or not error.retriable:
                        raise error
                if may_create:
                    self._metadata.ask_for(names, may_create=True)
                cluster, is_fresh = await self._metadata.news(), True

    # -- requests to one node

    def is_ready(self, node_id: int) -> bool:
        return self._transport.connection(node_id) is not None

    def in_flight(self, node_id: int) -> int:
        connection = self._transport.connection(node_id)
        return 0 if connection is None else connection.in_flight

    def versions(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """First and last version of each API that the node serves; Disconnected while there is no connection."""
        return self._connected(node_id).versions

    def version_of(self, node_id: int, key: ApiKey) -> int:
        """The version that a request to this node will have."""
        return self._connected(node_id).version_for(api(key))

    async def connect(self, node_id: int) -> None:
        await self._connect(node_id)

    def send(
        self,
        node_id: int,
        request: Any,
        *,
        version: int | None = None,
        timeout_ms: int | None = None,
        expects_answer: bool = True,
    ) -> asyncio.Future[Any]:
        """Send now, behind what was sent before; the future carries the answer. Disconnected if it is not ready.

        Without an answer (produce with acks=0) the future is done, with None, when the bytes are out of our hands.
        """
        connection = self._connected(node_id)
        if not expects_answer:
            return connection.send_and_forget(request)
        timeout_s = (self._request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        return connection.send(request, version=version, timeout_s=timeout_s)

    async def ask(
        self, node_id: int, request: Any, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Connect where needed, send, and wait for the answer. One attempt."""
        await self._connect(node_id)
        return await self.send(node_id, request, version=version, timeout_ms=timeout_ms)

    # -- requests to whoever is right

    async def ask_any(self, request: Any, *, deadline_ms: int | None = None) -> Any:
        """The least busy node; another one when it goes away."""

        async def attempt() -> Any:
            return await (await self._any_connection()).ask(
                request, timeout_s=self._request_timeout_ms / 1000
            )

        return await self._repeat(attempt, deadline_ms, type(request).__name__)

    async def ask_controller(self, request: Any, *, deadline_ms: int | None = None) -> Any:
        """The controller, or the node that speaks for it; found again when it has moved."""

        async def attempt() -> Any:
            if self.cluster.controller_id not in self.cluster.nodes:
                self._start()
                await self._metadata.news()
            if self.cluster.controller_id not in self.cluster.nodes:
                raise errors.of(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment")
            response = await self.ask(self.cluster.controller_id, request)
            if first_of(response, {ErrorCode.NOT_CONTROLLER}) is not None:
                self._start()
                await self._metadata.news()
                raise errors.of(ErrorCode.NOT_CONTROLLER)
            return response

        return await self._repeat(attempt, deadline_ms, type(request).__name__)

    async def ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Any,
        *,
        deadline_ms: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """The coordinator of a group or transaction; found again, and the request repeated, while it moves or loads."""

        async def attempt() -> Any:
            (node_id,) = (await self._find(kind, [key])).values()
            try:
                response = await self.ask(node_id, request, timeout_ms=timeout_ms)
            except (ConnectionError, TimeoutError):
                self.forget_coordinator(kind, key)
                raise
            code = first_of(response, finding.PASSING)
            if code is None:
                return response
            if code in finding.MOVED:
                self.forget_coordinator(kind, key)
            raise errors.of(code, about=key)

        return await self._repeat(attempt, deadline_ms, type(request).__name__)

    async def coordinator(self, kind: CoordinatorKind, key: str, *, deadline_ms: int | None = None) -> int:
        """What to give to `ask` and `send` to reach the coordinator. It stands for a connection of its own, and is not
        the id of the node: see `node`."""
        return (await self.coordinators(kind, [key], deadline_ms=deadline_ms))[key]

    async def coordinators(
        self, kind: CoordinatorKind, keys: Sequence[str], *, deadline_ms: int | None = None
    ) -> dict[str, int]:
        """Those of many keys, in few requests."""
        found: dict[str, int] = await self._repeat(
            lambda: self._find(kind, keys), deadline_ms, "FindCoordinator"
        )
        return found

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.forget(kind, key)

    def node(self, node_id: int) -> Node | None:
        """The node behind an id, also behind one from `coordinator`."""
        if node_id > COORDINATOR_LANE // 2:
            node_id = COORDINATOR_LANE - node_id
        if node_id < 0:
            return self._bootstrap.get(node_id)
        return self.cluster.nodes.get(node_id) or self._found_nodes.get(node_id)

    async def close(self, *, timeout_ms: int = 0) -> None:
        """End everything; what was queued still goes out, as far as the timeout allows."""
        self._is_closed = True
        await self._metadata.close()
        await self._transport.close(timeout_s=timeout_ms / 1000)

    # -- what the updater of metadata calls

    async def ask_for_metadata(self, request: Any) -> Any:
        connection = await self._any_connection()
        response = await connection.ask(request, timeout_s=self._request_timeout_ms / 1000)
        if response.error_code != ErrorCode.NONE:
            raise errors.of(response.error_code)
        self._adopt_bootstrap(response.brokers)
        return response

    # -- helpers

    def _start(self) -> None:
        if self._is_closed:
            raise errors.ClientClosed
        self._metadata.start()

    def _connected(self, node_id: int) -> ClientConnection:
        connection = self._transport.connection(node_id)
        if connection is None:
            raise errors.Disconnected(f"there is no connection to {self.node(node_id) or f'node {node_id}'}")
        return connection

    async def _connect(self, node_id: int) -> ClientConnection:
        node = self.node(node_id)
        if node is None:
            self.mark_stale()
            raise errors.Disconnected(f"node {node_id} is not known, or no longer")
        return await self._transport.connect(node_id, node)

    async def _any_connection(self) -> ClientConnection:
        if self._is_closed:
            raise errors.ClientClosed
        node_id = self._least_busy()
        return await self._connect(node_id)

    def _least_busy(self) -> int:
        """A connected node with little under way; else one that may be tried now; else the one that may be next."""
        known = list(self.cluster.nodes) or list(self._bootstrap)
        links = {node_id: self._transport.link(node_id) for node_id in known}
        if all(link is not None and not link.is_ready and link.failures for link in links.values()):
            # None of the nodes answers: they may all have moved (KIP-899).
            links |= {node_id: self._transport.link(node_id) for node_id in self._bootstrap}
        ready = [node_id for node_id, link in links.items() if link is not None and link.is_ready]
        if ready:
            return min(ready, key=lambda node_id: links[node_id].in_flight)  # type: ignore[union-attr]
        order = self._random.sample(list(links), len(links))
        return min(order, key=lambda node_id: link.retry_at if (link := links[node_id]) is not None else 0.0)

    async def _find(self, kind: CoordinatorKind, keys: Sequence[str]) -> dict[str, int]:
        unknown = [key for key in keys if self._coordinators.get(kind, key) is None]
        if unknown:
            connection = await self._any_connection()
            version = connection.version_for(api(ApiKey.FIND_COORDINATOR))
            sent = [
                connection.send(request, version=version, timeout_s=self._request_timeout_ms / 1000)
                for request in finding.requests(kind, unknown, version)
            ]
            for key, node, error, words in finding.found(unknown, version, await asyncio.gather(*sent)):
                if error != ErrorCode.NONE:
                    raise errors.of(error, words, about=key)
                self._coordinators.put(kind, key, node)
                self._found_nodes[node.id] = node
        known = {key: self._coordinators.get(kind, key) for key in keys}
        return {key: COORDINATOR_LANE - node.id for key, node in known.items() if node is not None}

    async def _repeat(self, attempt: Callable[[], Awaitable[Any]], deadline_ms: int | None, what: str) -> Any:
        """Until it succeeds, fails for good, or the deadline passes."""
        failures = 0
        async with self._until(deadline_ms, f"an answer to {what}") as overdue:
            while True:
                try:
                    return await attempt()
                except errors.PenstockError as error:
                    if not error.retriable:
                        raise
                    overdue.append(error)
                failures += 1
                await asyncio.sleep(self._retry.wait_ms(failures) / 1000)

    @asynccontextmanager
    async def _until(self, deadline_ms: int | None, what: str) -> AsyncIterator[list[errors.PenstockError]]:
        """Bound what is awaited inside. The list is for what went wrong so far: its last entry explains the timeout."""
        if self._is_closed:
            raise errors.ClientClosed
        began_ms = self.now_ms()
        if deadline_ms is None:
            deadline_ms = self.deadline()
        reasons: list[errors.PenstockError] = []
        limit = asyncio.timeout_at(deadline_ms / 1000)
        try:
            async with limit:
                yield reasons
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise self._overdue(what, deadline_ms - began_ms, reasons) from error

    def _overdue(
        self, what: str, waited_ms: int, reasons: list[errors.PenstockError]
    ) -> errors.PenstockError:
        attempts = {
            str(node): str(link.failure.words)
            for node_id, node in self._bootstrap.items()
            if (link := self._transport.link(node_id)) is not None and link.failure is not None
        }
        if not self.cluster.nodes and attempts:
            return errors.NoBrokersAvailable(attempts=attempts)
        reason = reasons[-1] if reasons else self._metadata.failure
        if isinstance(reason, errors.UnknownTopicOrPartition):
            return reason
        overdue = errors.TimedOut(
            f"no {what.removeprefix('an ')} within {waited_ms} ms" + (f": {reason}" if reason else "")
        )
        overdue.__cause__ = reason
        return overdue

    def _disconnected(self, node: Node) -> None:
        self._coordinators.forget_node(node.id)
        if not self._is_closed:
            self.mark_stale()

    def _adopt_bootstrap(self, brokers: Sequence[Any]) -> None:
        """A bootstrap connection that turned out to be a node's own is kept as such."""
        for broker in brokers:
            for bootstrap_id, node in self._bootstrap.items():
                if (broker.host, broker.port) == (node.host, node.port):
                    found = Node(broker.node_id, broker.host, broker.port, broker.rack)
                    self._transport.adopt(broker.node_id, found, of=bootstrap_id)


def _error_of_topics(cluster: Cluster, names: Collection[str]) -> errors.BrokerError | None:
    for name in names:
        topic = cluster.topics.get(name)
        if topic is None:
            return errors.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=name)
        if topic.error != ErrorCode.NONE:
            return errors.of(topic.error, about=name)
    return None


def _bootstrap_nodes(found: Sequence[Address]) -> dict[int, Node]:
    return {-1 - index: Node(-1 - index, each.host, each.port) for index, each in enumerate(found)}


def _transport(
    settings: ClientSettings,
    network: Network | None,
    rng: random.Random,
    on_disconnect: Callable[[Node], None],
) -> Transport:
    async def as_it_is(host: str, port: int) -> list[str]:
        return [host]  # a network that was given has names of its own

    return Transport(
        network
        or SocketNetwork(
            SocketBuffers(
                send_bytes=settings.get("send.buffer.bytes"),
                receive_bytes=settings.get("receive.buffer.bytes"),
            )
        ),
        client_id=settings.client_id,
        reconnect=Backoff(
            settings.get("reconnect.backoff.ms"),
            settings.get("reconnect.backoff.max.ms"),
            draw=rng.random,
        ),
        setup=Backoff(
            settings.get("socket.connection.setup.timeout.ms"),
            settings.get("socket.connection.setup.timeout.max.ms"),
            draw=rng.random,
        ),
        request_timeout_s=settings.get("request.timeout.ms") / 1000,
        idle_s=settings.get("connections.max.idle.ms") / 1000,
        resolve=resolve if network is None else as_it_is,
        on_disconnect=on_disconnect,
    )
