"""`kafka-storage.sh format` of Apache Kafka and of Penstock write the same files, and each program starts on them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.admin import create_topics
from harness.brokers import KafkaBroker, PenstockBroker, free_port
from oracle import jars
from penstock.cli.main import main
from penstock.records import kernel

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
FORMAT_SECONDS = 60.0


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    port, controller_port = free_port(), free_port()
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "offsets.topic.replication.factor": "1",
        "log.dirs": str(tmp_path / "data"),
    }


def write_properties(folder: Path, settings: dict[str, str], directory: Path) -> Path:
    file = folder / f"{directory.name}.properties"
    lines = {**settings, "log.dirs": str(directory)}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return file


def format_with_kafka(properties: Path, *flags: str) -> str:
    command = ["java", "-cp", f"{jars.libs()}/*", "kafka.tools.StorageTool", "format"]
    result = subprocess.run(
        [*command, "-t", CLUSTER_ID, "-c", str(properties), *flags],
        capture_output=True,
        text=True,
        timeout=FORMAT_SECONDS,
        check=True,
    )
    return result.stdout


def records_in(file: Path) -> list[tuple[bool, int, bytes | None, bytes | None]]:
    """Everything but timestamps."""
    data = file.read_bytes()
    found: list[tuple[bool, int, bytes | None, bytes | None]] = []
    position = 0
    for header in kernel.check_batches(data):
        assert (header.leader_epoch, header.attributes & ~0x20) == (0, 0)
        found += [
            (header.is_control, record.offset, record.key, record.value)
            for record in kernel.iterate_records(data, position)
        ]
        position += header.size_bytes
    return found


def without_time(records: list[tuple[bool, int, bytes | None, bytes | None]]) -> list[object]:
    """The header of a snapshot contains a timestamp."""
    return [record if record[1] != 0 else record[:3] for record in records]


def test_both_write_the_same_files(
    tmp_path: Path, settings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    controllers = f"1@127.0.0.1:9093:{DIRECTORY_ID},2@host2:9094:AAAAAAAAAAAAAAAAAAAAAg"
    kafkas, ours = tmp_path / "kafka", tmp_path / "ours"
    flags = ("--initial-controllers", controllers, "--release-version", "4.1")

    printed = format_with_kafka(write_properties(tmp_path, settings, kafkas), *flags)
    file = write_properties(tmp_path, settings, ours)
    assert main(["kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(file), *flags]) == 0

    assert records_in(ours / "bootstrap.checkpoint") == records_in(kafkas / "bootstrap.checkpoint")
    assert without_time(records_in(ours / SNAPSHOT)) == without_time(records_in(kafkas / SNAPSHOT))
    lines = [set((folder / "meta.properties").read_text().splitlines()) for folder in (kafkas, ours)]
    assert {line for line in lines[0] if not line.startswith("#")} == lines[1]
    assert capsys.readouterr().out.replace(str(ours), str(kafkas)) in printed


@pytest.mark.parametrize("starts_first", ["penstock", "kafka"])
def test_a_node_starts_on_what_the_other_formatted(
    starts_first: str, tmp_path: Path, settings: dict[str, str]
) -> None:
    data = tmp_path / "data"
    file = write_properties(tmp_path, settings, data)
    port = int(settings["listeners"].split(",")[0].rpartition(":")[2])
    if starts_first == "penstock":
        format_with_kafka(file, "--standalone")
        broker = PenstockBroker(tmp_path / "penstock", settings=settings, port=port)
    else:
        assert main(["kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(file), "--standalone"]) == 0
        broker = KafkaBroker(
            tmp_path / "kafka",
            settings={**settings, "controller.quorum.voters": ""},
            port=port,
            libs=jars.libs(),
        )
    try:
        broker.start()
        create_topics(broker.bootstrap, "made")
    finally:
        broker.close()
