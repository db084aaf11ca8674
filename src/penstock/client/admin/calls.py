"""Sends the requests of Admin: to the right node, with retries and a deadline. The families make the requests.

A `Call` is one call of the application. It has a deadline (`default.api.timeout.ms`, or the call's `timeout`) and
retries retriable errors until then, with backoff. The items of one call share requests, but each has its own result;
only items with a retriable error are asked for again.

A topic that does not exist is reported at once, although the protocol calls that error retriable: an administrator
wants to know. Only topics that this Admin has just created are waited for, because brokers learn of them at different
times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, TypeVar

from penstock.client import errors
from penstock.client.admin.results import AskNode, Attempt, Find, Results, attempt_all, gather_results
from penstock.client.argument_types import checked
from penstock.client.cluster import Cluster, TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.coordinators import PASSING
from penstock.client.deadlines import milliseconds
from penstock.client.errors import ItemsFailed, PenstockError
from penstock.client.responses import first_of
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode, UnsupportedField

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LOST = (errors.Disconnected, errors.BrokerNotAvailable)
LEFT_CLUSTER = object()
"""The result of a broker that has left the cluster."""
RECENT_MS = 10_000  # brokers learn of a topic within about a second


class MaxVersion(NamedTuple):
    """The newest version of an API that may be used, because later ones mean something else."""

    key: ApiKey
    version: int


class RecentTopics:
    """Topics created here that some brokers may not know yet."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._until_ms: dict[object, int] = {}

    def add(self, names: Iterable[str]) -> None:
        self._until_ms |= dict.fromkeys(names, self._client.now_ms() + RECENT_MS)

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            self._until_ms.pop(name, None)

    def has(self, name: object) -> bool:
        if name in self._until_ms and self._until_ms[name] < self._client.now_ms():
            del self._until_ms[name]
        return name in self._until_ms


class AdminCalls:
    """The base of all families; each of them is a mixin over this."""

    _checks_arguments = True
    """Whether the public calls of a class check their arguments. Internal subclasses turn it off: they are called with
    large objects that need no check."""

    def __init_subclass__(cls) -> None:
        """Every public call checks its arguments against its annotations."""
        super().__init_subclass__()
        if not cls._checks_arguments:
            return
        for name, member in list(vars(cls).items()):
            if iscoroutinefunction(member) and not name.startswith("_"):
                setattr(cls, name, checked(member))

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._recent_topics = RecentTopics(client)

    async def connect(self, *, timeout: float | None = None) -> None:
        """Connect to the cluster now rather than with the first call; raises `NoBrokersAvailable`."""
        await self._client.refresh(deadline_ms=self._client.deadline(milliseconds(timeout)))

    def _begin(self, what: str, timeout: float | None) -> Call:
        """`what` completes the sentence "could not ..."."""
        return Call(self._client, what, timeout, self._recent_topics)


