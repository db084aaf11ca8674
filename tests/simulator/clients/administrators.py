"""A client that creates, changes and deletes its own topics, and compares what it finds with the catalogue.

No other client changes these topics, and it makes one change at a time. So it always knows their state, except after a
lost response. Then it waits until the node has finished, and looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.types import ZERO_UUID
from simulator.checks.catalogue import Catalogue, Change, Topic, TopicState
from simulator.checks.ledger import Ledger, is_durable, may_expire
from simulator.clients.client import LostConnection, SimulatedClient
from simulator.clients.producers import Conditions
from simulator.simulation import BrokenPromise, Simulation

TIMEOUT_MS = 30_000
PARTITIONS_MAX = 4

TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1
SET = 0

SEGMENT_MS = "segment.ms"
CHOICES = {
    SEGMENT_MS: ("300", "1000", "5000"),
    "index.interval.bytes": ("0", "100", "4096"),
    "file.delete.delay.ms": ("0", "500"),
    "max.message.bytes": ("1000000", "2000000"),
    "compression.type": ("producer", "gzip", "uncompressed"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
"""Settings that may change at any time without affecting promises."""
CHOICES_UNLESS_DURABLE = {
    **CHOICES,
    "flush.messages": ("2", "5", "1000000"),
    "flush.ms": ("20", "500", "1000000"),
}

RETRIABLE = (
    ErrorCode.NOT_CONTROLLER,  # the metadata log's disk failed, and the node is about to stop
    ErrorCode.REQUEST_TIMED_OUT,
)


class Administrator(SimulatedClient):
    def __init__(
        self,
        simulation: Simulation,
        name: str,
        topics: Sequence[str],
        catalogue: Catalogue,
        ledger: Ledger,
        conditions: Conditions,
        *,
        deletes: bool,
    ) -> None:
        super().__init__(simulation, name)
        self._topics = topics
        self._catalogue = catalogue
        self._ledger = ledger
        self._weather = conditions
        self._deletes = deletes

    async def run(self) -> None:
        while not self._weather.is_over():
            topic = self.random.choice(self._topics)
            try:
                if not self._catalogue.is_certain(topic) or self.random.random() < 0.2:
                    await self.check_topic(topic)
                else:
                    await self._change_something(topic)
                await asyncio.sleep(self.random.uniform(0, 0.5))
            except LostConnection:
                await asyncio.sleep(self.simulation.settle_s)

    async def check_topic(self, topic: str) -> None:
        """Compare the topic with the catalogue."""
        found = await self.find_topic(topic)
        state: TopicState = None
        if found is not None:
            topic_id, partition_count = found
            state = Topic(partition_count, await self._configs(topic), topic_id)
        self._note_deletion(topic, state)
        self._catalogue.found(topic, state)

    async def ensure_exists(self, topic: str) -> None:
        """Create the topic if it does not exist yet."""
        await self.check_topic(topic)
        if self._catalogue.present(topic) is None:
            await self.create(topic, partition_count=self.random.randint(1, PARTITIONS_MAX - 1))

    async def create(self, topic: str, *, partition_count: int) -> None:
        configs = {"flush.messages": "1"} if is_durable(topic) else {}
        if may_expire(topic):
            configs["retention.ms"] = "1500"
        for setting in (SEGMENT_MS, "index.interval.bytes", "file.delete.delay.ms"):
            configs[setting] = self.random.choice(CHOICES[setting])
        made = Topic(partition_count, tuple(sorted(configs.items())))
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic,
                    num_partitions=partition_count,
                    replication_factor=1,
                    assignments=[],
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
                )
            ],
            timeout_ms=TIMEOUT_MS,
        )
        response = await self._change(topic, request, lambda _: made, lambda answer: answer.topics[0])
        if response is not None:
            topic_id = response.topics[0].topic_id
            self._catalogue.changed(topic, lambda _: replace(made, topic_id=topic_id))

    async def _change_something(self, topic: str) -> None:
        present = self._catalogue.present(topic)
        if present is None:
            await self.create(topic, partition_count=self.random.randint(1, 3))
            return
        actions: list[Callable[[str, Topic], Awaitable[None]]] = [
            self._alter,
            self._alter,
            self._delete_records,
            self._move,
        ]
        if present.partition_count < PARTITIONS_MAX:
            actions.append(self._add_partition)
        if self._deletes:
            actions += [self._delete] * 2
        await self.random.choice(actions)(topic, present)

    async def _delete(self, topic: str, present: Topic) -> None:
        by_id = self.random.random() < 0.5 and present.topic_id is not None
        state = (
            DeleteTopicState(name=None, topic_id=present.topic_id or ZERO_UUID)
            if by_id
            else DeleteTopicState(name=topic, topic_id=ZERO_UUID)
        )
        request = DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS)
        response = await self._change(topic, request, lambda _: None, lambda answer: answer.responses[0])
        if response is not None:
            self._note_deletion(topic, None)
            self._catalogue.changed(topic, lambda _: None)

    def _note_deletion(self, topic: str, found: TopicState) -> None:
        """A deleted topic's promises end, and its records must not reappear under its name."""
        for state in self._catalogue.states.get(topic, []):
            old_id = state.topic_id if state is not None else None
            if old_id is not None and (found is None or found.topic_id != old_id):
                self._ledger.forget(old_id)

    async def _alter(self, topic: str, present: Topic) -> None:
        choices = CHOICES if is_durable(topic) else CHOICES_UNLESS_DURABLE
        setting = self.random.choice(list(choices))
        value = self.random.choice(choices[setting])
        config = AlterableConfig(name=setting, config_operation=SET, value=value)
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config])
            ],
            validate_only=False,
        )

        def change(state: TopicState) -> TopicState:
            return None if state is None else state.with_config(setting, value)

        if await self._change(topic, request, change, lambda answer: answer.responses[0]) is not None:
            self._catalogue.changed(topic, change)

    async def _add_partition(self, topic: str, present: Topic) -> None:
        count = present.partition_count + 1
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)],
            timeout_ms=TIMEOUT_MS,
            validate_only=False,
        )

        def change(state: TopicState) -> TopicState:
            return None if state is None else replace(state, partition_count=count)

        if await self._change(topic, request, change, lambda answer: answer.results[0]) is not None:
            self._catalogue.changed(topic, change)

    async def _change(
        self, topic: str, request: Any, change: Change, result_of: Callable[[Any], Any]
    ) -> Any | None:
        """Request a change. The response if it was made, None if it is not possible for now."""
        await self.connect()
        try:
            response = await self.ask(request)
        except LostConnection:
            self._catalogue.may_have_changed(topic, change)
            raise
        result = result_of(response)
        if result.error_code == ErrorCode.NONE:
            return response
        self._catalogue.may_have_changed(topic, change)
        if result.error_code in RETRIABLE and self._weather.is_disk_degraded():
            await asyncio.sleep(self.simulation.settle_s)
            return None
        kind = type(request).__name__
        raise BrokenPromise(
            f"{self.name}, {kind} for {topic}: {result.error_code.name} {result.error_message}"
        )

    async def _delete_records(self, topic: str, present: Topic) -> None:
        if present.topic_id is None:
            await self.check_topic(topic)
            return
        index = self.random.randrange(present.partition_count)
        ledger = self._ledger.get(topic, present.topic_id, index)
        end_offset = ledger.end_of_promises()
        if ledger.is_doubtful or end_offset <= ledger.start_offset_max:
            return
        offset = self.random.randint(ledger.start_offset_max, end_offset)
        ledger.deletion_asked(offset)
        life = self.simulation.lives
        response = await self.ask(
            DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)]
                    )
                ],
                timeout_ms=TIMEOUT_MS,
            )
        )
        result = response.topics[0].partitions[0]
        is_same_life = (
            self.simulation.is_up and self.simulation.lives == life
        )  # otherwise it may not be on disk
        if result.error_code == ErrorCode.NONE and is_same_life:
            ledger.deletion_acknowledged(offset, now=self.simulation.loop.time())

    async def _move(self, topic: str, present: Topic) -> None:
        """Request a move of a partition's log to another directory. It need not succeed."""
        path = self.random.choice(self.simulation.properties["log.dirs"].split(","))
        index = self.random.randrange(present.partition_count)
        await self.ask(
            AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])]
                    )
                ]
            )
        )

    async def _configs(self, topic: str) -> tuple[tuple[str, str], ...]:
        """The settings of the topic itself."""
        response = await self.ask(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None
                    )
                ]
            )
        )
        result = response.results[0]
        if result.error_code != ErrorCode.NONE:
            raise BrokenPromise(f"settings of {topic}: {result.error_code.name}")
        return tuple(
            sorted(
                (config.name, config.value)
                for config in result.configs
                if config.config_source == DYNAMIC_TOPIC_CONFIG
            )
        )
