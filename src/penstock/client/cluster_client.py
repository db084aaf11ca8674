"""A client's access to a cluster: requests to one node, any node, the controller or a coordinator, and metadata.

Each producer, consumer or admin has one, on one event loop. Producers and consumers send to leaders themselves (`send`)
and handle the failures. Rarer requests use `ask_any`, `ask_controller` and `ask_coordinator`, which find the node and
retry until the deadline.

Deadlines are milliseconds of the loop's clock (`now_ms`), never of the wall clock. Every failure is one of
`penstock.client.errors`. Invariant: after `close` there is no task, no socket and no timer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client import coordinators as finding
from penstock.client import errors
from penstock.client.addresses import resolve
from penstock.client.bootstrap import Bootstrap
from penstock.client.cluster import Cluster, LeaderChange, Node, TopicPartition
from penstock.client.connection import ClientConnection, OnAnswer, ReadAnswer
from penstock.client.coordinators import CoordinatorKind, Coordinators
from penstock.client.deadlines import Until, now_ms, repeat
from penstock.client.metadata import MetadataUpdater
from penstock.client.reachability import LeaderWait
from penstock.client.responses import first_message, first_of
from penstock.client.security import Security
from penstock.client.transport import Transport
from penstock.net.sockets import SocketBuffers, SocketNetwork
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.errors import ErrorCode
from penstock.runtime.backoff import Backoff
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.network import Network, Part

if TYPE_CHECKING:
    from penstock.client.settings import ClientSettings

__all__ = ["ClusterClient", "CoordinatorKind"]

T = TypeVar("T")

API_TIMEOUT_MS = 60_000  # for clients without `default.api.timeout.ms`

# A node has a second connection for its role as coordinator: on the first one a fetch may wait for records, and would
# delay a heartbeat. Kafka's client numbers these connections the same way.
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
        self.random = rng or random.Random()
        self._request_timeout_ms: int = settings.get("request.timeout.ms")
        controllers = self._get("bootstrap.controllers")
        self._asks_controllers = bool(controllers)
        self._bootstrap = Bootstrap(
            controllers or settings.get("bootstrap.servers"),
            lookup=settings.get("client.dns.lookup"),
            may_return=settings.get("metadata.recovery.strategy") == "rebootstrap",
            rng=self.random,
        )
        self.backoff = Backoff(
            settings.get("retry.backoff.ms"), settings.get("retry.backoff.max.ms"), draw=self.random.random
        )
        self._transport = _transport(settings, network, self.clock, self.random, self._disconnected)
        self._metadata = MetadataUpdater(
            self,
            max_age_s=settings.get("metadata.max.age.ms") / 1000,
            patience_s=settings.get("metadata.recovery.rebootstrap.trigger.ms") / 1000,
            backoff=self.backoff,
        )
        self._leader_wait = LeaderWait()
        self._coordinators = Coordinators()
        self._found_nodes: dict[int, Node] = {}
        """Coordinators that are not in the metadata yet."""
        self._is_closed = False

    # -- time

    @staticmethod
    def now_ms() -> int:
        """The clock of all deadlines: the running loop's."""
        return now_ms()

    def deadline(self, timeout_ms: int | None = None) -> int:
        """A deadline after `timeout_ms`, or after the client's default timeout."""
        return self.now_ms() + (self.api_timeout_ms if timeout_ms is None else timeout_ms)

    @property
    def api_timeout_ms(self) -> int:
        timeout_ms: int | None = self._get("default.api.timeout.ms")
        return API_TIMEOUT_MS if timeout_ms is None else timeout_ms

    # -- metadata

    @property
    def cluster(self) -> Cluster:
        return self._metadata.cluster

    def want(self, names: Collection[str] | None) -> None:
        self._start()
        self._metadata.want(names)

    def mark_stale(self) -> None:
        self._metadata.mark_stale()

    def need_leaders(self, partitions: Collection[TopicPartition]) -> None:
        """Warn if some of these partitions have had no leader for long. Call it before each retry."""
        self._leader_wait.missing(partitions, self.cluster, self.now_ms())

    def on_update(self, listener: Callable[[Cluster], None]) -> None:
        self._metadata.on_update(listener)

    def take_leaders(self, changes: Collection[LeaderChange], nodes: Collection[Node]) -> None:
        """New leaders from the response to a produce or fetch request (KIP-951)."""
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
        """Metadata in which all these topics are known; raises the first error that is not retriable.

        It waits for a topic that no broker knows, because the topic may just have been created. `patience_ms` limits
        that wait if the deadline is far.
        """
        self._start()
        _check_names(names)
        began_ms = self.now_ms()
        self._metadata.ask_for(names, may_create=may_create)
        cluster, is_fresh = self.cluster, False
        async with self._until(deadline_ms, f"metadata of {', '.join(sorted(names))}") as overdue:
            while True:
                error = _error_of_topics(cluster, names)
                if error is None:
                    return cluster
                if is_fresh:
                    overdue[:] = [error]
                    patience = patience_ms is not None and self.now_ms() - began_ms >= patience_ms
                    if patience or not error.retriable:
                        raise error
                if may_create:
                    self._metadata.ask_for(names, may_create=True)
                cluster, is_fresh = await self._metadata.news(), True

    # -- requests to one node

    def is_ready(self, node_id: int) -> bool:
        """Whether a request can be sent now. If not, `connect` waits until it can."""
        return self._transport.is_ready(node_id)

    def in_flight(self, node_id: int) -> int:
        connection = self._transport.connection(node_id)
        return 0 if connection is None else connection.in_flight

    def versions(self, node_id: int) -> Mapping[int, tuple[int, int]]:
        """The first and last version of each API that the node serves; Disconnected without a connection."""
        return self._connected(node_id).versions

    def features(self, node_id: int) -> Mapping[str, int]:
        """The cluster's finalized features and their levels, from this node's ApiVersions response."""
        return self._connected(node_id).features

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
        """Send now, after earlier requests; the future gets the response. Disconnected if the node is not ready.

        Without a response (produce with acks=0) the future is done, with None, when the system has taken the bytes.
        """
        connection = self._connected(node_id)
        if not expects_answer:
            return connection.send_and_forget(request, version=version)
        timeout_s = (self._request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        return connection.send(request, version=version, timeout_s=timeout_s)

    def send_encoded(
        self,
        node_id: int,
        key: ApiKey,
        version: int,
        body: list[Part],
        on_answer: OnAnswer,
        *,
        read: ReadAnswer,
        timeout_ms: int,
    ) -> None:
        """Send an encoded request and call `on_answer` with the response; see `ClientConnection.send_encoded`."""
        self._connected(node_id).send_encoded(
            api(key), version, body, on_answer, read=read, timeout_s=timeout_ms / 1000
        )

    async def ask(
        self, node_id: int, request: Any, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Connect if needed, send, and wait for the response. One attempt."""
        await self._connect(node_id)
        return await self.send(node_id, request, version=version, timeout_ms=timeout_ms)

    # -- requests that find their node

    async def ask_any(self, request: Any, *, deadline_ms: int | None = None) -> Any:
        """Ask the least busy node, or another one if it disconnects."""

        async def attempt() -> Any:
            return await (await self._any_connection()).ask(
                request, timeout_s=self._request_timeout_ms / 1000
            )

        return await self._repeat(attempt, deadline_ms, type(request).__name__)

    async def ask_controller(self, request: Any, *, deadline_ms: int | None = None) -> Any:
        """Ask the controller, or the node that forwards to it; looked up again if it has moved."""
        self._start()
        may_have_moved = not self.cluster.nodes

        async def attempt() -> Any:
            nonlocal may_have_moved
            if may_have_moved:
                await self._metadata.news()
            may_have_moved = True
            if self.cluster.controller_id not in self.cluster.nodes:
                raise errors.of(ErrorCode.NOT_CONTROLLER, "the cluster has no controller at present")
            response = await self.ask(self.cluster.controller_id, request)
            if first_of(response, {ErrorCode.NOT_CONTROLLER}) is not None:
                message = first_message(response, ErrorCode.NOT_CONTROLLER)
                raise errors.of(ErrorCode.NOT_CONTROLLER, message)
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
        """Ask the coordinator of a group or transaction; looked up again, with retries, while it moves or loads."""

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
        """The id for `ask` and `send` that reaches the coordinator. It names a separate connection and is not the
        node's id: see `node`."""
        return (await self.coordinators(kind, [key], deadline_ms=deadline_ms))[key]

    async def coordinators(
        self, kind: CoordinatorKind, keys: Sequence[str], *, deadline_ms: int | None = None
    ) -> dict[str, int]:
        """The coordinators of many keys, in few requests."""
        return await self._repeat(lambda: self._find(kind, keys), deadline_ms, "FindCoordinator")

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.forget(kind, key)

    def node(self, node_id: int) -> Node | None:
        """The node of an id, also of an id from `coordinator`."""
        if node_id > COORDINATOR_LANE // 2:
            node_id = COORDINATOR_LANE - node_id
        if node_id < 0:
            return self._bootstrap.nodes.get(node_id)
        return self.cluster.nodes.get(node_id) or self._found_nodes.get(node_id)

    async def close(self, *, timeout_ms: int = 0) -> None:
        """Close everything. Queued requests are still sent, within the timeout."""
        self._is_closed = True
        await self._metadata.close()
        await self._transport.close(timeout_s=timeout_ms / 1000)

    # -- called by the metadata updater

    async def ask_for_metadata(self, request: Any) -> Any:
        connection = await self._any_connection()
        timeout_s = self._request_timeout_ms / 1000
        if self._asks_controllers:
            from penstock.client import controllers

            described = await connection.ask(controllers.request(), timeout_s=timeout_s)
            response = controllers.as_metadata(request, described)
        else:
            response = await connection.ask(request, timeout_s=timeout_s)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self.return_to_bootstrap():
            raise errors.Disconnected(f"{connection.peer} told the client to use its bootstrap servers again")
        if response.error_code != ErrorCode.NONE:
            raise errors.of(response.error_code)
        if not response.brokers:  # a broker that has just started and is not registered yet
            raise errors.Disconnected(f"{connection.peer} knows no broker yet")
        self._bootstrap.answered()
        self._bootstrap.adopt(response.brokers, self._transport)
        return response

    def return_to_bootstrap(self) -> bool:
        """Use the bootstrap servers again, unless the settings forbid it: no known node can be reached."""
        if not self._bootstrap.return_to():
            return False
        for node_id in self.cluster.nodes:
            self._transport.drop(node_id)
        self._metadata.restart()
        return True

    # -- helpers

    def _get(self, name: str) -> Any:
        """A setting that not every kind of client has."""
        return self.settings.get(name) if name in self.settings.table() else None

    def _check_open(self) -> None:
        if self._is_closed:
            raise errors.ClientClosed

    def _start(self) -> None:
        self._check_open()
        self._metadata.start()

    def _connected(self, node_id: int) -> ClientConnection:
        connection = self._transport.connection(node_id)
        if connection is None:
            raise errors.Disconnected(f"no connection to {self.node(node_id) or f'node {node_id}'}")
        return connection

    async def _connect(self, node_id: int) -> ClientConnection:
        node = self.node(node_id)
        if node is None:
            self.mark_stale()
            raise errors.Disconnected(f"node {node_id} is not in the cluster")
        return await self._transport.connect(node_id, node)

    async def _any_connection(self) -> ClientConnection:
        self._check_open()
        await self._bootstrap.expand()
        node_id, returns = self._bootstrap.choose(self.cluster.nodes, self._transport)
        if returns:
            self._metadata.restart()
        return await self._connect(node_id)

    async def _find(self, kind: CoordinatorKind, keys: Sequence[str]) -> dict[str, int]:
        unknown = [key for key in keys if self._coordinators.get(kind, key) is None]
        if unknown:
            connection = await self._any_connection()
            version = connection.version_for(api(ApiKey.FIND_COORDINATOR))
            sent = [
                connection.send(request, version=version, timeout_s=self._request_timeout_ms / 1000)
                for request in finding.requests(kind, unknown, version)
            ]
            for key, node, error, message in finding.found(unknown, version, await asyncio.gather(*sent)):
                if error != ErrorCode.NONE:
                    raise errors.of(error, message, about=key)
                self._coordinators.put(kind, key, node)
                self._found_nodes[node.id] = node
        known = {key: self._coordinators.get(kind, key) for key in keys}
        return {key: COORDINATOR_LANE - node.id for key, node in known.items() if node is not None}

    async def _repeat(self, attempt: Callable[[], Awaitable[T]], deadline_ms: int | None, what: str) -> T:
        self._check_open()
        return await repeat(
            attempt,
            deadline_ms=self.deadline() if deadline_ms is None else deadline_ms,
            backoff=self.backoff,
            explain=partial(self._overdue, f"response to {what}"),
        )

    def _until(self, deadline_ms: int | None, what: str) -> Until:
        return Until(self.deadline() if deadline_ms is None else deadline_ms, partial(self._overdue, what))

    def _overdue(
        self, what: str, waited_ms: int, reason: errors.PenstockError | None
    ) -> errors.PenstockError:
        """The error to raise after a deadline."""
        if not self.cluster.nodes:
            attempts = self._bootstrap.why_not(self._transport, waited_ms)
            if attempts is not None:
                return errors.NoBrokersAvailable(attempts=attempts)
        reason = reason or self._metadata.failure
        if isinstance(reason, errors.UnknownTopicOrPartition):
            return reason  # it says more than a timeout
        return errors.TimedOut(f"no {what} within {waited_ms} ms" + (f": {reason}" if reason else ""))

    def _disconnected(self, node: Node) -> None:
        self._coordinators.forget_node(node.id)
        if not self._is_closed:
            self.mark_stale()


def _check_names(names: Collection[str]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise errors.BadArgument(f"{name!r} is not a valid topic name")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise errors.BadArgument(
                f"{name!r} is not a valid topic name: it cannot be encoded as UTF-8"
            ) from None


def _error_of_topics(cluster: Cluster, names: Collection[str]) -> errors.BrokerError | None:
    for name in names:
        topic = cluster.topics.get(name)
        if topic is None:
            return errors.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=name)
        if topic.error != ErrorCode.NONE:
            return errors.of(topic.error, about=name)
    return None


def _transport(
    settings: ClientSettings,
    network: Network | None,
    clock: Clock,
    rng: random.Random,
    on_disconnect: Callable[[Node], None],
) -> Transport:
    async def as_it_is(host: str, port: int) -> list[str]:
        return [host]  # a given network resolves names itself

    return Transport(
        network
        or SocketNetwork(
            SocketBuffers(
                send_bytes=settings.get("send.buffer.bytes"),
                receive_bytes=settings.get("receive.buffer.bytes"),
            )
        ),
        client_id=settings.client_id,
        security=Security(settings, now_s=lambda: clock.wall_ms() / 1000),
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
