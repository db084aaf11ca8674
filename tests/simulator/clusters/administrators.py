"""Administrators of a cluster: create and delete topics, move replicas, elect preferred leaders, change settings.

They ask any broker, which forwards the request to the active controller. A change that was acknowledged holds at the
end; one without a response may or may not have happened, and may still happen later. So no topic name is used twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.metadata.resources import ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.protocol.types import ZERO_UUID
from simulator.cluster import SimulatedCluster
from simulator.clusters.client import ClusterClient, NoAnswer
from simulator.clusters.producers import IsOver
from simulator.world import BrokenPromise

TIMEOUT_MS = 3_000
SET = 0
PREFERRED = 0

UNAVAILABLE = (
    ErrorCode.INVALID_REPLICATION_FACTOR,  # too few brokers are registered and unfenced
    ErrorCode.TOPIC_ALREADY_EXISTS,  # the broker has sent it twice: the first response was lost
    ErrorCode.BROKER_NOT_AVAILABLE,
)
NO_MOVE = (
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # one of the brokers is not registered
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
NO_ELECTION = (
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


@dataclass(slots=True)
class _TopicState:
    is_created: bool = False
    """The creation was acknowledged."""
    may_be_deleted: bool = False
    """A deletion was sent."""
    is_deleted: bool = False
    """The deletion was acknowledged."""


class Administrator(ClusterClient):
    def __init__(
        self,
        cluster: SimulatedCluster,
        name: str,
        topics: Sequence[str],
        is_over: IsOver,
        *,
        moves_replicas: bool,
        alters_min_isr: bool = False,
    ) -> None:
        super().__init__(cluster, name)
        self._is_over = is_over
        self._stable_topics = topics
        """These are never deleted, but their replicas move."""
        self._moves_replicas = moves_replicas
        self._alters_min_isr = alters_min_isr
        self._topics: dict[str, _TopicState] = {}

    async def run(self) -> None:
        actions = [self._create, self._delete, self._elect, self._elect]
        if self._moves_replicas:
            actions += [self._move] * 3 + [self._cancel_moves]
        if self._alters_min_isr:
            actions += [self._alter_min_isr] * 4
        while not self._is_over():
            with contextlib.suppress(NoAnswer):
                await self.random.choice(actions)()
            await self.pause(2.0)

    async def create(
        self, topic: str, *, partitions: int, replicas: int, configs: Mapping[str, str]
    ) -> ErrorCode:
        """The error code; a retriable one, or one of UNAVAILABLE, may be tried again."""
        response = await self.ask_any(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=topic,
                        num_partitions=partitions,
                        replication_factor=replicas,
                        assignments=[],
                        configs=[
                            CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
                        ],
                    )
                ],
                timeout_ms=TIMEOUT_MS,
            )
        )
        (created,) = response.topics
        error: ErrorCode = created.error_code
        if error not in (ErrorCode.NONE, *UNAVAILABLE) and not error.is_retriable:
            raise BrokenPromise(f"{topic} cannot be created: {error.name} {created.error_message}")
        return error

    async def ensure_exists(
        self, topic: str, *, partitions: int, replicas: int, configs: Mapping[str, str]
    ) -> None:
        """Return when the topic exists."""
        while True:
            try:
                error = await self.create(topic, partitions=partitions, replicas=replicas, configs=configs)
                if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
            except NoAnswer:
                pass
            await self.pause()

    async def check_topics(self, found: Sequence[str], *, where: str) -> None:
        """When everything is quiet: acknowledged creations and deletions hold."""
        for topic, state in self._topics.items():
            if state.is_deleted and topic in found:
                raise BrokenPromise(f"{topic} was deleted, but {where} knows it")
            if state.is_created and not state.may_be_deleted and topic not in found:
                raise BrokenPromise(f"{topic} was created, but {where} does not know it")

    async def stop_moves(self) -> bool:
        """When everything is quiet: whether no replica is being moved any more."""
        response = await self.ask_any(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
        return response.error_code == ErrorCode.NONE and not response.topics

    # Actions

    async def _alter_min_isr(self) -> None:
        """Raise or lower `min.insync.replicas` of a topic. A raise must hold for the next change of its ISR."""
        setting = AlterableConfig(
            name="min.insync.replicas", config_operation=SET, value=self.random.choice(("1", "2"))
        )
        resource = AlterConfigsResource(
            resource_type=ResourceType.TOPIC,
            resource_name=self.random.choice(self._stable_topics),
            configs=[setting],
        )
        await self.ask_any(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))

    async def _create(self) -> None:
        topic = f"passing-{self.name}-{len(self._topics)}"
        state = self._topics[topic] = _TopicState()
        replicas = self.random.randint(1, min(3, len(self.cluster.broker_ids)))
        error = await self.create(topic, partitions=self.random.randint(1, 3), replicas=replicas, configs={})
        state.is_created = error == ErrorCode.NONE

    async def _delete(self) -> None:
        present = [
            name for name, state in self._topics.items() if state.is_created and not state.may_be_deleted
        ]
        if not present:
            return
        topic = self.random.choice(present)
        self._topics[topic].may_be_deleted = True
        response = await self.ask_any(
            DeleteTopicsRequest(
                topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=TIMEOUT_MS
            )
        )
        (deleted,) = response.responses
        if deleted.error_code == ErrorCode.NONE:
            self._topics[topic].is_deleted = True
        elif not deleted.error_code.is_retriable:
            raise BrokenPromise(
                f"{topic} cannot be deleted: {deleted.error_code.name} {deleted.error_message}"
            )

    async def _move(self) -> None:
        """Other replicas, in another order, and sometimes another number of them."""
        topic = self.random.choice(self._stable_topics)
        view = await self.find_topic(topic)
        if view is None:
            return
        brokers = self.cluster.broker_ids
        replicas = self.random.sample(brokers, min(len(brokers), self.random.choice((2, 3, 3))))
        await self._reassign(topic, self.random.randrange(len(view.leaders)), replicas)

    async def _cancel_moves(self) -> None:
        topic = self.random.choice(self._stable_topics)
        view = await self.find_topic(topic)
        if view is not None:
            await self._reassign(topic, self.random.randrange(len(view.leaders)), None)

    async def _reassign(self, topic: str, index: int, replicas: list[int] | None) -> None:
        response = await self.ask_any(
            AlterPartitionReassignmentsRequest(
                timeout_ms=TIMEOUT_MS,
                topics=[
                    ReassignableTopic(
                        name=topic,
                        partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
                    )
                ],
            )
        )
        errors = [response.error_code]
        errors += [each.error_code for found in response.responses for each in found.partitions]
        self._check("move replicas", errors, NO_MOVE)

    async def _elect(self) -> None:
        topic = self.random.choice(self._stable_topics)
        view = await self.find_topic(topic)
        if view is None:
            return
        partitions = TopicPartitions(topic=topic, partitions=list(range(len(view.leaders))))
        response = await self.ask_any(
            ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[partitions], timeout_ms=TIMEOUT_MS)
        )
        errors = [response.error_code]
        errors += [
            each.error_code for found in response.replica_election_results for each in found.partition_result
        ]
        self._check("elect leaders", errors, NO_ELECTION)

    def _check(self, what: str, errors: Sequence[ErrorCode], expected: Sequence[ErrorCode]) -> None:
        for error in errors:
            if error != ErrorCode.NONE and error not in expected and not error.is_retriable:
                raise BrokenPromise(f"{self.name} cannot {what}: {error.name}")


async def retry_until(what: str, attempt: Callable[[], Awaitable[bool]], *, within_s: float) -> None:
    """Repeat an attempt until it returns True."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while loop.time() < until:
        try:
            if await attempt():
                return
        except NoAnswer:
            pass
        await asyncio.sleep(0.1)
    raise BrokenPromise(f"{what}: not within {within_s} s after the last fault")
