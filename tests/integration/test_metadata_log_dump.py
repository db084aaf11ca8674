"""Apache Kafka's own programs and Penstock's metadata log: the dump tool reads it, and a Kafka node starts from it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from compat.clients.base import WriteJob
from compat.clients.confluent import ConfluentConsumer, ConfluentProducer
from harness.admin import admin, create_topics
from harness.brokers import Broker, KafkaBroker, PenstockBroker, free_port
from harness.samples import samples
from harness.waiting import wait_until
from oracle import jars

WAIT_SECONDS = 30.0
DUMP_SECONDS = 120.0
PAYLOAD = re.compile(r"payload: (\{.*\})$", re.MULTILINE)


@pytest.fixture
def node_settings(tmp_path: Path) -> dict[str, str]:
    """One node for both programs: same id, data and addresses."""
    port, controller_port = free_port(), free_port()
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(tmp_path / "data"),
    }


@pytest.fixture
def penstock(tmp_path: Path, node_settings: dict[str, str]) -> Iterator[PenstockBroker]:
    broker = PenstockBroker(tmp_path / "penstock", settings=node_settings, port=_port(node_settings))
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def kafka(tmp_path: Path, node_settings: dict[str, str]) -> Iterator[KafkaBroker]:
    """A Kafka node that finds its quorum in the log, not in its settings."""
    controller = node_settings["listeners"].rpartition("//")[2]
    settings = {
        **node_settings,
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": controller,
    }
    broker = KafkaBroker(tmp_path / "kafka", settings=settings, port=_port(node_settings), libs=jars.libs())
    yield broker
    broker.close()


def _port(settings: dict[str, str]) -> int:
    match = re.search(r"PLAINTEXT://127\.0\.0\.1:(\d+)", settings["listeners"])
    assert match is not None
    return int(match[1])


def administrate(broker: Broker) -> None:
    """A little of everything that writes a record."""
    client = admin(broker.bootstrap)
    create_topics(broker.bootstrap, "kept", partitions=3, config={"retention.ms": "1000000"})
    create_topics(broker.bootstrap, "deleted")
    client.create_partitions([NewPartitions("kept", 5)])["kept"].result(WAIT_SECONDS)
    client.delete_topics(["deleted"])["deleted"].result(WAIT_SECONDS)
    for kind, name, key, value in (
        (ResourceType.TOPIC, "kept", "flush.ms", "777"),
        (ResourceType.BROKER, "1", "log.cleaner.threads", "2"),
    ):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        altered = client.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=[entry])])
        for future in altered.values():
            future.result(WAIT_SECONDS)


def dump(folder: Path) -> str:
    return dump_files(
        sorted(path for path in folder.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
    )


def dump_files(files: list[Path]) -> str:
    result = subprocess.run(
        [
            "java",
            "-cp",
            f"{jars.libs()}/*",
            "org.apache.kafka.tools.DumpLogSegments",
            "--cluster-metadata-decoder",
            "--files",
            ",".join(map(str, files)),
        ],
        capture_output=True,
        text=True,
        timeout=DUMP_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    errors = [line for line in result.stderr.splitlines() if not line.startswith("SLF4J")]
    assert errors == []
    return result.stdout


def records(dumped: str) -> list[tuple[str, dict[str, Any]]]:
    parsed = [json.loads(payload) for payload in PAYLOAD.findall(dumped)]
    return [(record["type"], record["data"]) for record in parsed]


def test_kafkas_dump_tool_reads_every_record(penstock: PenstockBroker) -> None:
    administrate(penstock)
    penstock.restart()
    penstock.stop()

    dumped = dump(penstock.log_directories[0] / "__cluster_metadata-0")

    batch_lines = [line for line in dumped.splitlines() if line.startswith("baseOffset")]
    assert all("isvalid: true" in line for line in batch_lines)
    assert "Index position" not in dumped, "the tool prints this for a wrong index"
    assert dumped.count("LeaderChange: ") == 2
    assert '"kRaftVersion":1' in dumped
    found = records(dumped)
    control_count = dumped.count("LeaderChange: ") + 2
    assert len(found) + control_count == dumped.count("| offset: "), "every record was decoded"
    assert found[0] == ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 30})
    kinds = {kind for kind, _ in found}
    assert kinds >= {
        "REGISTER_CONTROLLER_RECORD",
        "REGISTER_BROKER_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "REMOVE_TOPIC_RECORD",
    }
    kept = next(data["topicId"] for kind, data in found if kind == "TOPIC_RECORD" and data["name"] == "kept")
    partitions = [data for kind, data in found if kind == "PARTITION_RECORD" and data["topicId"] == kept]
    assert [partition["partitionId"] for partition in partitions] == [0, 1, 2, 3, 4]


def test_kafkas_dump_tool_reads_a_snapshot_and_a_kafka_node_starts_from_it(
    tmp_path: Path, node_settings: dict[str, str], kafka: KafkaBroker
) -> None:
    settings = {**node_settings, "metadata.log.max.record.bytes.between.snapshots": "1500"}
    penstock = PenstockBroker(tmp_path / "penstock", settings=settings, port=_port(node_settings))
    folder = penstock.log_directories[0] / "__cluster_metadata-0"
    try:
        penstock.start()
        administrate(penstock)
        wait_until(lambda: any(folder.glob("*.checkpoint")), "a snapshot is written")
        create_topics(penstock.bootstrap, "later")
        penstock.stop()

        newest = max(folder.glob("*.checkpoint"))
        dumped = dump_files([newest])
        assert "SnapshotHeader" in dumped
        assert "SnapshotFooter" in dumped
        assert '"kRaftVersion":1' in dumped
        found = records(dumped)
        assert found[0] == ("FEATURE_LEVEL_RECORD", {"name": "metadata.version", "featureLevel": 30})
        assert {"REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD"} <= {kind for kind, _ in found}

        kafka.start()
        wait_until(lambda: "later" in _topics(kafka), "Kafka knows the topics")
        assert len(_topics(kafka)["kept"].partitions) == 5
        kafka.stop()

        penstock.start()
        assert len(_topics(penstock)["kept"].partitions) == 5
    finally:
        penstock.close()


def test_a_kafka_node_starts_on_penstocks_folder_and_penstock_on_what_kafka_left(
    penstock: PenstockBroker, kafka: KafkaBroker
) -> None:
    administrate(penstock)
    job = WriteJob("kept", "none", samples())
    ConfluentProducer().produce(penstock.bootstrap, [job])
    counts = {"kept": len(job.records)}
    before = ConfluentConsumer().consume(penstock.bootstrap, counts)
    penstock.stop()

    kafka.start()
    wait_until(lambda: "kept" in _topics(kafka), "Kafka knows the topic")
    assert len(_topics(kafka)["kept"].partitions) == 5
    assert "deleted" not in _topics(kafka)
    assert ConfluentConsumer().consume(kafka.bootstrap, counts) == before
    create_topics(kafka.bootstrap, "from-kafka", partitions=2)
    kafka.stop()

    penstock.start()
    assert len(_topics(penstock)["from-kafka"].partitions) == 2
    assert ConfluentConsumer().consume(penstock.bootstrap, counts) == before


def _topics(broker: Broker) -> dict[str, Any]:
    return dict(admin(broker.bootstrap).list_topics(timeout=WAIT_SECONDS).topics)
