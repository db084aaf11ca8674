"""Fixtures of the tests of Penstock's own client: three nodes of Apache Kafka, whatever broker other tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.kafka_cluster import KafkaCluster


@pytest.fixture(scope="session")
def running_kafka_cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[KafkaCluster]:
    """Started once per process; use `kafka_cluster` instead."""
    cluster = KafkaCluster(
        tmp_path_factory.mktemp("kafka-cluster"), libs=request.config.getoption("--kafka-libs")
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def kafka_cluster(running_kafka_cluster: KafkaCluster) -> KafkaCluster:
    """Three running nodes of Apache Kafka. Nodes that a test kills are restarted before the next."""
    running_kafka_cluster.heal()
    return running_kafka_cluster
