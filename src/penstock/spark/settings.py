"""Settings of Spark for pipelines on Penstock, each with its reason; sans-IO.

A user's settings override these. Spark Connect accepts only settings that can change while a server runs; the rest are
the server's own (`penstock spark cluster --connect` starts one with these).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# For every session, also of Spark Connect.
RUNTIME = {
    # State is outside the JVM's heap and written as changes: a million keys cause neither pauses nor full copies.
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
}

# Fixed when Spark starts.
STATIC = {
    "spark.python.worker.faulthandler.enabled": "true",  # a crashed worker logs its stack
    "spark.python.daemon.module": "penstock.spark.daemon",  # see there
    # Unix sockets between the JVM and Python, instead of loopback: an eighth less CPU for a batch read, and on a busy
    # machine a quarter less time.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",  # it would overwrite a program's output
    "spark.log.level": "ERROR",
}

# For driver and workers on one machine: no name to resolve, and no port that others can reach.
LOOPBACK = frozenset({"localhost", "127.0.0.1"})
DRIVER_ON_LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}

# For runs of a minute: a JVM that compiles less and collects garbage in one thread starts sooner, because on few cores
# its compiler competes with the work. Runs of hours are better without.
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Every partition is a state store per stateful operator; Spark's default of 200 is meant for terabytes.
CLUSTER_SHUFFLE_PARTITIONS = 16


DEFAULT_PORTS = {"spark://": 7077, "sc://": 15002}


class Place(Enum):
    """Where Spark runs, by its master URL."""

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
    """The host of a standalone master."""
    found = re.match(r"spark://([^:,/]+)", master)
    return found[1] if found else None


def addresses_of(master: str) -> list[tuple[str, int]]:
    """The addresses of standalone masters or of a Connect server; empty for other kinds."""
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


def settings_for(master: str, *, machine_cores: int, given: Mapping[str, str]) -> dict[str, str]:
    """All settings to start a session with: ours, overridden by the user's."""
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
    return settings | {name: str(value) for name, value in given.items()}
