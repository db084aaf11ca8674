"""Random histories of fencing, restarts, ISR changes, reassignments and elections keep the invariants of partitions."""

from __future__ import annotations

import random

import pytest

from penstock.controller import fencing
from penstock.controller.broker_index import BrokerIndex
from penstock.controller.elect_leaders import elect_missing_leaders, elect_preferred_leaders
from penstock.metadata.errors import Refused
from penstock.metadata.features import LATEST_METADATA_VERSION, initial_levels, metadata_version
from penstock.metadata.framing import encode_record
from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from unit.controller.active import SESSION_TIMEOUT_MS, ActiveController
from unit.controller.clusters import new_topic

NODES = (1, 2, 3, 4)
STEPS = 120


@pytest.mark.parametrize("seed", range(24))
def test_every_step_keeps_the_invariants(seed: int) -> None:
    history = History(seed)
    check_steps(history, seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_cluster_of_kafka_3_7_gets_only_records_that_it_can_read(seed: int) -> None:
    history = History(seed, metadata_version=19)
    check_steps(history, seed)
    assert not any(
        partition.eligible_leaders or partition.last_known_leaders
        for topic in history.active.image.topics.by_name.values()
        for partition in topic.partitions
    )


def check_steps(history: History, seed: int) -> None:
    has_eligible_leaders = "eligible.leader.replicas.version" in history.active.image.features
    before = history.active.image

    for _ in range(STEPS):
        step = history.step()
        after = history.active.image
        for record in history.active.records:
            encode_record(record, metadata_version(after))
        where = f"seed {seed}: {step}"
        check(before, after, history.active.state.index, where, has_eligible_leaders=has_eligible_leaders)
        before = after


class History:
    def __init__(self, seed: int, *, metadata_version: int = LATEST_METADATA_VERSION) -> None:
        self.rng = random.Random(seed)
        has_unclean = self.rng.random() < 0.3
        self.active = ActiveController(
            NODES,
            settings={"unclean.leader.election.enable": str(has_unclean).lower()},
            image=MetadataImage(features=initial_levels(metadata_version)),
        )
        self.active.create(
            *(
                new_topic(name, 3, factor, configs={"min.insync.replicas": str(min_isr)})
                for name, factor, min_isr in (("a", 3, 2), ("b", 2, 1), ("c", 1, 1), ("d", 4, 3))
            )
        )

    def step(self) -> str:
        actions = (
            self.fence,
            self.expire,
            self.restart,
            self.shut_down,
            self.return_,
            self.alter_isr,
            self.alter_isr,
            self.alter_isr,
            self.reassign,
            self.cancel,
            self.elect,
            self.periodic,
        )
        action = self.rng.choice(actions)
        try:
            action()
        except Refused as refused:
            return f"{action.__name__} refused: {refused}"
        return action.__name__

    def fence(self) -> None:
        self.active.heartbeat(self.rng.choice(NODES), want_fence=True)

    def expire(self) -> None:
        silent = self.rng.choice(NODES)
        self.active.now_ms += SESSION_TIMEOUT_MS
        for node_id in NODES:
            if node_id != silent and not self.active.broker(node_id).is_fenced:
                self.active.heartbeat(node_id)
        self.active.decide(fencing.fence_expired)

    def restart(self) -> None:
        node_id = self.rng.choice(NODES)
        self.active.state.sessions.end(node_id)
        self.active.register(node_id, is_clean=self.rng.random() < 0.5)

    def shut_down(self) -> None:
        node_id = self.rng.choice(NODES)
        for _ in range(2):
            self.active.heartbeat(node_id, want_shut_down=True)

    def return_(self) -> None:
        for node_id in NODES:
            if self.rng.random() < 0.7:
                broker = self.active.broker(node_id)
                if broker.is_fenced and broker.in_controlled_shutdown:
                    self.active.register(node_id, is_clean=self.rng.random() < 0.7)
                self.active.heartbeat(node_id)

    def alter_isr(self) -> None:
        name, index = self._partition()
        partition = self.active.partition(name, index)
        if partition.has_leader:
            others = [node_id for node_id in partition.replicas if node_id != partition.leader]
            kept = [node_id for node_id in others if self.rng.random() < 0.7]
            self.active.alter_isr([partition.leader, *kept], topic=name, index=index)

    def reassign(self) -> None:
        name, index = self._partition()
        target = self.rng.sample(NODES, self.rng.randint(1, 3))
        self.active.reassign(target, topic=name, index=index)

    def cancel(self) -> None:
        name, index = self._partition()
        self.active.reassign(None, topic=name, index=index)

    def elect(self) -> None:
        self.active.elect(self.rng.randrange(2))

    def periodic(self) -> None:
        self.active.decide(self.rng.choice((elect_preferred_leaders, elect_missing_leaders)))

    def _partition(self) -> tuple[str, int]:
        return self.rng.choice("abcd"), self.rng.randrange(3)


def check(
    before: MetadataImage, after: MetadataImage, index: BrokerIndex, step: str, *, has_eligible_leaders: bool
) -> None:
    for name, topic in after.topics.by_name.items():
        for number, partition in enumerate(topic.partitions):
            where = f"{step}, {name}-{number}: {partition}"
            check_partition(after, partition, where, has_eligible_leaders=has_eligible_leaders)
            old = before.topics.by_name[name].partitions[number]
            assert (partition.partition_epoch > old.partition_epoch) == (partition != old), where
            assert partition.leader_epoch >= old.leader_epoch, where
            if partition.leader != old.leader or not set(old.replicas) <= set(partition.replicas):
                assert partition.leader_epoch > old.leader_epoch, where
    rebuilt = BrokerIndex.build(after)
    for node_id in (*NODES, NO_LEADER):
        for query in ("hosted", "in_sync", "led", "eligible", "led_by_others"):
            found = getattr(index, query)(node_id)
            assert sorted(found) == sorted(getattr(rebuilt, query)(node_id)), f"{step}: {query}"
    assert sorted(index.reassigning()) == sorted(rebuilt.reassigning())


def check_partition(
    image: MetadataImage, partition: PartitionImage, where: str, *, has_eligible_leaders: bool
) -> None:
    replicas = set(partition.replicas)
    assert len(replicas) == len(partition.replicas) == len(partition.directories), where
    assert set(partition.isr) <= replicas, where
    assert set(partition.eligible_leaders) <= replicas, where
    assert not set(partition.isr) & set(partition.eligible_leaders), where
    assert set(partition.adding_replicas) <= replicas, where
    assert set(partition.removing_replicas) <= replicas, where
    if partition.has_leader:
        assert partition.leader in partition.isr, where
        assert image.brokers[partition.leader].is_active, where
    if has_eligible_leaders:
        assert all(image.brokers[node_id].is_active for node_id in partition.isr), where
        assert partition.has_leader == bool(partition.isr), where
    else:
        assert partition.isr, f"the last in-sync replica stays: {where}"
