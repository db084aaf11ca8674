"""Compaction in a whole node."""

from __future__ import annotations

import asyncio

from harness.nodes import simulate
from harness.storage import read_all
from penstock.aio import Producer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from simulator.simulation import HOST, PORT, Simulation

LONGER_THAN_THE_CLEANER_WAITS_S = 70


def count_records(simulation: Simulation, topic: str) -> int:
    log = simulation.node.logs.get(topic, 0)
    assert log is not None
    return sum(header.record_count for header in read_all(log))


def test_a_restart_does_not_compact_a_topic_that_overrides_the_default_policy() -> None:
    async def scenario(simulation: Simulation) -> None:
        configs = {"cleanup.policy": "delete", "segment.bytes": "1048576"}
        client = await simulation.connect()
        response = await client.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name="events",
                        num_partitions=1,
                        replication_factor=1,
                        assignments=[],
                        configs=[
                            CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
                        ],
                    )
                ]
            )
        )
        assert response.topics[0].error_code == ErrorCode.NONE
        async with Producer(f"{HOST}:{PORT}", network=simulation.network, clock=simulation.clock) as producer:
            for _ in range(400):
                await producer.send("events", b"x" * 10_000)
            await producer.flush()
        await asyncio.sleep(LONGER_THAN_THE_CLEANER_WAITS_S)
        assert count_records(simulation, "events") == 400

        await simulation.restart()
        await asyncio.sleep(LONGER_THAN_THE_CLEANER_WAITS_S)

        assert count_records(simulation, "events") == 400

    simulate(scenario, properties={"log.cleanup.policy": "compact"})
