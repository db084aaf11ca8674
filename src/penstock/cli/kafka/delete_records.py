"""`kafka-delete-records.sh`: delete records before the offsets in a JSON file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, CommandFailed, Options, Tool, flag

if TYPE_CHECKING:
    from penstock.client.cluster import TopicPartition

TOOL = Tool(
    "This tool helps to delete records of the given partitions down to the specified offset.",
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    flag(
        "offset-json-file",
        "The JSON file with the offset of each partition before which records are deleted:"
        ' {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
        "Offset json file path",
        is_required=True,
    ),
)


def run(options: Options) -> int:
    from penstock.cli.kafka.admin import message_of, with_admin
    from penstock.client.admin.offsets import OffsetsAdmin
    from penstock.client.errors import ItemsFailed

    with open(options.text("offset-json-file"), encoding="utf-8") as file:
        text = file.read()
    try:
        offsets = read_offsets(text)
    except CommandFailed as problem:
        print(problem, file=sys.stderr)
        return FAILED
    print("Executing records delete operation")
    results: dict[TopicPartition, str]
    try:
        starts = with_admin(options, OffsetsAdmin, lambda admin: admin.delete_records(offsets))
        results = {partition: f"low_watermark: {start}" for partition, start in starts.items()}
    except ItemsFailed as failed:
        results = {partition: f"low_watermark: {start}" for partition, start in failed.results.items()}
        results |= {partition: f"error: {message_of(error)}" for partition, error in failed.failures.items()}
    print("Records delete operation completed:")
    for partition in offsets:
        print(f"partition: {partition}\t{results[partition]}")
    return 0


def read_offsets(text: str) -> dict[TopicPartition, int]:
    import json

    from penstock.client.cluster import TopicPartition

    try:
        read = json.loads(text)
    except ValueError:
        raise CommandFailed("The input string is not a valid JSON") from None
    version = read.get("version", 1) if isinstance(read, dict) else None
    if version != 1:
        raise CommandFailed(f"Not supported version field value {version}")
    if "partitions" not in read:
        raise CommandFailed("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    duplicates: list[str] = []
    for part in read["partitions"]:
        try:
            partition = TopicPartition(part["topic"], int(part["partition"]))
            offset = int(part["offset"])
        except (KeyError, TypeError, ValueError) as bad:
            raise CommandFailed(
                f"Every partition needs a topic, a partition and an offset: {part} ({bad})"
            ) from None
        if partition in offsets:
            duplicates.append(str(partition))
        offsets[partition] = offset
    if duplicates:
        raise CommandFailed(f"Offset json file contains duplicate topic partitions: {','.join(duplicates)}")
    return offsets
