"""How Admin asks: whom, how often, and for how long. The families say what.

A `Call` is one call of the application. It has a deadline (`default.api.timeout.ms`, or what the call was given) and
asks again until then where an error says that this may help, with a growing pause. Items of one call are asked about
together and answered one by one; only those that failed in passing are asked about again.

A topic that does not exist is told at once, although the protocol calls that error a passing one: whoever
administers wants to know. Only topics that this Admin has just made are waited for, because not every broker hears of
them at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, TypeVar

from penstock.client import errors
from penstock.client.admin.gathering import AskNode, Attempt, Find, attempted, gathered
from penstock.client.admin.outcome import Answers
from penstock.client.answers import first_of
from penstock.client.argument_types import checked
from penstock.client.backoff import Backoff
from penstock.client.cluster import Cluster, TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.coordinators import PASSING
from penstock.client.deadlines import milliseconds
from penstock.client.errors import ItemsFailed, PenstockError
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode, UnsupportedField

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LOST = (errors.Disconnected, errors.BrokerNotAvailable)
GONE = object()
"""In place of the answer of a broker that is no longer there."""
FRESH_MS = 10_000  # brokers hear of a topic within a second or so


class Newest(NamedTuple):
    """The last version of an API that is wanted, where a later one means something else."""

    key: ApiKey
    version: int


class FreshTopics:
    """Topics made here that not every broker may have heard of yet, though one has told of them."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._until_ms: dict[object, int] = {}

    def add(self, names: Iterable[str]) -> None:
        self._until_ms |= dict.fromkeys(names, self._client.now_ms() + FRESH_MS)

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            self._until_ms.pop(name, None)

    def has(self, name: object) -> bool:
        if name in self._until_ms and self._until_ms[name] < self._client.now_ms():
            del self._until_ms[name]
        return name in self._until_ms


class AdminCalls:
    """What the families have in common; each of them is a mixin over this."""

    _checks_arguments = True
    """Whether the calls that a class defines check their arguments. Internal subclasses turn it off: they are called
    with large objects that need no check."""

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
        self._fresh_topics = FreshTopics(client)

    async def connect(self, *, timeout: float | None = None) -> None:
        """Reach the cluster now rather than with the first call; `NoBrokersAvailable` if nobody answers in time."""
        await self._client.refresh(deadline_ms=self._client.deadline(milliseconds(timeout)))

    def _begin(self, what: str, timeout: float | None) -> Call:
        """`what` completes the sentence "could not ..."."""
        return Call(self._client, what, timeout, self._fresh_topics)


