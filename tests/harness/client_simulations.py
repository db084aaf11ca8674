"""What the simulations of Penstock's own clients share: broker settings, topics, and errors of client tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from simulator.simulation import HOST, PORT, Simulation

ADDRESS = f"{HOST}:{PORT}"
SHORT_GROUP_TIMEOUTS = {
    "group.min.session.timeout.ms": "100",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
}


def group_settings(group_id: str, strategy: str | None) -> dict[str, object]:
    """Consumer settings of a classic group with this assignment strategy; without one, of a consumer group."""
    if strategy is None:
        return {"group.id": group_id, "group.protocol": "consumer"}
    return {
        "group.id": group_id,
        "group.protocol": "classic",
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_000,
    }


async def create_durable_topics(simulation: Simulation, *names: str, partitions: int) -> None:
    """Topics that flush every record, so that acknowledged records survive a power cut."""
    connection = await simulation.connect()
    config = CreatableTopicConfig(name="flush.messages", value="1")
    topics = [
        CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[config]
        )
        for name in names
    ]
    await connection.ask(CreateTopicsRequest(topics=topics))
    connection.close()


def raise_errors(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()