class Call:
    def __init__(
        self, client: ClusterClient, what: str, timeout: float | None, recent_topics: RecentTopics
    ) -> None:
        self._client = client
        self._what = what
        self._recent_topics = recent_topics
        self._deadline_ms = client.deadline(milliseconds(timeout))
        settings = client.settings
        self._request_timeout_ms: int = settings.get("request.timeout.ms")
        self._asks_controllers = bool(settings.get("bootstrap.controllers"))
        self._backoff = client.backoff

    def left_ms(self) -> int:
        """The milliseconds left until the deadline."""
        return max(0, self._deadline_ms - self._client.now_ms())

    def left_s(self) -> float:
        """The same in seconds, as the `timeout` of another call that is part of this one."""
        return self.left_ms() / 1000

    def request_ms(self) -> int:
        """How long a broker may take for one request of this call."""
        return min(self.left_ms(), self._request_timeout_ms)

    def broker_of(self, node_id: int | None) -> int:
        """The broker id of a node id, which may stand for a coordinator's connection."""
        node = None if node_id is None else self._client.node(node_id)
        return -1 if node is None else node.id

    # -- one request

    async def ask(self, request: Any) -> Any:
        """Ask any broker; of controllers the active one, because the others forward nothing."""
        if self._asks_controllers:
            return await self.ask_controller(request)
        with _unsupported_version():
            return await self._client.ask_any(request, deadline_ms=self._deadline_ms)

    async def ask_controller(self, request: Any) -> Any:
        with _unsupported_version():
            return await self._client.ask_controller(request, deadline_ms=self._deadline_ms)

    async def ask_node(
        self, node_id: int | None, request: Any, *, max_version: MaxVersion | None = None
    ) -> Any:
        """Ask one broker, or any; in no version after `max_version`."""
        if node_id is None:
            return await self.ask(request)
        with _unsupported_version():
            if self._client.node(node_id) is None:
                await self._client.refresh(deadline_ms=self._deadline_ms)
            if self._client.node(node_id) is None:
                raise errors.BrokerNotAvailable(f"node {node_id} is not in the cluster, or is down")
            await self._connect(node_id)
            version = None
            if max_version is not None:
                version = min(max_version.version, self._client.version_of(node_id, max_version.key))
            return await self._client.ask(node_id, request, version=version, timeout_ms=self.request_ms())

    async def _connect(self, node_id: int) -> None:
        """Connect within the call's deadline: an unreachable node may take longer to time out."""
        try:
            async with asyncio.timeout(self.left_ms() / 1000):
                await self._client.connect(node_id)
        except TimeoutError as late:
            if isinstance(late, PenstockError):
                raise
            raise errors.TimedOut(f"no connection to {self._client.node(node_id)} in time") from None

    async def feature_level(self, kind: CoordinatorKind, key: str, feature: str) -> int:
        """The level of a cluster feature, as the coordinator of one group or transaction knows it."""
        node_id = await self._client.coordinator(kind, key, deadline_ms=self._deadline_ms)
        await self._connect(node_id)
        return self._client.features(node_id).get(feature, 0)

    async def ask_coordinator(
        self, kind: CoordinatorKind, key: str, request: Any, *, max_version: MaxVersion | None = None
    ) -> Any:
        """Ask the coordinator of one group or transaction."""
        node_id = await self._client.coordinator(kind, key, deadline_ms=self._deadline_ms)
        response = await self.ask_node(node_id, request, max_version=max_version)
        code = first_of(response, PASSING)
        if code is not None:
            self._client.forget_coordinator(kind, key)
            raise errors.of(code, about=key)
        return response

    async def retry(self, attempt: Callable[[], Awaitable[V]]) -> V:
        """Repeat one attempt until it succeeds, fails for good, or the deadline passes."""

        async def once(_: list[None]) -> Results[None, V]:
            return {None: await attempt()}

        done, failed = await self.retry_each([None], once)
        for error in failed.values():
            raise error
        return done[None]

    async def ask_all_brokers(self, request: Any) -> dict[int, Any]:
        """Send the same request to every broker; raises the first error, because a partial result would mislead.

        A broker that leaves the cluster meanwhile is left out.
        """
        cluster = await self._client.refresh(deadline_ms=self._deadline_ms)

        async def attempt(nodes: list[int]) -> Results[int, Any]:
            result = await gather_results({node_id: self.ask_node(node_id, request) for node_id in nodes})
            lost = [node_id for node_id in nodes if isinstance(result[node_id], LOST)]
            if lost:
                there = (await self._client.refresh(deadline_ms=self._deadline_ms)).nodes
                result |= {node_id: LEFT_CLUSTER for node_id in lost if node_id not in there}
            return result

        done, failed = await self.retry_each(sorted(cluster.nodes), attempt)
        for error in failed.values():
            raise error
        return {node_id: result for node_id, result in done.items() if result is not LEFT_CLUSTER}

    async def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All present partitions of topics; raises the error of the first topic that does not exist."""
        names = list(dict.fromkeys(topics))
        patience_ms = None if all(map(self._recent_topics.has, names)) else 0
        await self._client.topics(names, deadline_ms=self._deadline_ms, patience_ms=patience_ms)
        cluster = await self._client.refresh(deadline_ms=self._deadline_ms)
        return [partition for name in names for partition in cluster.partitions_of(name)]

    # -- many items

    async def run_each(
        self, items: Iterable[K], attempt: Attempt[K, V], *, is_repeatable: bool = True
    ) -> dict[K, V]:
        """A value for each item, or `ItemsFailed`.

        If it is not repeatable, it is not retried after the controller timed out: the change may have been made, and a
        second attempt would report that it cannot be made twice.
        """
        return self.finish(*await self.retry_each(items, attempt, is_repeatable=is_repeatable))

    def finish(self, done: dict[K, V], failed: Mapping[K, PenstockError]) -> dict[K, V]:
        if failed:
            raise ItemsFailed.of(self._what, failed, done)
        return done

    def split(self, results: Results[K, V]) -> dict[K, V]:
        """The values of a response whose items the caller did not name, or `ItemsFailed`."""
        done: dict[K, V] = {}
        failed: dict[K, PenstockError] = {}
        for item, result in results.items():
            if isinstance(result, PenstockError):
                failed[item] = result
            else:
                done[item] = result
        return self.finish(done, failed)

    async def retry_each(
        self, items: Iterable[K], attempt: Attempt[K, V], *, is_repeatable: bool = True
    ) -> tuple[dict[K, V], dict[K, PenstockError]]:
        """Retry until no item has a retriable error, or the deadline passes."""
        done: dict[K, V] = {}
        failed: dict[K, PenstockError] = {}
        waiting = list(dict.fromkeys(items))
        rounds = 0
        while waiting:
            retriable: dict[K, PenstockError] = {}
            for item, result in (await attempt_all(waiting, attempt)).items():
                if not isinstance(result, PenstockError):
                    done[item] = result
                elif self._is_retriable(item, result) and (
                    is_repeatable or not isinstance(result, errors.RequestTimedOut)
                ):
                    retriable[item] = result
                else:
                    failed[item] = result
            waiting = list(retriable)
            rounds += 1
            pause_ms = self._backoff.wait_ms(rounds)
            if waiting and pause_ms >= self.left_ms():
                failed |= {item: self._timed_out(error) for item, error in retriable.items()}
                break
            if waiting:
                await asyncio.sleep(pause_ms / 1000)
            if any(isinstance(error, errors.StaleMetadata) for error in retriable.values()):
                await self._client.refresh(deadline_ms=self._deadline_ms)
        return done, failed

    def _is_retriable(self, item: object, error: PenstockError) -> bool:
        if isinstance(error, errors.UnknownTopicOrPartition | errors.UnknownTopicId):
            topic = item.topic if isinstance(item, TopicPartition) else item
            return self._recent_topics.has(topic)
        return error.retriable

    def _timed_out(self, error: PenstockError) -> PenstockError:
        if isinstance(error, errors.TimedOut | errors.NoBrokersAvailable | errors.UnknownTopicOrPartition):
            return error
        late = errors.TimedOut(f"could not {self._what} in time: {error}")
        late.__cause__ = error
        return late

    # -- finding nodes

    def by_node(self, find: Find[K], ask: AskNode[K, V]) -> Attempt[K, V]:
        """An attempt that asks about each item at the node that `find` returns, all nodes concurrently."""

        async def attempt(items: list[K]) -> Results[K, V]:
            results: dict[K, V | PenstockError] = {}
            by_node_id: dict[int | None, list[K]] = {}
            for item, place in (await find(items)).items():
                if isinstance(place, PenstockError):
                    results[item] = place
                else:
                    by_node_id.setdefault(place, []).append(item)
            result = await gather_results(
                {node_id: ask(node_id, items) for node_id, items in by_node_id.items()}
            )
            for node_id, of_node in result.items():
                if isinstance(of_node, PenstockError):
                    results.update(dict.fromkeys(by_node_id[node_id], of_node))
                else:
                    results.update(of_node)
            return results

        return attempt

    def to_leaders(self, ask: AskNode[TopicPartition, V]) -> Attempt[TopicPartition, V]:
        return self.by_node(self.find_leaders, ask)

    async def find_leaders(self, partitions: list[TopicPartition]) -> Results[TopicPartition, int | None]:
        """The leader of each partition, or the error why there is none."""
        names = {partition.topic for partition in partitions}
        patience_ms = None if all(map(self._recent_topics.has, names)) else 0
        try:
            cluster = await self._client.topics(names, deadline_ms=self._deadline_ms, patience_ms=patience_ms)
        except errors.BrokerError:
            cluster = self._client.cluster  # it has the error of each topic, if any
        if any(cluster.partition(partition) is None for partition in partitions):
            # The partition may have been added since this metadata was received.
            cluster = await self._client.refresh(deadline_ms=self._deadline_ms)
        return {partition: _leader(cluster, partition) for partition in partitions}

    def to_coordinators(self, kind: CoordinatorKind, ask: AskNode[str, V]) -> Attempt[str, V]:
        async def find(keys: list[str]) -> Results[str, int | None]:
            # One by one, so that the error of one key is not that of all; cached coordinators cost nothing.
            return await gather_results(
                {key: self._client.coordinator(kind, key, deadline_ms=self._deadline_ms) for key in keys}
            )

        async def ask_and_learn(node_id: int | None, keys: list[str]) -> Results[str, V]:
            results = await ask(node_id, keys)
            for key, result in results.items():
                if isinstance(result, errors.CoordinatorUnavailable):
                    self._client.forget_coordinator(kind, key)
            return results

        return self.by_node(find, ask_and_learn)


def _leader(cluster: Cluster, partition: TopicPartition) -> int | PenstockError:
    topic, found = cluster.topics.get(partition.topic), cluster.partition(partition)
    if topic is not None and topic.error is not ErrorCode.NONE:
        return errors.of(topic.error, about=partition)
    if found is None:
        return errors.UnknownTopicOrPartition(about=partition)
    if found.leader is None:
        return errors.LeaderNotAvailable(about=partition)
    return found.leader.node_id


@contextmanager
def _unsupported_version() -> Iterator[None]:
    """A request that needs a newer version than the broker's fails like one for an API that it does not serve."""
    try:
        yield
    except UnsupportedField as error:
        raise errors.UnsupportedVersion(str(error)) from error