class Call:
    def __init__(
        self, client: ClusterClient, what: str, timeout: float | None, fresh_topics: FreshTopics
    ) -> None:
        self._client = client
        self._what = what
        self._fresh_topics = fresh_topics
        self._deadline_ms = client.deadline(milliseconds(timeout))
        settings = client.settings
        self._request_timeout_ms: int = settings.get("request.timeout.ms")
        self._asks_controllers = bool(settings.get("bootstrap.controllers"))
        self._backoff = Backoff(settings.get("retry.backoff.ms"), settings.get("retry.backoff.max.ms"))

    def left_ms(self) -> int:
        """How much of the call's time is left."""
        return max(0, self._deadline_ms - self._client.now_ms())

    def left_s(self) -> float:
        """The same as the `timeout` of another call that is part of this one."""
        return self.left_ms() / 1000

    def request_ms(self) -> int:
        """How long a broker may take for one request of this call."""
        return min(self.left_ms(), self._request_timeout_ms)

    def broker_of(self, node_id: int | None) -> int:
        """The id of the broker behind a place to ask, which for a coordinator is not the same."""
        node = None if node_id is None else self._client.node(node_id)
        return -1 if node is None else node.id

    # -- one question

    async def ask(self, request: Any) -> Any:
        """Ask any broker; of controllers, the one that leads, for the others pass nothing on."""
        if self._asks_controllers:
            return await self.ask_controller(request)
        with _one_error():
            return await self._client.ask_any(request, deadline_ms=self._deadline_ms)

    async def ask_controller(self, request: Any) -> Any:
        with _one_error():
            return await self._client.ask_controller(request, deadline_ms=self._deadline_ms)

    async def ask_node(self, node_id: int | None, request: Any, *, newest: Newest | None = None) -> Any:
        """Ask one broker, or any; in no version after `newest`."""
        if node_id is None:
            return await self.ask(request)
        with _one_error():
            if self._client.node(node_id) is None:
                await self._client.refresh(deadline_ms=self._deadline_ms)
            if self._client.node(node_id) is None:
                raise errors.BrokerNotAvailable(f"the cluster has no node {node_id}, or it is down")
            await self._connect(node_id)
            version = None
            if newest is not None:
                version = min(newest.version, self._client.version_of(node_id, newest.key))
            return await self._client.ask(node_id, request, version=version, timeout_ms=self.request_ms())

    async def _connect(self, node_id: int) -> None:
        """Within the call's own time: a node that is cut off may take longer than that to be given up."""
        try:
            async with asyncio.timeout(self.left_ms() / 1000):
                await self._client.connect(node_id)
        except TimeoutError as late:
            if isinstance(late, PenstockError):
                raise
            raise errors.TimedOut(f"no connection to {self._client.node(node_id)} in time") from None

    async def feature_level(self, kind: CoordinatorKind, key: str, feature: str) -> int:
        """The level of a feature of the cluster, as the coordinator of one group or transaction knows it."""
        node_id = await self._client.coordinator(kind, key, deadline_ms=self._deadline_ms)
        await self._connect(node_id)
        return self._client.features(node_id).get(feature, 0)

    async def ask_coordinator(
        self, kind: CoordinatorKind, key: str, request: Any, *, newest: Newest | None = None
    ) -> Any:
        """Ask the coordinator of one group or transaction."""
        node_id = await self._client.coordinator(kind, key, deadline_ms=self._deadline_ms)
        response = await self.ask_node(node_id, request, newest=newest)
        code = first_of(response, PASSING)
        if code is not None:
            self._client.forget_coordinator(kind, key)
            raise errors.of(code, about=key)
        return response

    async def repeat(self, attempt: Callable[[], Awaitable[V]]) -> V:
        """Ask as a whole until it succeeds, fails for good or the time is up."""

        async def once(_: list[None]) -> Answers[None, V]:
            return {None: await attempt()}

        done, failed = await self.settle([None], once)
        for error in failed.values():
            raise error
        return done[None]

    async def everywhere(self, request: Any) -> dict[int, Any]:
        """Ask every broker of the cluster the same; the first error is raised, as half an answer would mislead.

        A broker that leaves the cluster meanwhile has nothing to tell any more.
        """
        cluster = await self._client.refresh(deadline_ms=self._deadline_ms)

        async def attempt(nodes: list[int]) -> Answers[int, Any]:
            told = await gathered({node_id: self.ask_node(node_id, request) for node_id in nodes})
            lost = [node_id for node_id in nodes if isinstance(told[node_id], LOST)]
            if lost:
                there = (await self._client.refresh(deadline_ms=self._deadline_ms)).nodes
                told |= {node_id: GONE for node_id in lost if node_id not in there}
            return told

        done, failed = await self.settle(sorted(cluster.nodes), attempt)
        for error in failed.values():
            raise error
        return {node_id: told for node_id, told in done.items() if told is not GONE}

    async def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of topics, as they are now; the first topic that there is not raises."""
        names = list(dict.fromkeys(topics))
        patience_ms = None if all(map(self._fresh_topics.has, names)) else 0
        await self._client.topics(names, deadline_ms=self._deadline_ms, patience_ms=patience_ms)
        cluster = await self._client.refresh(deadline_ms=self._deadline_ms)
        return [partition for name in names for partition in cluster.partitions_of(name)]

    # -- many items

    async def each(
        self, items: Iterable[K], attempt: Attempt[K, V], *, is_repeatable: bool = True
    ) -> dict[K, V]:
        """A value for each item, or `ItemsFailed`.

        What is not repeatable is not asked again when the controller ran out of time: it may have done it after all,
        and would then tell that it cannot be done twice.
        """
        return self.finish(*await self.settle(items, attempt, is_repeatable=is_repeatable))

    def finish(self, done: dict[K, V], failed: Mapping[K, PenstockError]) -> dict[K, V]:
        if failed:
            raise ItemsFailed.of(self._what, failed, done)
        return done

    def split(self, answers: Answers[K, V]) -> dict[K, V]:
        """For an answer whose items nobody named before: its values, or `ItemsFailed`."""
        done: dict[K, V] = {}
        failed: dict[K, PenstockError] = {}
        for item, told in answers.items():
            if isinstance(told, PenstockError):
                failed[item] = told
            else:
                done[item] = told
        return self.finish(done, failed)

    async def settle(
        self, items: Iterable[K], attempt: Attempt[K, V], *, is_repeatable: bool = True
    ) -> tuple[dict[K, V], dict[K, PenstockError]]:
        """Ask about the items until none is left whose error may pass, or the time is up."""
        done: dict[K, V] = {}
        failed: dict[K, PenstockError] = {}
        waiting = list(dict.fromkeys(items))
        rounds = 0
        while waiting:
            passing: dict[K, PenstockError] = {}
            for item, told in (await attempted(waiting, attempt)).items():
                if not isinstance(told, PenstockError):
                    done[item] = told
                elif self._may_pass(item, told) and (
                    is_repeatable or not isinstance(told, errors.RequestTimedOut)
                ):
                    passing[item] = told
                else:
                    failed[item] = told
            waiting = list(passing)
            rounds += 1
            pause_ms = self._backoff.wait_ms(rounds)
            if waiting and pause_ms >= self.left_ms():
                failed |= {item: self._overdue(error) for item, error in passing.items()}
                break
            if waiting:
                await asyncio.sleep(pause_ms / 1000)
            if any(isinstance(error, errors.StaleMetadata) for error in passing.values()):
                await self._client.refresh(deadline_ms=self._deadline_ms)
        return done, failed

    def _may_pass(self, item: object, error: PenstockError) -> bool:
        if isinstance(error, errors.UnknownTopicOrPartition | errors.UnknownTopicId):
            topic = item.topic if isinstance(item, TopicPartition) else item
            return self._fresh_topics.has(topic)
        return error.retriable

    def _overdue(self, error: PenstockError) -> PenstockError:
        if isinstance(error, errors.TimedOut | errors.NoBrokersAvailable | errors.UnknownTopicOrPartition):
            return error
        overdue = errors.TimedOut(f"could not {self._what} in time: {error}")
        overdue.__cause__ = error
        return overdue

    # -- whom to ask about what

    def to(self, find: Find[K], ask: AskNode[K, V]) -> Attempt[K, V]:
        """An attempt which asks about each item where `find` says, all places at the same time."""

        async def attempt(items: list[K]) -> Answers[K, V]:
            answers: dict[K, V | PenstockError] = {}
            owned: dict[int | None, list[K]] = {}
            for item, place in (await find(items)).items():
                if isinstance(place, PenstockError):
                    answers[item] = place
                else:
                    owned.setdefault(place, []).append(item)
            told = await gathered({node_id: ask(node_id, items) for node_id, items in owned.items()})
            for node_id, of_node in told.items():
                if isinstance(of_node, PenstockError):
                    answers.update(dict.fromkeys(owned[node_id], of_node))
                else:
                    answers.update(of_node)
            return answers

        return attempt

    def to_leaders(self, ask: AskNode[TopicPartition, V]) -> Attempt[TopicPartition, V]:
        return self.to(self.find_leaders, ask)

    async def find_leaders(self, partitions: list[TopicPartition]) -> Answers[TopicPartition, int | None]:
        """Which node leads each partition, or why nobody does."""
        names = {partition.topic for partition in partitions}
        patience_ms = None if all(map(self._fresh_topics.has, names)) else 0
        try:
            cluster = await self._client.topics(names, deadline_ms=self._deadline_ms, patience_ms=patience_ms)
        except errors.BrokerError:
            cluster = self._client.cluster  # which has an error, or none, for each of them
        if any(cluster.partition(partition) is None for partition in partitions):
            # It may have been added since this picture was made.
            cluster = await self._client.refresh(deadline_ms=self._deadline_ms)
        return {partition: _leader(cluster, partition) for partition in partitions}

    def to_coordinators(self, kind: CoordinatorKind, ask: AskNode[str, V]) -> Attempt[str, V]:
        async def find(keys: list[str]) -> Answers[str, int | None]:
            # One by one, so that the error of one key is not taken for that of all; what is known costs nothing.
            return await gathered(
                {key: self._client.coordinator(kind, key, deadline_ms=self._deadline_ms) for key in keys}
            )

        async def ask_and_learn(node_id: int | None, keys: list[str]) -> Answers[str, V]:
            answers = await ask(node_id, keys)
            for key, told in answers.items():
                if isinstance(told, errors.CoordinatorUnavailable):
                    self._client.forget_coordinator(kind, key)
            return answers

        return self.to(find, ask_and_learn)


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
def _one_error() -> Iterator[None]:
    """A request that needs a newer version than the broker has is refused in the same way as one it does not serve."""
    try:
        yield
    except UnsupportedField as error:
        raise errors.UnsupportedVersion(str(error)) from error
