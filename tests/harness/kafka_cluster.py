"""Three nodes of Apache Kafka, each broker and controller: the reference for what clients see when a node dies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.brokers import KafkaBroker
from harness.clusters import ProcessCluster


class KafkaNode(KafkaBroker):
    def command(self) -> Sequence[str]:
        # Less memory and no optimizing compiler: three nodes share a small machine with the test.
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *super().command()[3:]]


class KafkaCluster(ProcessCluster[KafkaNode]):
    def __init__(
        self, folder: Path, *, settings: Mapping[str, str] | None = None, libs: Path | None = None
    ) -> None:
        self._libs = libs
        super().__init__(folder, settings=settings)

    def make_node(self, folder: Path, settings: Mapping[str, str], port: int) -> KafkaNode:
        return KafkaNode(folder, settings=settings, port=port, libs=self._libs)
