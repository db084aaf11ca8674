"""Topics for tests, created with confluent-kafka's admin client."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

WAIT_SECONDS = 30.0
_numbers = itertools.count(1)


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def new_name(stem: str) -> str:
    """A topic name that no other test of this process uses."""
    return f"{stem}-{next(_numbers)}"


def create_topics(
    bootstrap: str,
    *names: str,
    partitions: int = 1,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    new = [
        NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
        for name in names
    ]
    client = admin(bootstrap)  # kept in a variable: its futures end with it
    for future in client.create_topics(new, operation_timeout=WAIT_SECONDS).values():
        future.result(WAIT_SECONDS)


def create_topic(
    bootstrap: str, stem: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> str:
    name = new_name(stem)
    create_topics(bootstrap, name, partitions=partitions, config=config)
    return name
