"""Replication quotas: which replicas are throttled, and when they may go on."""

from __future__ import annotations

import pytest

from penstock.replication.quota import WAIT_MS_MAX, ReplicationQuota, ThrottledReplicas


@pytest.mark.parametrize(
    ("replicas", "throttled"),
    [((), frozenset()), (("0:1", "2:1", "1:2"), frozenset({0, 2})), (("*",), None)],
)
def test_the_list_of_a_topic_names_partitions_of_this_broker(
    replicas: tuple[str, ...], throttled: frozenset[int] | None
) -> None:
    settings = {
        "leader.replication.throttled.replicas": replicas,
        "follower.replication.throttled.replicas": (),
    }

    found = ThrottledReplicas.read(settings, node_id=1)  # type: ignore[arg-type]

    assert found == (throttled, frozenset())


def test_a_replica_waits_until_the_rate_is_kept() -> None:
    quota = ReplicationQuota(lambda: 1000)
    assert quota.wait_ms(10_000) == 0

    quota.record(1500)

    assert quota.wait_ms(10_000) == 500
    assert quota.wait_ms(10_400) == 100
    assert quota.wait_ms(10_500) == 0


def test_unused_bandwidth_is_kept_for_one_second() -> None:
    quota = ReplicationQuota(lambda: 1000)
    assert quota.wait_ms(60_000) == 0
    quota.record(1000)
    assert quota.wait_ms(60_000) == 0
    quota.record(1)
    assert quota.wait_ms(60_000) > 0


def test_a_rate_of_zero_stops_replication_until_it_is_raised() -> None:
    rates = [0]
    quota = ReplicationQuota(lambda: rates[0])
    assert quota.wait_ms(1000) == WAIT_MS_MAX
    rates[0] = 10
    assert quota.wait_ms(2000) == 0
