"""Draining a broker: moving all its replicas to the others, before it is stopped for good.

The controller's balancer does it: the broker is added to `penstock.balancer.drained.brokers`, which also keeps new
replicas away from it, and this module watches. If the balancer is disabled, or the cluster is Apache Kafka's, this
module moves the replicas itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from penstock.cli.failures import Refusal
from penstock.cli.reassignment import (
    TOPIC_THROTTLES,
    Assignment,
    ReassigningAdmin,
    clear_throttles,
    set_throttle,
)
from penstock.client.admin.cluster import BrokerDescription
from penstock.client.admin.configs import ConfigResource
from penstock.client.admin.topics import TopicDescription
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed, UnknownTopicOrPartition

POLL_S = 0.5
MOVED_AT_ONCE = 20  # partitions; more would compete for the same disks and network

ENABLED = "penstock.balancer.enable"
DRAINED = "penstock.balancer.drained.brokers"


class DrainStep(NamedTuple):
    done: int
    total: int


OnProgress = Callable[[DrainStep], None]


def plan_drain(current: Assignment, brokers: Sequence[BrokerDescription], broker_id: int) -> Assignment:
    """New replicas for every partition on `broker_id`. A replica moves to a rack that the partition does not use yet,
    and there to the broker with the fewest replicas."""
    racks = {broker.id: broker.rack for broker in brokers if not broker.is_fenced and broker.id != broker_id}
    load: Counter[int] = Counter(replica for replicas in current.values() for replica in replicas)
    planned: Assignment = {}
    for partition, replicas in sorted(current.items()):
        if broker_id not in replicas:
            continue
        used = {racks.get(replica) for replica in replicas if replica != broker_id}
        candidates = [each for each in racks if each not in replicas]
        if not candidates:
            raise Refusal(
                f"broker {broker_id} cannot be drained: {partition} has {len(replicas)} replicas, and no other broker "
                "is available for one of them; add a broker, or lower the replication factor with `penstock reassign`"
            )
        chosen = min(candidates, key=lambda each: (_is_used(racks[each], used), load[each], each))
        load[chosen] += 1
        planned[partition] = tuple(chosen if replica == broker_id else replica for replica in replicas)
    return planned


def _is_used(rack: str | None, used: set[str | None]) -> bool:
    """Without racks every broker is as good as any other."""
    return rack is not None and rack in used


async def drain(
    admin: ReassigningAdmin, broker_id: int, *, throttle: int | None, on_progress: OnProgress
) -> int:
    """Move all replicas away from a broker; return how many partitions had one.

    If this is interrupted, the throttle stays, because the controller continues. It is removed when all replicas have
    moved, also by a later call without a throttle, and by `stop_draining`.
    """
    cluster = await admin.describe_cluster(include_fenced=True)
    if broker_id not in {broker.id for broker in cluster.brokers}:
        raise Refusal(f"broker {broker_id} does not exist; `penstock cluster status` lists all brokers")
    current = await _assignment(admin)
    planned = plan_drain(current, cluster.brokers, broker_id)
    is_balanced = await _register(admin, broker_id, cluster.brokers)
    if throttle is not None and planned:
        await set_throttle(admin, planned, current, throttle)
    if is_balanced:
        await _watch(admin, broker_id, planned, on_progress)
    else:
        await _move(admin, planned, on_progress)
    await _remove_throttles(admin, broker_id)
    return len(planned)


async def stop_draining(admin: ReassigningAdmin, broker_id: int) -> None:
    """Let the broker have replicas again, and remove the throttle. Moves that have begun go on."""
    await admin.alter_config(ConfigResource.all_brokers(), subtract={DRAINED: str(broker_id)})
    await _remove_throttles(admin, broker_id)


async def unregister(admin: ReassigningAdmin, broker_id: int) -> None:
    """Remove the registration of a broker. If it comes back one day, it gets replicas again."""
    await admin.unregister_broker(broker_id)
    cluster = await admin.describe_cluster()
    config = await admin.describe_config(ConfigResource.broker(cluster.brokers[0].id), names=[DRAINED])
    if DRAINED in config and str(broker_id) in (config[DRAINED].value or "").split(","):
        await stop_draining(admin, broker_id)


async def _register(admin: ReassigningAdmin, broker_id: int, brokers: Sequence[BrokerDescription]) -> bool:
    """Add the broker to those that are drained. Whether the controller's balancer moves its replicas."""
    asked = next(broker.id for broker in brokers if not broker.is_fenced)
    config = await admin.describe_config(ConfigResource.broker(asked), names=[ENABLED, DRAINED])
    if DRAINED not in config:
        return False  # Apache Kafka
    drained = (config[DRAINED].value or "").split(",")
    if str(broker_id) not in drained:
        await admin.alter_config(ConfigResource.all_brokers(), append={DRAINED: str(broker_id)})
    return config[ENABLED].value == "true"


