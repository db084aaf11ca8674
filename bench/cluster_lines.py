"""The lines of a cluster of three nodes: replication, fail-over, many partitions, catching up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench.cluster_peers import (
    REPLICAS,
    ClusterPeer,
    KafkaCluster,
    PenstockCluster,
    TwoKafkaNodes,
    TwoPenstockNodes,
)
from bench.line import Group, Line
from bench.many_connections import run_load
from bench.memory import back_page_cache
from bench.peers import Peer
from bench.wire import Wire, new_name, produce
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)

MIB = 1 << 20
ALL = -1
CREATED_AT_ONCE = 1_000
CLUSTERS = (KafkaCluster, PenstockCluster)


def _cluster(peer: Peer) -> ClusterPeer:
    assert isinstance(peer, ClusterPeer)
    return peer


def _new_topic(cluster: ClusterPeer, purpose: str) -> tuple[str, int]:
    """A topic with one partition on all nodes, and the port of its leader."""
    topic = new_name(purpose)
    with Wire(cluster.any_port()) as wire:
        wire.create_replicated_topic(topic, partitions=1, replicas=REPLICAS)
    leader = cluster.leader(topic)
    # The leader may hear of it later than the node that was asked.
    frame = produce(topic, 1, acks=ALL).frame
    cluster.until(lambda: _takes_records(cluster, topic, frame), f"{topic} takes records")
    return topic, cluster.nodes[leader].port


def replicated_produce(batch_bytes: int, total_bytes: int) -> Callable[[Peer], dict[str, float]]:
    def measure(peer: Peer) -> dict[str, float]:
        cluster = _cluster(peer)
        topic, port = _new_topic(cluster, "replicated")
        with Wire(port) as wire:
            made = produce(topic, batch_bytes, acks=ALL)
            requests = max(50, total_bytes // len(made.frame))
            back_page_cache(cluster.folder, 4 * total_bytes)
            wire.pump(made.frame, requests=max(20, requests // 4), in_flight=5)
            seconds = wire.pump(made.frame, requests=requests, in_flight=5)
            wire.delete_topic(topic)
        name = f"three nodes, acks=all, {batch_bytes >> 10} KiB"
        return {name: requests * len(made.frame) / 1e6 / seconds}

    return measure


def replicated_latency(peer: Peer) -> dict[str, float]:
    cluster = _cluster(peer)
    topic, port = _new_topic(cluster, "latency")
    with Wire(port) as wire:
        frame = produce(topic, 1, acks=ALL).frame
        wire.round_trips(frame, requests=2000)
        times = sorted(wire.round_trips(frame, requests=5000))
    return {
        "three nodes, one-record latency, median": statistics.median(times),
        "three nodes, one-record latency, p99": times[int(len(times) * 0.99)],
    }


def cluster_memory(peer: Peer) -> dict[str, float]:
    """After a load that touches every node."""
    cluster = _cluster(peer)
    topic, port = _new_topic(cluster, "memory")
    with Wire(port) as wire:
        wire.pump(produce(topic, 128 << 10, acks=ALL).frame, requests=2000, in_flight=5)
        memory_mb = cluster.memory_mb()
        wire.delete_topic(topic)
    return {"three nodes, memory": memory_mb}


def leader_fail_over(peer: Peer) -> dict[str, float]:
    """From the kill -9 of a leader that is not the active controller to the first acks=all produce that succeeds."""
    cluster = _cluster(peer)
    while True:
        topic, port = _new_topic(cluster, "failover")
        leader = cluster.leader(topic)
        if leader != cluster.controller():
            break
    frame = produce(topic, 1, acks=ALL).frame
    with Wire(port) as wire:
        wire.round_trips(frame, requests=100)
    cluster.nodes[leader].kill()
    began = time.perf_counter()
    cluster.until(lambda: _takes_records(cluster, topic, frame), f"{topic} has a new leader", pause_s=0.002)
    seconds = time.perf_counter() - began
    cluster.restart(leader)
    return {"three nodes, fail-over of a leader": seconds * 1000}


def _takes_records(cluster: ClusterPeer, topic: str, frame: bytes) -> bool:
    try:
        leader = cluster.partition(topic).leader_id
    except LookupError:
        return False
    if leader not in cluster.alive():
        return False
    with Wire(cluster.nodes[leader].port) as wire:
        wire.socket.sendall(frame)
        return wire.produce_error(wire.receive()) == ErrorCode.NONE


def many_replicated_partitions(peer: Peer) -> dict[str, float]:
    """Until every node knows a leader for each of them, then the same on a cluster that has as many already."""
    cluster = _cluster(peer)
    return {
        "three nodes, 5,000 partitions created and led": _created_and_led_ms(cluster),
        "three nodes, 5,000 more partitions": _created_and_led_ms(cluster),
    }


def _created_and_led_ms(cluster: ClusterPeer) -> float:
    began = time.perf_counter()
    topics = _create_partitions(cluster, 5_000, replicas=REPLICAS)
    cluster.until(lambda: _are_led(cluster, topics), "5,000 partitions are led")
    return (time.perf_counter() - began) * 1000


def _create_partitions(cluster: ClusterPeer, count: int, *, replicas: int) -> list[str]:
    topics = []
    with Wire(cluster.any_port(), timeout_s=600) as wire:
        for _ in range(count // CREATED_AT_ONCE):
            topics.append(new_name("many"))
            wire.create_replicated_topic(topics[-1], partitions=CREATED_AT_ONCE, replicas=replicas)
    return topics


def _are_led(cluster: ClusterPeer, topics: list[str]) -> bool:
    for node in cluster.alive().values():
        with Wire(node.port) as wire:
            for topic in topics:
                partitions = wire.metadata(topic).topics[0].partitions
                if len(partitions) < CREATED_AT_ONCE or any(each.leader_id < 0 for each in partitions):
                    return False
    return True


def catch_up(peer: Peer) -> dict[str, float]:
    """A follower is down while 1 GiB is written. From its start until it is in sync again."""
    cluster = _cluster(peer)
    topic, port = _new_topic(cluster, "catchup")
    leader = cluster.leader(topic)
    follower = next(node_id for node_id in cluster.nodes if node_id != leader)
    cluster.nodes[follower].stop()
    cluster.until(lambda: follower not in cluster.partition(topic).isr_nodes, "the follower left the ISR")
    with Wire(port) as wire:
        made = produce(topic, 128 << 10, acks=ALL)
        requests = (1 << 30) // len(made.frame)
        wire.pump(made.frame, requests=requests, in_flight=5)
    began = cluster.nodes[follower].launch()
    cluster.until(lambda: follower in cluster.partition(topic).isr_nodes, "the follower caught up")
    seconds = time.perf_counter() - began
    with Wire(port) as wire:
        wire.delete_topic(topic)
    return {"three nodes, a restarted follower catches up 1 GiB": requests * len(made.frame) / 1e6 / seconds}


def controller_fail_over(peer: Peer) -> dict[str, float]:
    """With 50,000 partitions: from the kill -9 of the active controller until a topic can be created."""
    cluster = _cluster(peer)
    topics = _create_partitions(cluster, 50_000, replicas=1)
    cluster.until(lambda: _are_led(cluster, topics), "50,000 partitions are led")
    active = cluster.controller()
    cluster.nodes[active].kill()
    began = time.perf_counter()
    cluster.until(lambda: _creates_topic(cluster), "a topic can be created", pause_s=0.005)
    seconds = time.perf_counter() - began
    return {"three nodes, controller fail-over with 50,000 partitions": seconds * 1000}


def _creates_topic(cluster: ClusterPeer) -> bool:
    survivor, node = next(iter(cluster.alive().items()))
    topic = CreatableTopic(
        name=new_name("after"),
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[survivor])],
        configs=[],
    )
    with Wire(node.port, timeout_s=2) as wire:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000)
        return bool(wire.ask(request, ApiKey.CREATE_TOPICS).topics[0].error_code == ErrorCode.NONE)


def two_nodes(peer: Peer) -> dict[str, float]:
    """What two nodes carry together: small requests on four connections to each, at the same time."""
    cluster = _cluster(peer)
    topic = new_name("two")
    with Wire(cluster.any_port()) as wire:
        wire.create_replicated_topic(topic, partitions=8, replicas=1)
    cluster.leader(topic, replicas=1)
    leaders = {index: cluster.partition(topic, index).leader_id for index in range(8)}
    frames = [produce(topic, 1, partition=index).frame for index in range(8)]
    ports = [cluster.nodes[leaders[index]].port for index in range(8)]
    run_load(ports, frames, requests=1_000, in_flight=8)
    requests = 5_000
    seconds = run_load(ports, frames, requests=requests, in_flight=8).seconds
    return {"two nodes together, small requests": requests * 8 / seconds}


CLUSTER_LINES = [
    Group(
        "cluster-produce16k",
        replicated_produce(16 << 10, 64 * MIB),
        [Line("three nodes, acks=all, 16 KiB", "MB/s", True, 4.0)],
        3,
        kinds=CLUSTERS,
    ),
    Group(
        "cluster-produce128k",
        replicated_produce(128 << 10, 256 * MIB),
        [Line("three nodes, acks=all, 128 KiB", "MB/s", True, 1.5)],
        3,
        kinds=CLUSTERS,
    ),
    Group(
        "cluster-latency",
        replicated_latency,
        [
            Line("three nodes, one-record latency, median", "µs", False, 1.0),
            Line("three nodes, one-record latency, p99", "µs", False, 1.0),
        ],
        3,
        kinds=CLUSTERS,
    ),
    Group(
        "cluster-memory",
        cluster_memory,
        [Line("three nodes, memory", "MB", False, 0.15)],
        1,
        kinds=CLUSTERS,
    ),
    Group(
        "cluster-failover",
        leader_fail_over,
        [Line("three nodes, fail-over of a leader", "ms", False, 0.7)],
        5,
        kinds=CLUSTERS,
    ),
    Group(
        "cluster-partitions",
        many_replicated_partitions,
        [
            Line("three nodes, 5,000 partitions created and led", "ms", False, 0.5),
            Line("three nodes, 5,000 more partitions", "ms", False, 0.5),
        ],
        1,
        kinds=CLUSTERS,
    ),
    Group(
        "cluster-catchup",
        catch_up,
        [Line("three nodes, a restarted follower catches up 1 GiB", "MB/s", True, 1.5)],
        1,
        kinds=CLUSTERS,
    ),
    Group(
        "cluster-controller",
        controller_fail_over,
        [Line("three nodes, controller fail-over with 50,000 partitions", "ms", False, 0.5)],
        1,
        is_long=True,
        kinds=CLUSTERS,
    ),
    Group(
        "two-nodes",
        two_nodes,
        [Line("two nodes together, small requests", "requests/s", True)],
        3,
        kinds=(TwoKafkaNodes, TwoPenstockNodes),
    ),
]
