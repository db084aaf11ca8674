"""Leaders and followers without a quorum: partition tables of several nodes over a simulated network.

`Replicas` is the cluster and its only controller: it commits metadata, answers AlterPartition, and elects leaders when
a test says so. Each `ReplicaNode` has its own disk, workers and process, real logs, a real broker for Fetch, and real
replica fetchers. Everything runs on the virtual loop, from one seed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from harness.datapath import CLUSTER_ID, make_batch, topic_id_of, topic_setting
from penstock.broker import handlers
from penstock.broker.broker import Broker
from penstock.broker.dispatcher import Dispatcher
from penstock.config.broker import BrokerSettings
from penstock.metadata.cache import MetadataCache
from penstock.metadata.errors import Refused
from penstock.metadata.image import EMPTY_IMAGE, PartitionImage
from penstock.metadata.records.brokers import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from penstock.metadata.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from penstock.metadata.settings import DynamicSettings
from penstock.net.listener import ConnectionLimits, ConnectionTable, Listener
from penstock.net.node_connections import NodeConnections
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
)
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.records import kernel
from penstock.replication.fetchers import ReplicaFetchers
from penstock.replication.isr_changes import IsrChanges
from penstock.replication.partition import Partition
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.storage.settings import LogSettings, StoreSettings
from penstock.storage.store import LogStore
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualClock, VirtualLoop, run_virtual
from simulator.mount import Mount
from simulator.network import SimulatedNetwork
from simulator.process import Died, Process
from simulator.workers import SimulatedWorkers

T = TypeVar("T")

LISTENER = "PLAINTEXT"
PORT = 9092
METADATA_DELAY_S_MAX = 0.01
ALL = -1
LIMITS = ConnectionLimits(1000, 1000, {}, -1, 100 << 20)


class Replicas:
    def __init__(
        self, seed: int = 0, *, nodes: Sequence[int] = (1, 2, 3), properties: dict[str, str] | None = None
    ) -> None:
        self.loop = VirtualLoop()
        self.random = random.Random(f"{seed}/scenario")
        self.network = SimulatedNetwork(random.Random(f"{seed}/network"))
        self.properties = properties or {}
        self.groups: list[Sequence[object]] = []
        """The metadata log: records that are applied together."""
        self.image = EMPTY_IMAGE
        self.alter_partition_requests: list[AlterPartitionRequest] = []
        self.controller_is_up = True
        self.failures: list[str] = []
        self._seed = seed
        self._delays = random.Random(f"{seed}/metadata")
        self.nodes = {node_id: ReplicaNode(self, node_id) for node_id in nodes}

    def generator(self, concern: str) -> random.Random:
        return random.Random(f"{self._seed}/{concern}")

    def run(self, scenario: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Start all nodes, then run the scenario."""

        async def main() -> T:
            for node in self.nodes.values():
                await node.start()
            try:
                return await scenario()
            finally:
                for node in self.nodes.values():
                    if node.is_up:
                        node.kill()

        self.loop.set_exception_handler(self._unhandled)
        result = run_virtual(self.loop, main())
        assert not self.failures, "\n".join(self.failures)
        return result

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), Died):
            self.failures.append(f"{context['message']}: {context.get('exception')!r}")

    # -- metadata

    def publish(self, *records: object) -> None:
        """Commit records. Each node applies them a little later."""
        self.groups.append(records)
        self.image = self.image.apply(records, offset=self.image.offset + len(records), epoch=1).image
        for node in self.nodes.values():
            node.metadata_committed(self._delays.uniform(0, METADATA_DELAY_S_MAX))

    def add_topic(
        self,
        name: str = "orders",
        *,
        partitions: int = 1,
        replicas: Sequence[int] = (1, 2, 3),
        settings: dict[str, str] | None = None,
    ) -> None:
        self.publish(
            TopicRecord(name=name, topic_id=topic_id_of(name)),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id_of(name),
                    replicas=list(replicas),
                    isr=list(replicas),
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[ZERO_UUID] * len(replicas),
                )
                for index in range(partitions)
            ),
            *(topic_setting(name, key, value) for key, value in (settings or {}).items()),
        )

    def state(self, topic: str = "orders", index: int = 0) -> PartitionImage:
        found = self.image.topics.partition(topic, index)
        assert found is not None
        return found

    def elect(self, leader: int, *, isr: Sequence[int] | None = None, topic: str = "orders") -> None:
        """Elect the leader of all partitions of a topic; an ISR without clean members makes it an unclean election."""
        held = self.image.topics.get(topic)
        assert held is not None
        self.publish(
            *(
                PartitionChangeRecord(
                    partition_id=index,
                    topic_id=held.topic_id,
                    leader=leader,
                    isr=None if isr is None else list(isr),
                )
                for index in range(len(held.partitions))
            )
        )

    def elect_one(self, index: int, leader: int, *, topic: str = "orders") -> None:
        self.publish(PartitionChangeRecord(partition_id=index, topic_id=topic_id_of(topic), leader=leader))

    def fence(self, node_id: int) -> None:
        """Fence a broker: it leaves every ISR, and another member leads what it led."""
        epoch = self.image.brokers[node_id].epoch
        records: list[object] = [
            BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=1)
        ]
        for topic in self.image.topics.by_name.values():
            for index, state in enumerate(topic.partitions):
                if node_id not in state.isr:
                    continue
                isr = [member for member in state.isr if member != node_id] or [node_id]
                leader = -2
                if state.leader == node_id:
                    leader = isr[0] if isr != [node_id] else -1
                records.append(
                    PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=leader, isr=isr)
                )
        self.publish(*records)

    def register(self, node_id: int) -> None:
        """A broker has started: a new registration, unfenced. It leads again what only it can lead."""
        epoch = self.image.offset + 1
        records: list[object] = [
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=ZERO_UUID,
                broker_epoch=epoch,
                end_points=[
                    BrokerEndpoint(name=LISTENER, host=f"10.0.0.{node_id}", port=PORT, security_protocol=0)
                ],
                features=[],
                rack=f"rack-{node_id}",
                fenced=False,
            )
        ]
        for topic in self.image.topics.by_name.values():
            records += [
                PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=node_id)
                for index, state in enumerate(topic.partitions)
                if state.leader == -1 and state.isr == (node_id,)
            ]
        self.publish(*records)

    # -- the controller

    async def ask(self, request: Any, *, timeout_ms: int) -> AlterPartitionResponse:
        assert isinstance(request, AlterPartitionRequest)
        await asyncio.sleep(self._delays.uniform(0, 0.005))
        if not self.controller_is_up:
            raise Refused(ErrorCode.REQUEST_TIMED_OUT, "no controller")
        self.alter_partition_requests.append(request)
        response = AlterPartitionResponse(
            topics=[
                AlterPartitionResponseTopic(
                    topic_id=topic.topic_id,
                    partitions=[
                        self._alter(request.broker_id, topic.topic_id, wanted) for wanted in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
        await asyncio.sleep(self._delays.uniform(0, 0.005))
        return response

    def _alter(
        self, leader: int, topic_id: Uuid, wanted: AlterPartitionRequestPartition
    ) -> AlterPartitionResponsePartition:
        topic = self.image.topics.with_id(topic_id)
        assert topic is not None
        state = topic.partitions[wanted.partition_index]
        error = ErrorCode.NONE
        isr = [member.broker_id for member in wanted.new_isr_with_epochs]
        if state.leader != leader or state.leader_epoch != wanted.leader_epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif state.partition_epoch != wanted.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        elif any(
            not self.image.brokers[member.broker_id].is_active
            or member.broker_epoch not in (-1, self.image.brokers[member.broker_id].epoch)
            for member in wanted.new_isr_with_epochs
        ):
            error = ErrorCode.INELIGIBLE_REPLICA
        else:
            self.publish(
                PartitionChangeRecord(partition_id=wanted.partition_index, topic_id=topic_id, isr=isr)
            )
            state = self.state(topic.name, wanted.partition_index)
        return AlterPartitionResponsePartition(
            partition_index=wanted.partition_index,
            error_code=error,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
        )

    # -- what a test looks at

    def leader(self, topic: str = "orders", index: int = 0) -> Partition:
        return self.nodes[self.state(topic, index).leader].partition(topic, index)

    async def until(self, condition: Callable[[], bool], *, seconds: float = 60) -> None:
        """Wait until `condition` holds."""
        deadline = self.loop.time() + seconds
        while not condition():
            assert self.loop.time() < deadline, "it did not happen in time"
            await asyncio.sleep(0.005)

    async def until_in_sync(
        self, members: Sequence[int] = (1, 2, 3), *, topic: str = "orders", seconds: float = 60
    ) -> None:
        """Wait until all partitions of a topic have this ISR."""
        held = self.image.topics.get(topic)
        assert held is not None
        await self.until(
            lambda: all(
                set(self.state(topic, index).isr) == set(members) for index in range(len(held.partitions))
            ),
            seconds=seconds,
        )

    def check_equal(self, topic: str = "orders", index: int = 0) -> None:
        """Below the high watermark, all live replicas have the same batches."""
        held = [
            node.partition(topic, index)
            for node in self.nodes.values()
            if node.is_up and node.table.get(topic, index) is not None
        ]
        longest = max(held, key=lambda partition: partition.high_watermark)
        expected = batches(longest, longest.high_watermark)
        for partition in held:
            start_offset = max(longest.log.start_offset, partition.log.start_offset)
            end_offset = partition.high_watermark
            found = batches(partition, end_offset)
            assert {offset: batch for offset, batch in found.items() if offset >= start_offset} == {
                offset: batch for offset, batch in expected.items() if start_offset <= offset < end_offset
            }, f"{partition} of node {partition.node_id} differs"


class ReplicaNode:
    def __init__(self, cluster: Replicas, node_id: int) -> None:
        self.node_id = node_id
        self.host = f"10.0.0.{node_id}"
        self.cluster = cluster
        self.clock = VirtualClock(cluster.loop)
        self.disk = SimulatedDisk(now_ms=self.clock.wall_ms)
        self.process: Process | None = None
        self.lives = 0
        self._applied = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None

    async def start(self) -> None:
        """Start on the present disk, and register."""
        assert self.process is None
        self.lives += 1
        self.process = Process(f"node {self.node_id}", host=self.host)
        self.cluster.network.powered_on(self.host)
        started = self.cluster.loop.create_task(self._start(), context=self.process.context)
        await started
        self.cluster.register(self.node_id)

    def _broker_epoch(self) -> int:
        """The tests have one process per node id, so that of the metadata is its own."""
        broker = self.metadata.image.brokers.get(self.node_id)
        return -1 if broker is None else broker.epoch

    async def _start(self) -> None:
        cluster = self.cluster
        assert self.process is not None
        settings = BrokerSettings.load(cluster.properties)
        mount = Mount(self.disk, self.process, note=lambda _: None, die=self.kill)
        runtime = Runtime(
            clock=self.clock,
            random=cluster.generator(f"node {self.node_id}/{self.lives}"),
            disk=mount,
            network=cluster.network,
            workers=SimulatedWorkers(cluster.generator(f"workers {self.node_id}/{self.lives}")),
        )
        self.runtime = runtime
        self.logs = LogStore(
            ["/data"],
            runtime=runtime,
            settings=StoreSettings(),
            topic_settings=lambda _: LogSettings(),
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
        )
        await self.logs.start()
        self.metadata = MetadataCache()
        self.isr = IsrChanges(
            node_id=self.node_id,
            broker_epoch=self._broker_epoch,
            image=lambda: self.metadata.image,
            channel=cluster,
            supervisor=runtime.supervisor,
            lag_ms_max=settings.get("replica.lag.time.max.ms"),
        )
        self.table = PartitionTable(
            node_id=self.node_id,
            logs=self.logs,
            topic_settings=DynamicSettings(settings).of_topic,
            isr_context=self.isr,
        )
        self.connections = NodeConnections(
            cluster.network, client_id=f"broker-{self.node_id}", rng=runtime.random
        )
        self.fetchers = ReplicaFetchers(
            node_id=self.node_id,
            runtime=runtime,
            partitions=self.table,
            connections=self.connections,
            settings=lambda: settings,
            listener=LISTENER,
            broker_epoch=self._broker_epoch,
        )
        for listener in (self.table.apply, self.isr.apply, self.fetchers.apply):
            self.metadata.subscribe(listener)
        self.isr.start(self.table)
        absent: Any = None
        self.broker = Broker(
            node_id=self.node_id,
            cluster_id=CLUSTER_ID,
            runtime=runtime,
            settings=settings,
            metadata=self.metadata,
            partitions=self.table,
            logs=self.logs,
            channel=absent,
            groups=absent,
            transactions=absent,
            producer_ids=absent,
        )
        self.listener = Listener(LISTENER, Dispatcher(self.broker, handlers.TABLE), ConnectionTable(LIMITS))
        await self.listener.bind(cluster.network, self.host, PORT)
        self.listener.start()
        self._applied = 0
        self._catch_up()

    def metadata_committed(self, delay_s: float) -> None:
        if self.process is not None:
            self.cluster.loop.call_later(delay_s, self._catch_up, context=self.process.context)

    def _catch_up(self) -> None:
        """Apply the committed metadata: all of it at once after a start, then group by group."""
        groups = self.cluster.groups[self._applied :]
        if not groups:
            return
        if self._applied == 0:
            groups = [[record for group in groups for record in group]]
        self._applied = len(self.cluster.groups)
        for group in groups:
            image = self.metadata.image
            self.metadata.publish(image.apply(group, offset=image.offset + len(group), epoch=1))

    def kill(self) -> None:
        """kill -9: the disk keeps what was written."""
        self._die()
        self.disk.kill()

    def lose_power(self) -> None:
        self._die()
        self.disk.crash(self.cluster.generator(f"crash {self.node_id}/{self.lives}"))

    def _die(self) -> None:
        process = self.process
        assert process is not None
        self.process = None
        process.die()
        self.cluster.loop.drop_process(process)
        self.cluster.network.died(process)

    def partition(self, topic: str = "orders", index: int = 0) -> Partition:
        return self.table.find(topic, index)

    def append(
        self, *values: bytes, topic: str = "orders", index: int = 0, acks: int = ALL, **options: Any
    ) -> int:
        """Append as leader; returns the end offset."""
        partition = self.partition(topic, index)
        assert self.process is not None

        def append() -> int:
            now_ms = self.clock.wall_ms()
            batch = make_batch(*values, timestamp=now_ms, **options)
            return partition.append_as_leader(batch, acks=acks, now_ms=now_ms).last_offset + 1

        return self.process.context.copy().run(append)

    async def produce(
        self, *values: bytes, topic: str = "orders", index: int = 0, timeout_s: float = 30, **options: Any
    ) -> int:
        """Append and wait until it is committed; returns the end offset. Refused if it fails."""
        end_offset = self.append(*values, topic=topic, index=index, **options)
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        partition = self.partition(topic, index)
        waiting = partition.wait_for_acknowledgement(
            end_offset, acks=ALL, on_complete=done.set_result, for_producer=True
        )
        if waiting is not None:
            done.add_done_callback(lambda _: waiting.cancel())
            error = await asyncio.wait_for(done, timeout_s)
            if error != ErrorCode.NONE:
                raise Refused(error)
        return end_offset


def batches(partition: Partition, end_offset: int) -> dict[int, bytes]:
    """The batches below `end_offset`, by their first offset."""
    log = partition.log
    found: dict[int, bytes] = {}
    offset = log.start_offset
    while offset < end_offset:
        piece = log.read(offset, max_bytes=1 << 20, end_offset=end_offset, at_least_one=True)
        if piece is None:
            break
        data, position = piece.read(), 0
        for header in kernel.check_batches(data):
            found[header.base_offset] = data[position : position + header.size_bytes]
            position += header.size_bytes
            offset = header.next_offset
    return found


def values(partition: Partition, end_offset: int | None = None) -> list[bytes | None]:
    """The records below `end_offset`, or below the high watermark."""
    if end_offset is None:
        end_offset = partition.high_watermark
    return [
        record.value
        for batch in batches(partition, end_offset).values()
        for record in kernel.iterate_records(batch, 0)
    ]
