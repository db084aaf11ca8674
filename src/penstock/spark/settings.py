"""Settings of Spark that fit pipelines on Penstock, each with its reason; sans-IO.

What a user sets stands above all of this. Spark Connect takes only what can change while a server runs: the rest is the
server's own (`penstock spark cluster --connect` starts one with these).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# What any session may say, also one of Spark Connect while its server runs.
RUNTIME = {
    # State outside the JVM's heap, written as changes: a million keys cost neither pauses nor whole copies.
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}

# What is fixed when Spark starts.
STATIC = {
    "spark.python.worker.faulthandler.enabled": "true",  # a worker that crashes says where
    "spark.python.daemon.module": "penstock.spark.daemon",  # see there
    # Rows go between the JVM and Python by a socket, over loopback if nothing is said: an eighth less of the processor
    # for a batch that is read, and on a busy machine a quarter of the time.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",  # it would write over what a program prints
    "spark.log.level": "ERROR",
}

# Where driver and workers are one machine: no name to resolve, and nothing that others could reach.
LOOPBACK = frozenset({"localhost", "127.0.0.1"})
DRIVER_ON_LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}

# For what runs a minute: a JVM that compiles less and collects in one thread is up sooner, for on few cores
# its compiler takes them from the work. What runs for hours is better off without.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# A partition is a state store for each stateful operator; Spark's own 200 are meant for batches of terabytes.
CLUSTER_SHUFFLE_PARTITIONS = 16


DEFAULT_PORTS = {"spark://": 7077, "sc://": 15002}


class Place(Enum):
    """Where Spark runs, by what its address begins with."""

    LOCAL = "local"
    CLUSTER = "a cluster"
    CONNECT = "Spark Connect"


def place_of(master: str) -> Place:
    if master.startswith("sc://"):
        return Place.CONNECT
    return Place.LOCAL if re.match(r"local(\[|$)", master) else Place.CLUSTER


def cores_of(master: str, *, machine: int) -> int:
    """How many tasks `local`, `local[4]`, `local[*]` or `local[*, 2]` run at a time."""
    found = re.match(r"local(?:-cluster)?\[\s*(\d+|\*)", master)
    if found is None:
        return 1
    return machine if found[1] == "*" else int(found[1])


def host_of(master: str) -> str | None:
    """The machine of a standalone cluster's master."""
    found = re.match(r"spark://([^:,/]+)", master)
    return found[1] if found else None


def addresses_of(master: str) -> list[tuple[str, int]]:
    """Where the masters of a standalone cluster are, or a server of Spark Connect; other kinds Spark knows."""
    for scheme, port in DEFAULT_PORTS.items():
        if master.startswith(scheme):
            hosts = re.split(r"[/;?]", master.removeprefix(scheme))[0].split(",")
            parts = [
                host.rpartition(":") if re.search(r":\d+$", host) else (host, ":", str(port))
                for host in hosts
            ]
            return [(host, int(number)) for host, _, number in parts if host]
    return []


def is_on_this_machine(master: str) -> bool:
    return place_of(master) is Place.LOCAL or host_of(master) in LOOPBACK


def settings_for(master: str, *, machine_cores: int, said: Mapping[str, str]) -> dict[str, str]:
    """All that a session is started with: ours, and over it what the user said."""
    place = place_of(master)
    settings = dict(RUNTIME)
    partitions = CLUSTER_SHUFFLE_PARTITIONS
    if place is Place.LOCAL:
        partitions = cores_of(master, machine=machine_cores)
    settings["spark.sql.shuffle.partitions"] = str(partitions)
    if place is not Place.CONNECT:
        settings |= STATIC
    if is_on_this_machine(master):
        settings |= DRIVER_ON_LOOPBACK
    return settings | {name: str(value) for name, value in said.items()}
