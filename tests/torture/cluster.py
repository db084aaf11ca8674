"""Break the nodes of a cluster one after the other, under load, and check that nothing is lost.

Idempotent producers with acks=all (confluent-kafka, Java, Penstock's own) each write numbered records to a topic with
three replicas. Pipelines of real clients consume from another topic, transform and produce in transactions. In each
round one node is killed with SIGKILL, stopped with SIGTERM, paused with SIGSTOP, or cut off from the other nodes;
sometimes that is the leader of a partition, sometimes the active controller. Then it comes back. In the end every
acknowledged record is there once and in order, and every pipeline's output matches its input one to one. A pipeline of
librdkafka that hangs is restarted once, as an operator would do; the report counts it.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compat.transactions.input import Input
from compat.transactions.transformers import Client
from harness.admin import create_topics
from harness.clusters import ProcessCluster
from harness.group_timeouts import SHORT_GROUP_TIMEOUTS
from harness.java_load import JavaLoad
from harness.load import Load, NumberedLoad, Offset
from harness.network import SeparateHosts
from harness.own_load import OwnLoad, check_each_once_and_in_order
from torture.transactions import INPUT, INPUT_PARTITION_COUNT, MonitoredPipeline

TOPIC = "confluent-kafka"
LOADS: dict[str, type[NumberedLoad]] = {TOPIC: Load, "java": JavaLoad, "penstock": OwnLoad}
"""The topics of the producers."""
PARTITION_COUNT = 6
REPLICAS = 3
ROUND_RECORDS = 60
PROGRESS_SECONDS = 90.0
SETTINGS = {
    **SHORT_GROUP_TIMEOUTS,
    "group.consumer.session.timeout.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}

KILL, STOP, PAUSE, PARTITION = "kill -9", "stop", "pause", "network partition"


@dataclass(frozen=True, slots=True)
class ClusterReport:
    rounds: int
    acknowledged: int
    transformed: int
    longest_gap_s: float
    """The longest time after a fault without an acknowledged record."""
    restarted: list[str]
    """The clients of pipelines that hung and were restarted."""
    faults: list[str]


def torture_cluster(
    cluster: ProcessCluster[Any],
    *,
    rounds: int,
    seed: int,
    clients: Sequence[Client] = (),
    actions: Sequence[str] = (KILL, PAUSE, STOP),
    say: Callable[[str], None] = lambda line: None,
) -> ClusterReport:
    """Run everything on a cluster that is not started yet; it is left running."""
    rng = random.Random(seed)
    cluster.start()
    loads: dict[str, NumberedLoad] = {topic: kind(cluster.bootstrap, topic) for topic, kind in LOADS.items()}
    create_topics(cluster.bootstrap, *loads, partitions=PARTITION_COUNT, replicas=REPLICAS)
    create_topics(cluster.bootstrap, INPUT, partitions=INPUT_PARTITION_COUNT, replicas=REPLICAS)
    written = Input(cluster.bootstrap, INPUT, INPUT_PARTITION_COUNT) if clients else None
    pipelines = [MonitoredPipeline(client, cluster.bootstrap, replicas=REPLICAS) for client in clients]
    run = _Run(cluster, loads, pipelines, written, rng)
    faults: list[str] = []
    try:
        for load in loads.values():
            load.start()
        for monitored in pipelines:
            monitored.pipeline.start()
        for number in range(1, rounds + 1):
            what = run.round(number, rng.choice(actions) if len(actions) > 1 else actions[0])
            say(f"round {number:3}/{rounds}: {what}; {_count(loads):,} acknowledged")
            faults = [failure for monitored in pipelines for failure in monitored.failures]
            if faults:
                break
        faults += run.finish()
    finally:
        for load in loads.values():
            load.abandon()
        for monitored in pipelines:
            monitored.pipeline.kill()
    return ClusterReport(
        number,
        _count(loads),
        sum(monitored.reader.count for monitored in pipelines),
        run.longest_gap_s,
        run.restarted,
        list(dict.fromkeys(faults)),
    )


class _Run:
    def __init__(
        self,
        cluster: ProcessCluster[Any],
        loads: dict[str, NumberedLoad],
        pipelines: list[MonitoredPipeline],
        written: Input | None,
        rng: random.Random,
    ) -> None:
        self._cluster = cluster
        self._loads = loads
        self._pipelines = pipelines
        self._written = written
        self._rng = rng
        self.longest_gap_s = 0.0
        self.restarted: list[str] = []

    def round(self, number: int, action: str) -> str:
        """Break one node under load and bring it back; what was done."""
        if self._written is not None:
            self._written.write(ROUND_RECORDS)
        for load in self._loads.values():
            load.wait_for_more()
        node_id, role = self._choose(number)
        time.sleep(self._rng.uniform(0.0, 0.5))
        began = time.monotonic()
        self._break(node_id, action)
        for load in self._loads.values():
            load.wait_for_more(seconds=PROGRESS_SECONDS)
        gap_s = time.monotonic() - began
        self.longest_gap_s = max(self.longest_gap_s, gap_s)
        # A node that only hangs or is cut off is fenced after its session timeout: come back before that, or after it.
        time.sleep(self._rng.uniform(0.0, 4.0 if action in (PAUSE, PARTITION) else 1.0))
        self._cluster.heal()
        for topic in self._loads:
            self._cluster.await_in_sync(topic)
        return f"{action} of node {node_id} ({role}), load went on after {gap_s:.1f} s"

    def finish(self) -> list[str]:
        """Let every client finish, and check what is stored."""
        faults: list[str] = []
        for monitored in self._pipelines:
            assert self._written is not None
            client, count = monitored.pipeline.client, len(self._written.written)
            try:
                if client.may_hang and not monitored.reads(count):
                    self.restarted.append(str(client))
                    monitored.pipeline.restart()
                monitored.reader.read_until(count, errors=monitored.failures)
            except AssertionError as error:
                faults.append(f"{client}: {error}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                # librdkafka may wait a minute for a cached coordinator that has left the metadata.
                monitored.pipeline.stop()
        for load in self._loads.values():
            load.stop()
        for topic, load in self._loads.items():
            stored = OwnLoad.stored_in(self._cluster.bootstrap, topic)
            faults += [f"{topic}: {fault}" for fault in _faults(stored, load.written)]
        for monitored in self._pipelines:
            assert self._written is not None
            faults += monitored.faults(self._cluster.bootstrap, self._written)
        return faults

    def _choose(self, number: int) -> tuple[int, str]:
        """Each node in turn; sometimes a leader or the active controller instead."""
        chance = self._rng.random()
        if chance < 0.25:
            return self._cluster.leader_of(TOPIC, self._rng.randrange(PARTITION_COUNT)), "a leader"
        if chance < 0.5:
            return self._cluster.controller(), "the active controller"
        node_ids = sorted(self._cluster.nodes)
        return node_ids[number % len(node_ids)], "its turn"

    def _break(self, node_id: int, action: str) -> None:
        if action == KILL:
            self._cluster.kill(node_id)
        elif action == STOP:
            self._cluster.stop(node_id)
        elif action == PAUSE:
            self._cluster.pause(node_id)
        else:
            assert isinstance(self._cluster, SeparateHosts), (
                "only nodes with hosts of their own can be cut off"
            )
            self._cluster.isolate(node_id)


class ClusterAsBroker:
    """A cluster in the place of one broker: `kill` kills the next node, and `start` starts it again. For
    `torture_spark`."""

    def __init__(self, cluster: ProcessCluster[Any]) -> None:
        self._cluster = cluster
        self._killed: int | None = None
        self._turns = 0

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> None:
        if self._killed is None:
            self._cluster.start()
        else:
            self._cluster.restart(self._killed)

    def kill(self) -> None:
        node_ids = sorted(self._cluster.nodes)
        self._killed = node_ids[self._turns % len(node_ids)]
        self._turns += 1
        self._cluster.kill(self._killed)

    def stop(self) -> None:
        self._cluster.close()


def _count(loads: dict[str, NumberedLoad]) -> int:
    return sum(len(load.written) for load in loads.values())


def _faults(stored: dict[Offset, int], written: dict[Offset, int]) -> list[str]:
    lost = [(where, number) for where, number in sorted(written.items()) if stored.get(where) != number]
    if lost:
        shown = ", ".join(f"{number} at {where}" for where, number in lost[:5])
        return [f"{len(lost)} acknowledged records are not where they were acknowledged: {shown}"]
    try:
        check_each_once_and_in_order(stored, written)
    except AssertionError as error:
        return [f"records are duplicate or out of order: {str(error)[:500]}"]
    return []
