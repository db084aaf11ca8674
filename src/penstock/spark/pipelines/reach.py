"""Whether brokers answer that a pipeline waits for: a source that asks again and again says nothing while it does.

A query that has told nothing for a moment, though it is at something, may work on a large batch, or wait for a cluster
that is away. The difference is a connection: `Reach` tries one now and then, beside the work, and tells how long nobody
has answered. It decides nothing for the query, which has a patience of its own.
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

QUIET_SECONDS = 2.0  # how long a query may be at something before anybody asks why
PROBE_SECONDS = 2.0
CONNECT_SECONDS = 3.0
API_TIMEOUT_MS = 60_000  # `default.api.timeout.ms`, where nothing else is said
DEFAULT_PORT = 9092


class Cluster(NamedTuple):
    """A cluster that somebody asks: its bootstrap servers, and how long it is asked before that is given up."""

    servers: str
    patience_seconds: float | None = None


class Outage(NamedTuple):
    """Nobody answers there, for so long."""

    cluster: Cluster
    seconds: float


def clusters_of(sources: Iterable[Mapping[str, str]]) -> list[Cluster]:
    """Of the options of a query's sources, each cluster once."""
    found: dict[str, Cluster] = {}
    for given in sources:
        try:
            options = Options.read(given, Use.STREAM_READ)
        except SparkError:  # which the query itself will say
            continue
        if servers := options.settings.get("bootstrap.servers"):
            found.setdefault(servers, Cluster(servers, _patience(options)))
    return list(found.values())


def _patience(options: Options) -> float:
    """How long a source asks: so many tries, and pauses between them."""
    retries: int = options.get("fetchOffset.numRetries")
    try:
        one_ms = int(options.settings.get("default.api.timeout.ms", API_TIMEOUT_MS))
    except ValueError:  # refused by the client
        one_ms = API_TIMEOUT_MS
    pauses_ms = retries * int(options.get("fetchOffset.retryIntervalMs"))
    return ((retries + 1) * one_ms + pauses_ms) / 1000


class Reach:
    """Tries the clusters of those who wait, and remembers who has not answered since when."""

    def __init__(
        self,
        *,
        probe: Callable[[str], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        aside: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._probe = probe or is_anyone_at
        self._clock = clock
        self._aside = aside or _in_a_thread
        self._tried_at: dict[str, float] = {}
        self._trying: set[str] = set()
        self._away_since: dict[str, float] = {}

    def outage(self, clusters: Iterable[Cluster]) -> Outage | None:
        """The longest of those that somebody waits for, as it is known now; another try is begun where one is due."""
        known: list[Outage] = []
        for cluster in clusters:
            self._try(cluster.servers)
            since = self._away_since.get(cluster.servers)
            if since is not None:
                known.append(Outage(cluster, self._clock() - since))
        return max(known, key=lambda outage: outage.seconds, default=None)

    def _try(self, servers: str) -> None:
        now = self._clock()
        if servers in self._trying or now - self._tried_at.get(servers, -PROBE_SECONDS) < PROBE_SECONDS:
            return
        self._tried_at[servers] = now
        self._trying.add(servers)

        def try_it() -> None:
            try:
                if self._probe(servers):
                    self._away_since.pop(servers, None)
                else:
                    self._away_since.setdefault(servers, now)
            finally:
                self._trying.discard(servers)

        self._aside(try_it)


def is_anyone_at(servers: str) -> bool:
    """Whether one of `host:port,...` takes a connection."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        with suppress(OSError, ValueError):
            address = (host.strip("[]"), int(port)) if host else (port, DEFAULT_PORT)
            socket.create_connection(address, timeout=CONNECT_SECONDS).close()
            return True
    return False


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="penstock-reach", daemon=True).start()
