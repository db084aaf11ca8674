"""Who is told to be away, and since when."""

from __future__ import annotations

import socket
from collections.abc import Callable

from penstock.spark.pipelines.reach import Cluster, Reach, clusters_of, is_anyone_at


def test_a_cluster_is_where_a_source_reads_and_has_the_patience_of_its_options() -> None:
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


def test_an_outage_is_told_from_the_first_try_that_failed_to_the_first_that_did_not() -> None:
    now = 0.0
    answers = {"a:1": False}
    tries: list[str] = []

    def probe(servers: str) -> bool:
        tries.append(servers)
        return answers[servers]

    reach = Reach(probe=probe, clock=lambda: now, aside=lambda work: work())
    clusters = [Cluster("a:1", 60.0)]

    first = reach.outage(clusters)
    now = 1.0
    second = reach.outage(clusters)
    assert first is not None
    assert second is not None
    assert (first.seconds, second.seconds, tries) == (0.0, 1.0, ["a:1"])  # not tried again at once

    now, answers["a:1"] = 9.0, True
    assert reach.outage(clusters) is None


def test_work_goes_on_while_a_try_is_under_way() -> None:
    pending: list[Callable[[], None]] = []
    reach = Reach(probe=lambda _: False, clock=lambda: float(len(pending) * 100), aside=pending.append)

    assert reach.outage([Cluster("a:1")]) is None
    assert reach.outage([Cluster("a:1")]) is None
    assert len(pending) == 1


def test_one_of_several_servers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_anyone_at(f"127.0.0.1:1, 127.0.0.1:{port}")
    assert not is_anyone_at("127.0.0.1:1,nonsense:port")
