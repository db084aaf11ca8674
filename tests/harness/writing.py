"""Records for consumers to read, written by a client of another project."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import confluent_kafka

WAIT_SECONDS = 30.0

_numbers = itertools.count(1)


def write(
    bootstrap: str,
    topic: str,
    values: Iterable[str | bytes | None],
    *,
    partition: int = 0,
    settings: Mapping[str, Any] | None = None,
    **fields: Any,
) -> None:
    """Write each value as a record; return when all are acknowledged."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0, **(settings or {})})
    failures: list[Any] = []
    for value in values:
        producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: failures.append(error) if error else None,
            **fields,
        )
        producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    assert not failures


def write_transaction(
    bootstrap: str, topic: str, values: Iterable[str], *, is_commit: bool, partition: int = 0
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"writer-{next(_numbers)}", "log_level": 0}
    )
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=partition)
    producer.flush(WAIT_SECONDS)
    if is_commit:
        producer.commit_transaction(WAIT_SECONDS)
    else:
        producer.abort_transaction(WAIT_SECONDS)
