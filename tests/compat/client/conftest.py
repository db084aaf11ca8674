"""What tests of Penstock's own client share: three nodes of Apache Kafka, whatever else the tests run against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.kafka_cluster import KafkaCluster


@pytest.fixture(scope="session")
def running_kafka_cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[KafkaCluster]:
    """Started once for all tests of a process; take `kafka_cluster` instead."""
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
    """Three nodes of Apache Kafka, all alive: what a test kills is started again before the next."""
    running_kafka_cluster.heal()
    return running_kafka_cluster
