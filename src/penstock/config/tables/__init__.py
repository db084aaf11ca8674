"""The tables: one row per setting of Apache Kafka 4.3, by topic, and one dictionary per resource type. The balancer has
settings that Kafka does not have.

A row declares one setting and contains no logic. Rules about several settings are in `penstock.config.checks`.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.config.declare import Setting
from penstock.config.tables import (
    balancer,
    client,
    group,
    groups,
    limits,
    log,
    network,
    node,
    replication,
    sasl,
    share,
    tiering,
    tls,
    topic,
)

__all__ = ["BROKER", "BROKER_DYNAMIC", "CLIENT_METRICS", "GROUP", "IP", "TOPIC", "USER"]


def _by_name(*tables: Iterable[Setting]) -> dict[str, Setting]:
    rows = [setting for table in tables for setting in table]
    by_name = {setting.name: setting for setting in rows}
    assert len(by_name) == len(rows), "a setting is declared twice"
    return by_name


BROKER = _by_name(
    node.SETTINGS,
    network.SETTINGS,
    log.SETTINGS,
    replication.SETTINGS,
    groups.SETTINGS,
    share.SETTINGS,
    tiering.SETTINGS,
    tls.SETTINGS,
    sasl.SETTINGS,
    limits.SETTINGS,
    balancer.SETTINGS,
)
"""The settings of `server.properties`."""

BROKER_DYNAMIC = _by_name(BROKER.values(), replication.DYNAMIC_ONLY)
"""All settings of a broker resource. `Setting.dynamic` says which of them can change at run time."""

TOPIC = _by_name(topic.SETTINGS)
GROUP = _by_name(group.SETTINGS)
CLIENT_METRICS = _by_name(client.METRICS)
USER = _by_name(client.CREDENTIALS, client.QUOTAS)
IP = _by_name(client.ADDRESSES)
