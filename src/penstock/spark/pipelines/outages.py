"""Finds out whether the brokers of a busy pipeline answer: a source that retries reports nothing meanwhile.

A query that is busy without a report may work on a large batch, or wait for an unavailable cluster. A connection
attempt tells the difference: `OutageProbe` makes one from time to time, in another thread, and reports for how long a
cluster has not answered. It does not affect the query, which has its own timeouts.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from penstock.spark.errors import SparkError
from penstock.spark.options import Options, Use

QUIET_SECONDS = 2.0  # how long a query may be busy before its brokers are probed
PROBE_SECONDS = 2.0
CONNECT_SECONDS = 3.0
API_TIMEOUT_MS = 60_000  # the default of `default.api.timeout.ms`
DEFAULT_PORT = 9092


class Cluster(NamedTuple):
    """The bootstrap servers of a cluster, and after how long a query gives up on it."""

    servers: str
    patience_seconds: float | None = None


class Outage(NamedTuple):
    """How long a cluster has not answered."""

    cluster: Cluster
    seconds: float


def clusters_of(sources: Iterable[Mapping[str, str]]) -> list[Cluster]:
    """The clusters in the options of a query's sources, each once."""
    found: dict[str, Cluster] = {}
    for given in sources:
        try:
            options = Options.read(given, Use.STREAM_READ)
        except SparkError:  # the query itself reports it
            continue
        if servers := options.settings.get("bootstrap.servers"):
            found.setdefault(servers, Cluster(servers, _patience(options)))
    return list(found.values())


def _patience(options: Options) -> float:
    """How long a source retries, with the pauses in between."""
    retries: int = options.get("fetchOffset.numRetries")
    try:
        one_ms = int(options.settings.get("default.api.timeout.ms", API_TIMEOUT_MS))
    except ValueError:  # the client rejects it
        one_ms = API_TIMEOUT_MS
    pauses_ms = retries * int(options.get("fetchOffset.retryIntervalMs"))
    return ((retries + 1) * one_ms + pauses_ms) / 1000


class OutageProbe:
    """Probes the clusters of waiting queries, and remembers since when they have not answered."""

    def __init__(
        self,
        *,
        probe: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        run_in_background: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._probe = probe or is_reachable
        self._clock = clock
        self._run_in_background = run_in_background or _in_a_thread
        self._tried_at: dict[str, float] = {}
        self._trying: set[str] = set()
        self._away_since: dict[str, float] = {}

    def outage(self, clusters: Iterable[Cluster]) -> Outage | None:
        """The longest known outage of these clusters; starts another probe if one is due."""
        known: list[Outage] = []
        for cluster in clusters:
            self._probe_if_due(cluster.servers)
            since = self._away_since.get(cluster.servers)
            if since is not None:
                known.append(Outage(cluster, self._clock() - since))
        return max(known, key=lambda outage: outage.seconds, default=None)

    def _probe_if_due(self, servers: str) -> None:
        now = self._clock()
        if servers in self._trying or now - self._tried_at.get(servers, -PROBE_SECONDS) < PROBE_SECONDS:
            return
        self._tried_at[servers] = now
        self._trying.add(servers)

        def probe() -> None:
            try:
                if self._probe(servers):
                    self._away_since.pop(servers, None)
                else:
                    self._away_since.setdefault(servers, now)
            finally:
                self._trying.discard(servers)

        self._run_in_background(probe)


def is_reachable(servers: str) -> bool:
    """Whether one of `host:port,...` accepts a connection."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        with suppress(OSError, ValueError):
            address = (host.strip("[]"), int(port)) if host else (port, DEFAULT_PORT)
            socket.create_connection(address, timeout=CONNECT_SECONDS).close()
            return True
    return False


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="penstock-outages", daemon=True).start()
