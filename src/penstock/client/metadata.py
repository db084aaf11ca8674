"""Keeps the cluster's metadata up to date: one task sends requests, and all waiters share the responses.

Metadata is requested when a caller waits for it, when it was marked stale, and when it is older than
`metadata.max.age.ms`. Between two requests there is always a backoff, longer if the responses bring nothing new. A
hundred waiters cost one request.

Invariant: a waiter is woken by the response to a request that was sent after it began to wait, or by its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from penstock.client.cluster import Cluster, LeaderChange, Node, Topic
from penstock.client.errors import ClientClosed, PenstockError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.runtime.backoff import Backoff

# How long a topic that was asked for once stays in the metadata, as in Kafka's producer (metadata.max.idle.ms).
ASKED_FOR_S = 300.0


class Source(Protocol):
    """Sends metadata requests."""

    async def ask_for_metadata(self, request: MetadataRequest) -> MetadataResponse:
        """The response of any node; raises if there is none. One attempt."""
        ...

    def return_to_bootstrap(self) -> bool:
        """No node has responded for long: use the bootstrap servers, if the settings allow it."""
        ...


@dataclass(slots=True, eq=False)
class _Waiter:
    request_number: int
    """The number of the first request that counts for it."""
    woken: asyncio.Future[Cluster]


class MetadataUpdater:
    def __init__(self, source: Source, *, max_age_s: float, patience_s: float, backoff: Backoff) -> None:
        self.cluster = Cluster()
        self.failure: PenstockError | None = None
        """Why the last request failed; None after a success."""
        self._source = source
        self._max_age_s = max_age_s
        self._patience_s = patience_s
        self._failing_since: float | None = None
        self._backoff = backoff
        self._listeners: list[Callable[[Cluster], None]] = []
        self._waiters: list[_Waiter] = []
        self._wanted: frozenset[str] | None = frozenset()
        self._asked: dict[str, float] = {}
        self._to_create: set[str] = set()
        self._requests = 0
        self._in_vain = 0
        """The number of consecutive requests that failed or brought nothing new."""
        self._is_stale = True
        self._updated_at: float | None = None
        self._asked_at = 0.0
        self._begins_anew = False
        self._task: asyncio.Task[None] | None = None
        self._bell: asyncio.Event = asyncio.Event()

    # -- requested topics

    def want(self, names: Collection[str] | None) -> None:
        """Keep these topics in the metadata from now on; None: all topics."""
        wanted = None if names is None else frozenset(names)
        if wanted == self._wanted:
            return
        is_more = wanted is None or any(name not in self.cluster.topics for name in wanted)
        self._wanted = wanted
        if is_more:
            self._in_vain = 0
            self.mark_stale()

    def ask_for(self, names: Collection[str], *, may_create: bool) -> None:
        """Keep these topics for some time, and let the broker create them if it is configured to."""
        now = asyncio.get_running_loop().time()
        if any(name not in self._asked for name in names):
            self._in_vain = 0  # no response has covered it yet
        for name in names:
            self._asked[name] = now
        if may_create:
            self._to_create.update(names)

    def mark_stale(self) -> None:
        """Refresh soon."""
        self._is_stale = True
        self._ring()

    def restart(self) -> None:
        """Drop everything with the next response: it may come from another cluster."""
        self._begins_anew = True
        self.mark_stale()

    def on_update(self, listener: Callable[[Cluster], None]) -> None:
        self._listeners.append(listener)

    def take_leaders(self, changes: Collection[LeaderChange], nodes: Collection[Node]) -> None:
        """New leaders from the response to a produce or fetch request (KIP-951)."""
        cluster = self.cluster.with_leaders(changes, nodes)
        if cluster is not self.cluster:
            self._show(cluster)

    async def news(self, *, at_once: bool = False) -> Cluster:
        """The metadata from a request that is sent from now on. Waits as long as that takes; with `at_once` without the
        backoff."""
        if at_once:
            self._in_vain = 0
        waiter = _Waiter(self._requests + 1, asyncio.get_running_loop().create_future())
        if self._task is not None and self._task.done():
            self._task.result()  # it ends only because of a bug, which is raised here
        self._waiters.append(waiter)
        self._ring()
        try:
            return await waiter.woken
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._fail_waiters(ClientClosed())

    def start(self) -> None:
        """Start the task, also again after it was cancelled, as `asyncio.run()` does with all tasks at its end."""
        if self._task is None or self._task.cancelled():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="penstock-metadata")

    # -- the task

    def _ring(self) -> None:
        self._bell.set()

    async def _run(self) -> None:
        try:
            while True:
                await self._until_due()
                await self._update()
        except Exception as error:  # a bug: no caller may wait for a task that has ended
            self._fail_waiters(error)
            raise

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._bell.clear()
            if self._is_stale or self._waiters:
                due_at = self._asked_at + self._backoff.wait_ms(self._in_vain) / 1000
            else:
                due_at = (self._updated_at or loop.time()) + self._max_age_s
            if due_at <= loop.time():
                return
            try:
                async with asyncio.timeout_at(due_at):
                    await self._bell.wait()  # it may be due earlier now
            except TimeoutError:
                return

    async def _update(self) -> None:
        loop = asyncio.get_running_loop()
        self._requests += 1
        number = self._requests
        self._is_stale = False
        to_create, self._to_create = self._to_create, set()
        self._asked_at = loop.time()
        try:
            names = self._names()
            response = await self._source.ask_for_metadata(_request(names, may_create=False))
            cluster = (Cluster() if self._begins_anew else self.cluster).merged(response)
            # Topics that may be created have a request of their own, so that no other topic is created by it.
            missing = sorted(name for name in to_create if not _is_known(cluster, name))
            if missing:
                created = await self._source.ask_for_metadata(_request(missing, may_create=True))
                cluster = cluster.merged(created, keep=cluster.topics.keys())
        except PenstockError as error:
            self._failed(error)
            self._to_create |= to_create
            return
        self.failure = None
        self._begins_anew = False
        self._failing_since = None
        self._updated_at = loop.time()
        self._in_vain = self._in_vain + 1 if cluster == self.cluster else 1
        self._is_stale |= any(map(self._needs_refresh, cluster.topics.values()))
        self._show(cluster)
        self._wake(number)

    def _failed(self, error: PenstockError) -> None:
        self.failure = error
        self._in_vain += 1
        self._is_stale = True
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= self._patience_s:
            self._failing_since = None
            self._source.return_to_bootstrap()
        if not error.retriable:
            # No request is repeated in vain without end; the next waiter causes another one.
            self._is_stale = False
            self._fail_waiters(error)

    def _fail_waiters(self, error: Exception) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.woken.done():
                waiter.woken.set_exception(error)

    def _names(self) -> list[str] | None:
        if self._wanted is None:
            return None
        oldest = asyncio.get_running_loop().time() - ASKED_FOR_S
        self._asked = {name: at for name, at in self._asked.items() if at > oldest}
        return sorted(self._wanted | self._asked.keys())

    def _needs_refresh(self, topic: Topic) -> bool:
        """Whether a wanted topic is incomplete, so that a refresh soon makes sense."""
        if self._wanted is not None and topic.name not in self._wanted:
            return False
        return topic.error.is_retriable or any(each.error.is_retriable for each in topic.partitions)

    def _show(self, cluster: Cluster) -> None:
        self.cluster = cluster
        for listener in self._listeners:
            listener(cluster)

    def _wake(self, number: int) -> None:
        woken = [waiter for waiter in self._waiters if waiter.request_number <= number]
        self._waiters = [waiter for waiter in self._waiters if waiter.request_number > number]
        for waiter in woken:
            if not waiter.woken.done():
                waiter.woken.set_result(self.cluster)


def _request(names: list[str] | None, *, may_create: bool) -> MetadataRequest:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)


def _is_known(cluster: Cluster, name: str) -> bool:
    topic = cluster.topics.get(name)
    return topic is not None and topic.error == ErrorCode.NONE
