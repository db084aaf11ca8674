"""Draining a broker: which replicas go where, who moves them, and what is reported."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from penstock.cli.draining import DRAINED, ENABLED, MOVED_AT_ONCE, DrainStep, drain, plan_drain, stop_draining
from penstock.cli.failures import Refusal
from penstock.client.admin.cluster import BrokerDescription, ClusterDescription
from penstock.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource
from penstock.client.admin.reassignment import Reassignment
from penstock.client.admin.topics import PartitionDescription, TopicDescription, TopicListing
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed, UnknownTopicOrPartition


def broker(node_id: int, rack: str | None = None, *, is_fenced: bool = False) -> BrokerDescription:
    return BrokerDescription(id=node_id, host="h", port=9090 + node_id, rack=rack, is_fenced=is_fenced)


PARTITIONS = [TopicPartition("orders", index) for index in range(12)]


def test_a_drained_broker_gives_its_replicas_to_the_brokers_with_the_fewest() -> None:
    current = {each: ((1, 3) if each.partition % 2 else (3, 2)) for each in PARTITIONS}

    planned = plan_drain(current, [broker(each) for each in (1, 2, 3, 4)], 3)

    assert set(planned) == set(PARTITIONS)
    after = Counter(replica for replicas in planned.values() for replica in replicas)
    assert 3 not in after
    assert after[4] >= max(after[1], after[2])
    assert all(len(set(replicas)) == 2 for replicas in planned.values())


def test_a_replica_keeps_its_place_so_that_the_preferred_leader_changes_only_if_it_must() -> None:
    current = {PARTITIONS[0]: (1, 3, 2), PARTITIONS[1]: (3, 1, 2)}

    planned = plan_drain(current, [broker(each) for each in (1, 2, 3, 4)], 3)

    assert planned == {PARTITIONS[0]: (1, 4, 2), PARTITIONS[1]: (4, 1, 2)}


def test_a_replica_moves_to_a_rack_that_its_partition_does_not_use_yet() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b")]

    assert plan_drain({PARTITIONS[0]: (1, 3)}, brokers, 3) == {PARTITIONS[0]: (1, 4)}


def test_a_fenced_broker_gets_nothing() -> None:
    brokers = [broker(1), broker(2, is_fenced=True), broker(3), broker(4)]

    assert plan_drain({PARTITIONS[0]: (3,)}, brokers, 3) in ({PARTITIONS[0]: (1,)}, {PARTITIONS[0]: (4,)})


def test_a_broker_cannot_be_drained_if_no_other_can_take_a_replica() -> None:
    with pytest.raises(Refusal, match="no other broker is available"):
        plan_drain({PARTITIONS[0]: (1, 2, 3)}, [broker(1), broker(2), broker(3)], 3)


class FakeAdmin:
    """A cluster in which a reassignment takes two looks. With a balancer, the controller moves a replica per look."""

    def __init__(self, partition_count: int, *, balancer: str | None = None) -> None:
        self.replicas = dict.fromkeys(range(partition_count), (3, 1))
        self.balancer = balancer
        self.drained: list[str] = []
        self.moving: dict[TopicPartition, int] = {}
        self.most_moving = 0
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.described: list[list[str]] = []
        """The topics of each look at the replicas."""

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        return ClusterDescription(cluster_id="c", controller=1, brokers=(broker(1), broker(2), broker(3)))

    async def describe_config(self, resource: ConfigResource, *, names: list[str]) -> dict[str, ConfigEntry]:
        if self.balancer is None:
            return {}
        return {
            ENABLED: ConfigEntry(name=ENABLED, value=self.balancer),
            DRAINED: ConfigEntry(name=DRAINED, value=",".join(self.drained)),
        }

    async def alter_config(
        self,
        resource: ConfigResource,
        *,
        append: dict[str, str] | None = None,
        subtract: dict[str, str] | None = None,
    ) -> None:
        assert resource == ConfigResource.all_brokers()
        self.drained += (append or {}).values()
        self.drained = [each for each in self.drained if each not in (subtract or {}).values()]

    async def alter_configs(self, changes: dict[ConfigResource, ConfigChange]) -> None:
        for resource, change in changes.items():
            config = self.configs.setdefault(resource, {})
            for name, value in (change.set or {}).items():
                config[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            for name in change.unset or ():
                config.pop(name, None)

    async def describe_configs(
        self, resources: list[ConfigResource], *, names: list[str]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return {
            each: {
                name: ConfigEntry(name=name, value=value)
                for name, value in self.configs.get(each, {}).items()
                if name in names
            }
            for each in resources
        }

    @property
    def throttled(self) -> list[str]:
        """The resources with throttles."""
        return sorted(resource.name for resource, config in self.configs.items() if config)

    async def list_topics(self, *, include_internal: bool) -> list[TopicListing]:
        return [
            TopicListing(name="orders", topic_id=None, is_internal=False, partitions=len(self.replicas)),
            TopicListing(name="elsewhere", topic_id=None, is_internal=False, partitions=1),
        ]

    async def describe_topics(self, names: list[str]) -> dict[str, TopicDescription]:
        self.described.append(list(names))
        if self.balancer == "true" and self.drained:
            moved = next((index for index, replicas in self.replicas.items() if 3 in replicas), None)
            if moved is not None:
                self.replicas[moved] = (2, 1)
        partitions = tuple(
            PartitionDescription(index=index, leader=1, leader_epoch=1, replicas=replicas, in_sync=replicas)
            for index, replicas in self.replicas.items()
        )
        elsewhere = PartitionDescription(index=0, leader=1, leader_epoch=1, replicas=(1,), in_sync=(1,))
        by_name = {"orders": partitions, "elsewhere": (elsewhere,)}
        return {
            name: TopicDescription(name=name, topic_id=None, is_internal=False, partitions=by_name[name])
            for name in names
        }

    async def reassign_partitions(self, wanted: dict[TopicPartition, tuple[int, ...]]) -> None:
        assert self.balancer != "true", "the controller moves replicas"
        self.replicas |= {each.partition: replicas for each, replicas in wanted.items()}  # type: ignore[misc]
        self.moving |= dict.fromkeys(wanted, 2)
        self.most_moving = max(self.most_moving, len(self.moving))

    async def list_reassignments(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, Reassignment]:
        self.moving = {each: looks - 1 for each, looks in self.moving.items() if looks > 1}
        return {each: Reassignment(replicas=(), adding=(), removing=()) for each in self.moving}


@pytest.mark.parametrize("balancer", [None, "false", "true"])
async def test_a_drain_ends_when_the_broker_has_no_replicas(
    monkeypatch: pytest.MonkeyPatch, balancer: str | None
) -> None:
    monkeypatch.setattr("penstock.cli.draining.POLL_S", 0)
    fake = FakeAdmin(50, balancer=balancer)
    admin: Any = fake
    steps: list[DrainStep] = []

    moved = await drain(admin, 3, throttle=None, on_progress=steps.append)

    assert moved == 50
    assert all(3 not in replicas for replicas in fake.replicas.values())
    assert fake.most_moving <= MOVED_AT_ONCE
    assert steps[-1] == DrainStep(50, 50)
    assert steps == sorted(steps)
    assert fake.drained == ([] if balancer is None else ["3"])


async def test_a_broker_that_is_drained_already_is_not_added_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.draining.POLL_S", 0)
    fake = FakeAdmin(2, balancer="true")
    fake.drained = ["3"]
    admin: Any = fake

    await drain(admin, 3, throttle=None, on_progress=lambda step: None)

    assert fake.drained == ["3"]


async def test_a_drain_can_be_undone() -> None:
    fake = FakeAdmin(2, balancer="true")
    fake.drained = ["2", "3"]
    admin: Any = fake

    await stop_draining(admin, 3)

    assert fake.drained == ["2"]


async def test_an_unknown_broker_cannot_be_drained() -> None:
    admin: Any = FakeAdmin(1)

    with pytest.raises(Refusal, match="broker 9 does not exist"):
        await drain(admin, 9, throttle=None, on_progress=lambda step: None)


class Interrupted(Exception):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("how", ["watched again", "stopped"])
async def test_an_interrupted_drain_leaves_the_throttle_until_the_moves_end(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("penstock.cli.draining.POLL_S", 0)
    fake = FakeAdmin(5, balancer="true")
    admin: Any = fake

    def interrupt(step: DrainStep) -> None:
        if step.done == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        await drain(admin, 3, throttle=1000, on_progress=interrupt)
    assert fake.throttled == ["1", "2", "3", "orders"], "the controller continues to move replicas"

    if how == "stopped":
        await stop_draining(admin, 3)
    else:
        await drain(admin, 3, throttle=None, on_progress=lambda step: None)

    assert fake.throttled == []


async def test_a_drain_that_ends_removes_its_throttle_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.draining.POLL_S", 0)
    fake = FakeAdmin(2, balancer="true")
    fake.configs[ConfigResource.topic("elsewhere")] = {"leader.replication.throttled.replicas": "0:1,0:33"}
    admin: Any = fake

    await drain(admin, 3, throttle=1000, on_progress=lambda step: None)

    assert fake.throttled == ["elsewhere"]


async def test_only_topics_that_are_still_on_the_broker_are_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.draining.POLL_S", 0)
    fake = FakeAdmin(4, balancer="true")
    admin: Any = fake

    await drain(admin, 3, throttle=None, on_progress=lambda step: None)

    everything = ["elsewhere", "orders"]
    assert fake.described == [everything, *[["orders"]] * 4, everything], "new topics are found at the end"


async def test_a_topic_that_is_deleted_during_a_drain_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.draining.POLL_S", 0)

    class Deleting(FakeAdmin):
        async def describe_topics(self, names: list[str]) -> dict[str, TopicDescription]:
            if self.drained and "orders" in names:
                error = UnknownTopicOrPartition("it is gone")
                others = await super().describe_topics([each for each in names if each != "orders"])
                raise ItemsFailed.of("describe topics", {"orders": error}, others)
            return await super().describe_topics(names)

    admin: Any = Deleting(4, balancer="true")

    assert await drain(admin, 3, throttle=None, on_progress=lambda step: None) == 4


async def test_the_next_poll_waits_as_long_as_the_last_one_took(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    clock = iter(range(0, 1000, 7))

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("penstock.cli.draining._now_s", lambda: float(next(clock)))
    monkeypatch.setattr("penstock.cli.draining.asyncio.sleep", sleep)
    admin: Any = FakeAdmin(4, balancer="true")

    await drain(admin, 3, throttle=None, on_progress=lambda step: None)

    assert waits == [7.0] * 3