async def _watch(
    admin: ReassigningAdmin, broker_id: int, planned: Assignment, on_progress: OnProgress
) -> None:
    topics = {partition.topic for partition in planned}
    while True:
        began_s = _now_s()
        left = _on_broker(await _describe(admin, topics), broker_id)
        if not left:  # are there new topics?
            left = _on_broker(await _assignment(admin), broker_id)
        on_progress(DrainStep(max(0, len(planned) - len(left)), len(planned)))
        if not left:
            return
        topics = {partition.topic for partition in left}
        await _wait_since(began_s)


async def _move(
    admin: ReassigningAdmin, planned: Mapping[TopicPartition, Sequence[int]], on_progress: OnProgress
) -> None:
    waiting, moving = list(planned), set[TopicPartition]()
    while waiting or moving:
        began_s = _now_s()
        batch = waiting[: MOVED_AT_ONCE - len(moving)]
        if batch:
            del waiting[: len(batch)]
            await admin.reassign_partitions({partition: planned[partition] for partition in batch})
            moving.update(batch)
        moving &= set(await admin.list_reassignments(sorted(moving)))
        on_progress(DrainStep(len(planned) - len(waiting) - len(moving), len(planned)))
        if len(moving) >= MOVED_AT_ONCE or (moving and not waiting):
            await _wait_since(began_s)


async def _wait_since(began_s: float) -> None:
    """At least as long as the last poll took, so that a large cluster is not polled all the time."""
    await asyncio.sleep(max(POLL_S, _now_s() - began_s))


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def _remove_throttles(admin: ReassigningAdmin, broker_id: int) -> None:
    """Remove the throttles of topics that have a throttled replica on the broker, and those of all unfenced brokers. If
    there are no such topics, throttles stay: they belong to another reassignment."""
    listed = await admin.list_topics(include_internal=True)
    configs = await admin.describe_configs(
        [ConfigResource.topic(each.name) for each in listed], names=TOPIC_THROTTLES
    )
    topics = [
        resource.name
        for resource, config in configs.items()
        if any(
            entry.partition(":")[2] == str(broker_id)
            for name in TOPIC_THROTTLES
            if name in config
            for entry in (config[name].value or "").split(",")
        )
    ]
    if topics:
        cluster = await admin.describe_cluster()
        await clear_throttles(admin, [broker.id for broker in cluster.brokers], sorted(topics))


def _on_broker(assignment: Assignment, broker_id: int) -> Assignment:
    return {partition: replicas for partition, replicas in assignment.items() if broker_id in replicas}


async def _assignment(admin: ReassigningAdmin) -> Assignment:
    listed = await admin.list_topics(include_internal=True)
    return await _describe(admin, [each.name for each in listed])


async def _describe(admin: ReassigningAdmin, topics: Collection[str]) -> Assignment:
    """The replicas of all partitions of these topics. Topics that were deleted are left out."""
    if not topics:
        return {}
    try:
        described: Mapping[str, TopicDescription] = await admin.describe_topics(sorted(topics))
    except ItemsFailed as failed:
        if not all(isinstance(each, UnknownTopicOrPartition) for each in failed.failures.values()):
            raise
        described = failed.results
    return {
        TopicPartition(name, partition.index): partition.replicas
        for name, topic in described.items()
        for partition in topic.partitions
    }
