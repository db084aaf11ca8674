"""Every call of a cluster for tests. Never run: type checkers read it."""

from __future__ import annotations

from pathlib import Path

from penstock import Admin, Consumer, Producer, testing
from penstock.testing import Cluster, Faults


def serve() -> None:
    with Cluster(nodes=3, settings={"num.partitions": 3}) as cluster:
        use(cluster)
    other: Cluster = testing.Cluster()
    other.close()


def use(cluster: Cluster) -> None:
    servers: str = cluster.bootstrap_servers
    producer: Producer = cluster.producer(linger_ms=0)
    consumer: Consumer = cluster.consumer("orders", group="billing")
    admin: Admin = cluster.admin()
    node_ids: tuple[int, ...] = cluster.node_ids
    port: int = cluster.port(1)
    leader: int = cluster.leader("orders", 0)
    controller: int = cluster.controller()
    cluster.kill(leader)
    is_running: bool = cluster.is_running(leader)
    cluster.start(leader)
    cluster.stop(2)
    cluster.restart(2)
    cluster.pause(3)
    cluster.resume(3)
    cluster.partition({1}, {2, 3})
    cluster.heal()
    cluster.wait_until_in_sync("orders")
    faults: Faults = cluster.faults(1)
    log: str = cluster.log(1, last_bytes=100)
    files: list[Path] = cluster.log_files
    print(servers, producer, consumer, admin, node_ids, port, controller, is_running, faults, log, files)
