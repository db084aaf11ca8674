"""Which brokers are unavailable, and since when."""

from __future__ import annotations

import socket
from collections.abc import Callable

from penstock.spark.pipelines.outages import Cluster, OutageProbe, clusters_of, is_reachable


def test_clusters_and_timeouts_come_from_the_options_of_sources() -> None:
    one = {"subscribe": "orders", "kafka.bootstrap.servers": "a:1"}
    other = {
        "subscribe": "orders",
        "kafka.bootstrap.servers": "b:2",
        "kafka.default.api.timeout.ms": "5000",
        "kafka.request.timeout.ms": "5000",
        "fetchOffset.numRetries": "1",
        "fetchOffset.retryIntervalMs": "500",
    }

    assert clusters_of([one, other, one, {"subcribe": "refused"}]) == [
        Cluster("a:1", 243.0),
        Cluster("b:2", 10.5),
    ]


def test_an_outage_lasts_from_the_first_failed_probe_to_the_first_successful_one() -> None:
    now = 0.0
    answers = {"a:1": False}
    tries: list[str] = []

    def probe(servers: str) -> bool:
        tries.append(servers)
        return answers[servers]

    outages = OutageProbe(probe=probe, clock=lambda: now, run_in_background=lambda work: work())
    clusters = [Cluster("a:1", 60.0)]

    first = outages.outage(clusters)
    now = 1.0
    second = outages.outage(clusters)
    assert first is not None
    assert second is not None
    assert (first.seconds, second.seconds, tries) == (0.0, 1.0, ["a:1"])  # not probed again at once

    now, answers["a:1"] = 9.0, True
    assert outages.outage(clusters) is None


def test_a_probe_does_not_block() -> None:
    pending: list[Callable[[], None]] = []
    outages = OutageProbe(
        probe=lambda _: False, clock=lambda: float(len(pending) * 100), run_in_background=pending.append
    )

    assert outages.outage([Cluster("a:1")]) is None
    assert outages.outage([Cluster("a:1")]) is None
    assert len(pending) == 1


def test_one_of_several_servers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_reachable(f"127.0.0.1:1, 127.0.0.1:{port}")
    assert not is_reachable("127.0.0.1:1,nonsense:port")
