"""Runs one seed of a cluster, from the first start of empty nodes to the last audit.

    report = run_cluster_seed(17)

raises `BrokenPromise`, with the last lines of the trace, if the cluster broke a promise.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from penstock.metadata.names import is_internal
from simulator.checks.ledger import Ledger
from simulator.cluster import COMBINED, SimulatedCluster
from simulator.clusters.administrators import Administrator, retry_until
from simulator.clusters.chaos import ClusterChaos, Power
from simulator.clusters.elasticity import Elasticity
from simulator.clusters.inside import image_of, is_fully_in_sync, metadata_offset_of, partitions_of
from simulator.clusters.logs import check_replicas_equal
from simulator.clusters.producers import ACKS_ALL, ACKS_LEADER, IdempotentProducer, PlainProducer
from simulator.clusters.readers import Reader
from simulator.clusters.trimmer import Trimmer
from simulator.clusters.watch import Watch, difference
from simulator.world import BrokenPromise

ORDERS, CLICKS = "durable-orders", "durable-clicks"
"""Both keep their promises in all faults that a seed draws."""
TOPICS = (ORDERS, CLICKS)
TRIMMED = "trimmed"
"""Its oldest records are deleted now and then."""
CHAOS_S_MIN, CHAOS_S_MAX = 4.0, 14.0
DRAIN_S_MAX = 120.0  # how long clients may take to finish after the last fault
RECOVERY_S_MAX = 120.0  # how long replicas may take to be in sync again after the last fault
LINES_SHOWN = 80
SHAPES = ("combined", "combined", "combined", "separate", "mixed")


@dataclass(frozen=True, slots=True)
class Layout:
    """The nodes of a cluster."""

    roles: dict[int, str]
    power: Power
    settings: dict[str, str] = field(default_factory=dict)
    moves_replicas: bool = False
    grows: bool = False
    """A broker joins, and one is removed."""
    trims: bool = False
    alters_min_isr: bool = False
    """`min.insync.replicas` of the topics is 1 at times."""

    @property
    def replicas(self) -> int:
        """The replication factor of topics."""
        return min(3, sum("broker" in role for role in self.roles.values()))


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    fingerprint: str
    events: int
    lives: int
    acknowledged: int
    epochs: int
    """Epochs of the quorum with a leader."""
    faults: dict[str, int]
    virtual_s: float


def run_cluster_seed(
    seed: int,
    *,
    power: Power | None = None,
    roles: dict[int, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Report:
    """Run one seed. The arguments override what the seed draws."""
    layout = draw_layout(random.Random(f"{seed}/layout"), power=power, roles=roles)
    cluster = SimulatedCluster(seed, roles=layout.roles, settings=layout.settings)
    cluster.trace.on_line = on_line
    scenario = ClusterScenario(cluster, layout)
    try:
        cluster.run(lambda _: scenario.run())
    except Exception as error:
        lines = list(cluster.trace.lines)[-LINES_SHOWN:]
        error.add_note("\n".join([f"cluster seed {seed}; the last events:", *lines]))
        raise
    return Report(
        seed=seed,
        fingerprint=cluster.trace.fingerprint(),
        events=cluster.trace.count,
        lives=sum(node.lives for node in cluster.nodes.values()),
        acknowledged=scenario.ledger.acknowledged_count(),
        epochs=len(scenario.watch.quorum_leaders),
        faults=scenario.chaos.counts,
        virtual_s=cluster.loop.time(),
    )


def draw_layout(
    rng: random.Random, *, power: Power | None = None, roles: dict[int, str] | None = None
) -> Layout:
    shape = "given" if roles is not None else rng.choice(SHAPES)
    if roles is not None:
        pass
    elif shape == "combined":
        roles = dict.fromkeys(range(1, 4), COMBINED)
    elif shape == "separate":
        roles = {
            1: "broker",
            2: "broker",
            3: "broker",
            101: "controller",
            102: "controller",
            103: "controller",
        }
    else:
        roles = {1: COMBINED, 2: COMBINED, 3: COMBINED, 4: "broker"}
    power = power or rng.choice((Power.NEVER, Power.ONE_AT_A_TIME, Power.ALWAYS))
    settings = {
        "auto.create.topics.enable": "false",
        "default.replication.factor": "3",
        "min.insync.replicas": str(min(2, len(roles))),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "log.initial.task.delay.ms": "100",
        "num.replica.fetchers": rng.choice(("1", "1", "2")),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(("200", "5000")),
        "log.flush.offset.checkpoint.interval.ms": rng.choice(("50", "2000")),
        "controlled.shutdown.enable": "true",
    }
    if power is Power.ALWAYS:
        settings["log.flush.interval.messages"] = "1"
    if rng.random() < 0.3:
        settings["metadata.log.max.record.bytes.between.snapshots"] = str(rng.choice((2_000, 20_000)))
    return Layout(
        roles,
        power,
        settings,
        moves_replicas=rng.random() < 0.4,
        grows=shape != "given" and rng.random() < 0.25,
        trims=rng.random() < 0.3,
        # A record that only one replica has is lost if that one loses power before it is synced.
        alters_min_isr=power is not Power.ONE_AT_A_TIME and rng.random() < 0.3,
    )


class ClusterScenario:
    def __init__(self, cluster: SimulatedCluster, layout: Layout) -> None:
        self.cluster = cluster
        self.ledger = Ledger()
        self.watch = Watch(cluster)
        self._replicas = layout.replicas
        rng = cluster.random
        delay_s_max = rng.choice((0.002, 0.02))
        for node in cluster.nodes.values():
            node.worker_delay_s_max = delay_s_max
        seconds = rng.uniform(CHAOS_S_MIN, CHAOS_S_MAX)
        self.chaos = ClusterChaos(cluster, seconds=seconds, power=layout.power, log_dirs=("/data",))
        is_over = self.chaos.is_over
        self._administrator = Administrator(
            cluster,
            "admin",
            TOPICS,
            is_over,
            moves_replicas=layout.moves_replicas,
            alters_min_isr=layout.alters_min_isr,
        )
        self._plain = [
            PlainProducer(cluster, "plain-orders", ORDERS, self.ledger, is_over, acks=ACKS_ALL),
            PlainProducer(cluster, "plain-clicks", CLICKS, self.ledger, is_over, acks=ACKS_ALL),
            PlainProducer(cluster, "leader-only", ORDERS, self.ledger, is_over, acks=ACKS_LEADER),
        ]
        self._idempotent = [
            IdempotentProducer(cluster, "idempotent-1", ORDERS, self.ledger, is_over),
            IdempotentProducer(cluster, "idempotent-2", CLICKS, self.ledger, is_over),
        ]
        self._trimming: list[PlainProducer | Trimmer] = []
        if layout.trims:
            self._trimming = [
                PlainProducer(cluster, "trimmed", TRIMMED, Ledger(), is_over, acks=ACKS_ALL),
                Trimmer(cluster, "trimmer", TRIMMED, is_over),
            ]
        self._elasticity = Elasticity(cluster, self.chaos, seconds=seconds) if layout.grows else None
        self._readers = [
            Reader(cluster, f"reader-{number}", TOPICS, self.ledger, is_over) for number in (1, 2)
        ]
        self._auditor = Reader(cluster, "auditor", TOPICS, self.ledger, is_over)

    async def run(self) -> None:
        watching = asyncio.ensure_future(self.watch.run())
        work = asyncio.ensure_future(self._work())
        try:
            done, _ = await asyncio.wait(
                [work, watching], timeout=CHAOS_S_MAX + DRAIN_S_MAX, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                raise BrokenPromise(f"clients did not finish after the last fault: {self._unfinished()}")
            for task in done:
                task.result()
        finally:
            watching.cancel()
            work.cancel()
        await self.check_everything()

    async def _work(self) -> None:
        await asyncio.gather(
            self.chaos.run(),
            self._administer(),
            *[producer.run() for producer in self._plain],
            *[producer.run() for producer in self._idempotent],
            *[reader.run() for reader in self._readers],
            *[client.run() for client in self._trimming],
            *([self._elasticity.add_broker()] if self._elasticity is not None else []),
        )

    def _unfinished(self) -> str:
        return ", ".join(producer.describe() for producer in self._idempotent if not producer.has_finished())

    async def _administer(self) -> None:
        for topic in (*TOPICS, TRIMMED) if self._trimming else TOPICS:
            await self._administrator.ensure_exists(topic, partitions=3, replicas=self._replicas, configs={})
        await self._administrator.run()

    # After the last fault

    async def check_everything(self) -> None:
        await self._check_promises()
        if self._elasticity is not None:
            await self._elasticity.remove_broker()
            await self._check_promises()

    async def _check_promises(self) -> None:
        await self._wait_until_in_sync()
        for producer in self._plain:
            for index in range(3):
                await retry_until(
                    f"{producer.topic}-{index} accepts records of {producer.name}",
                    partial(producer.check_writable, index),
                    within_s=RECOVERY_S_MAX,
                )
        await asyncio.sleep(self.cluster.settle_s + 1.0)
        self.watch.look()
        await self._audit_records()
        await self._check_metadata()
        self._check_logs()

    async def _wait_until_in_sync(self) -> None:
        until = self.cluster.loop.time() + RECOVERY_S_MAX
        while not is_fully_in_sync(self.cluster):
            if self.cluster.loop.time() > until:
                raise BrokenPromise(
                    f"not all replicas are in sync within {RECOVERY_S_MAX} s after the last fault:"
                    f" {describe_laggards(self.cluster)}"
                )
            self.watch.look()
            await asyncio.sleep(0.1)
        await retry_until("all replicas have moved", self._administrator.stop_moves, within_s=RECOVERY_S_MAX)

    async def _audit_records(self) -> None:
        for topic in TOPICS:
            view = None
            while view is None:
                view = await self._auditor.find_topic(topic)
            for index in range(len(view.leaders)):
                ledger = self.ledger.get(topic, view.topic_id, index)
                promised = dict(ledger.promised)
                records = None
                until = self.cluster.loop.time() + RECOVERY_S_MAX
                while records is None:
                    if self.cluster.loop.time() > until:
                        raise BrokenPromise(f"{ledger.name} cannot be read")
                    records = await self._auditor.read_all(topic, view.topic_id, index)
                    await asyncio.sleep(0.05)
                ledger.check_log(0, records, promised=promised, end_offset=0)

    async def _check_metadata(self) -> None:
        """All nodes have the same image."""
        cluster = self.cluster
        until = cluster.loop.time() + RECOVERY_S_MAX
        while len({metadata_offset_of(node) for node in cluster.all_nodes}) > 1:
            if cluster.loop.time() > until:
                offsets = {node.name: metadata_offset_of(node) for node in cluster.all_nodes}
                raise BrokenPromise(f"metadata does not reach all nodes: {offsets}")
            await asyncio.sleep(0.01)
        first, *others = cluster.all_nodes
        for node in others:
            if image_of(node) != image_of(first):
                raise BrokenPromise(
                    f"{first.name} and {node.name} have different metadata at offset {metadata_offset_of(node)}:"
                    f" {difference(image_of(first), image_of(node))}"
                )
        await self._administrator.check_topics(list(image_of(first).topics.by_name), where="every node")

    def _check_logs(self) -> None:
        """In-sync replicas have equal logs below the high watermark."""
        cluster = self.cluster
        self.watch.logs.check()
        for topic in image_of(cluster.all_nodes[0]).topics.by_name.values():
            for index, image in enumerate(topic.partitions):
                replicas = {
                    node_id: each
                    for node_id in image.isr
                    for each in partitions_of(cluster.nodes[node_id])
                    if each.topic_id == topic.topic_id and each.index == index
                }
                leader = replicas[image.leader]
                check_replicas_equal(
                    cluster,
                    f"{topic.name}-{index}",
                    list(image.isr),
                    start_offset=max(each.log.start_offset for each in replicas.values()),
                    end_offset=leader.high_watermark,
                )
                if not is_internal(topic.name) and topic.name in TOPICS and not leader.high_watermark:
                    raise BrokenPromise(f"{topic.name}-{index} is empty after the last write")


def describe_laggards(cluster: SimulatedCluster) -> str:
    """Why a cluster is not in sync, as each node sees it."""
    lines = []
    for node in cluster.all_nodes:
        if not node.is_serving:
            lines.append(f"{node.name} does not serve")
            continue
        image = image_of(node)
        fenced = [broker.node_id for broker in image.brokers.values() if broker.is_fenced]
        behind = [
            f"{topic.name}-{index} leader {each.leader} isr {each.isr} of {each.replicas}"
            for topic in image.topics.by_name.values()
            for index, each in enumerate(topic.partitions)
            if set(each.isr) != set(each.replicas) or not each.has_leader
        ]
        lines.append(
            f"{node.name} at {image.offset}: fenced {fenced}, brokers {sorted(image.brokers)}, {behind[:5]}"
        )
    return "; ".join(lines)
