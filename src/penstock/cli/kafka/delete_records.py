"""`kafka-delete-records.sh`: delete the records before offsets that a JSON file names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Flags, Said, run_tool

if TYPE_CHECKING:
    from penstock.client.cluster import TopicPartition

FLAGS = Flags(
    "This tool helps to delete records of the given partitions down to the specified offset.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag(
        "offset-json-file",
        "The JSON file with the offset of each partition before which records are deleted:"
        ' {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
        "Offset json file path",
        is_required=True,
    ),
)


class _Failed(Exception):
    """Told as Kafka's tool tells it."""


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _run)


def _run(said: Said) -> int:
    from penstock.cli.kafka.tools import ask_cluster, message_of
    from penstock.client.admin.offsets import OffsetsAdmin
    from penstock.client.errors import ItemsFailed

    with open(said.text("offset-json-file"), encoding="utf-8") as file:
        text = file.read()
    try:
        offsets = read_offsets(text)
    except _Failed as problem:
        print(problem, file=sys.stderr)
        return FAILED
    print("Executing records delete operation")
    told: dict[TopicPartition, str]
    try:
        starts = ask_cluster(said, OffsetsAdmin, lambda admin: admin.delete_records(offsets))
        told = {partition: f"low_watermark: {start}" for partition, start in starts.items()}
    except ItemsFailed as failed:
        told = {partition: f"low_watermark: {start}" for partition, start in failed.results.items()}
        told |= {partition: f"error: {message_of(error)}" for partition, error in failed.failures.items()}
    print("Records delete operation completed:")
    for partition in offsets:
        print(f"partition: {partition}\t{told[partition]}")
    return 0


def read_offsets(text: str) -> dict[TopicPartition, int]:
    import json

    from penstock.client.cluster import TopicPartition

    try:
        read = json.loads(text)
    except ValueError:
        raise _Failed("The input string is not a valid JSON") from None
    version = read.get("version", 1) if isinstance(read, dict) else None
    if version != 1:
        raise _Failed(f"Not supported version field value {version}")
    if "partitions" not in read:
        raise _Failed("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    twice: list[str] = []
    for part in read["partitions"]:
        try:
            partition = TopicPartition(part["topic"], int(part["partition"]))
            offset = int(part["offset"])
        except (KeyError, TypeError, ValueError) as bad:
            raise _Failed(
                f"Every partition needs a topic, a partition and an offset: {part} ({bad})"
            ) from None
        if partition in offsets:
            twice.append(str(partition))
        offsets[partition] = offset
    if twice:
        raise _Failed(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return offsets
