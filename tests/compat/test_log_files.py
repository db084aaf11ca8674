"""The files on disk are Kafka's: its DumpLogSegments reads every one of them without an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.clients.base import WriteJob
from compat.clients.confluent import ConfluentProducer
from compat.clients.java import JavaTools
from harness.admin import create_topic, create_topics
from harness.brokers import Broker
from harness.samples import CODECS, Sample, samples
from harness.waiting import wait_until

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile(
    r"sanity check failed|mismatch|out of order|isvalid: false|Could not|[Cc]orrupt|Exception|Found invalid|remaining"
)
ROLLED = "rolled"  # a topic of several segments


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, make_broker) -> Iterator[Broker]:  # type: ignore[no-untyped-def]
    """A broker that has stored every codec in several segments, and was stopped cleanly."""
    broker: Broker = make_broker(tmp_path_factory.mktemp("files"))
    broker.start()
    topics = {codec: f"files-{codec}" for codec in CODECS}
    create_topics(broker.bootstrap, *topics.values())
    jobs = [WriteJob(topic, codec, samples()) for codec, topic in topics.items()]
    create_topics(broker.bootstrap, ROLLED, config={"segment.bytes": str(1 << 20)})
    big = [Sample(b"%d" % number, bytes(10_000)) for number in range(500)]
    ConfluentProducer().produce(broker.bootstrap, [*jobs, WriteJob(ROLLED, "none", big)])
    broker.stop()
    yield broker
    broker.close()


def dump(tools: JavaTools, *files: Path, options: tuple[str, ...] = ()) -> str:
    """Run the tool on files that must be valid."""
    assert files
    output = tools.run(DUMP, "--files", ",".join(map(str, files)), *options)
    assert COMPLAINTS.search(output) is None, output[:5000]
    return output


def files_of(broker: Broker, topic: str, suffix: str) -> list[Path]:
    return sorted(path for folder in broker.log_directories for path in folder.glob(f"{topic}-0/*{suffix}"))


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_every_codec(stopped: Broker, java_tools: JavaTools, codec: str) -> None:
    output = dump(
        java_tools,
        *files_of(stopped, f"files-{codec}", ".log"),
        options=("--deep-iteration", "--print-data-log"),
    )
    batches = re.findall(
        r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* compresscodec: (\S+) .* isvalid: true", output
    )
    assert batches
    assert {batch[3].lower() for batch in batches} == {codec}
    assert sum(int(batch[2]) for batch in batches) == len(samples())
    assert "payload: value 1: Wasser" in output
    assert "headerKeys: [trace,place]" in output


def test_indexes_of_several_segments(stopped: Broker, java_tools: JavaTools) -> None:
    logs = files_of(stopped, ROLLED, ".log")
    assert len(logs) >= 4
    for suffix, count in ((".index", len(logs)), (".timeindex", len(logs))):
        files = files_of(stopped, ROLLED, suffix)
        assert len(files) == count
        dump(java_tools, *files)
        dump(java_tools, *files, options=("--index-sanity-check",))
        dump(java_tools, *files, options=("--verify-index-only",))


def test_producer_snapshots(stopped: Broker, java_tools: JavaTools) -> None:
    output = dump(java_tools, *files_of(stopped, ROLLED, ".snapshot"))
    assert re.search(r"producerId: \d+ producerEpoch: 0 .* lastOffset: 499", output)


def test_the_metadata_log(stopped: Broker, java_tools: JavaTools) -> None:
    output = dump(
        java_tools, *files_of(stopped, "__cluster_metadata", ".log"), options=("--cluster-metadata-decoder",)
    )
    for kind in ("TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "FEATURE_LEVEL_RECORD"):
        assert f'"type":"{kind}"' in output


def test_checkpoints_have_kafkas_shape(stopped: Broker) -> None:
    folder = stopped.log_directories[0]
    properties = dict(
        line.split("=", 1)
        for line in (folder / "meta.properties").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert {"version", "cluster.id", "node.id", "directory.id"} <= properties.keys()
    version, count, *lines = (folder / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert version == "0"
    assert len(lines) == int(count)
    assert f"{ROLLED} 0 500" in lines
    version, count, *epochs = (folder / f"{ROLLED}-0" / "leader-epoch-checkpoint").read_text().splitlines()
    assert (version, count, epochs) == ("0", "1", ["0 0"])
    topic_id = (folder / f"{ROLLED}-0" / "partition.metadata").read_text()
    assert re.fullmatch(r"version: 0\ntopic_id: \S{22}\n?", topic_id)
    assert (folder / ".kafka_cleanshutdown").exists()


def test_deleting_a_topic_removes_its_folder(cluster: Broker, java_tools: JavaTools) -> None:
    name = create_topic(cluster.bootstrap, "files-deleted")
    folder = cluster.log_directories[0] / f"{name}-0"
    wait_until(folder.exists, f"{folder} exists")
    server = ("--bootstrap-server", cluster.bootstrap)
    java_tools.run("org.apache.kafka.tools.TopicCommand", *server, "--delete", "--topic", name)
    # For `log.segment.delete.delay.ms` the folder remains under another name, so the topic can be recreated.
    wait_until(lambda: not folder.exists(), f"{folder} is deleted")
