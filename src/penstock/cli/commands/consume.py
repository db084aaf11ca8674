"""`penstock consume`: print records of topics."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Command, argument, option


def consume(
    topics: Annotated[tuple[str, ...], argument(help="Topics to read.", complete="topic")],
    *,
    connection: Connection,
    follow: Annotated[
        bool, option("--follow", "-f", help="Wait for new records at the end, until Ctrl-C.")
    ] = False,
    start: Annotated[
        str,
        option(
            "--from",
            "-s",
            metavar="PLACE",
            help="Where to start in each partition: earliest, latest, an offset, -10 for the last ten, a time "
            "such as 2026-03-14T09:26, or how long ago, such as 15m.",
        ),
    ] = "earliest",
    partitions: Annotated[
        tuple[int, ...],
        option("--partition", "-p", help="Only these partitions. May be repeated.", minimum=0),
    ] = (),
    group: Annotated[
        str | None,
        option(
            "--group",
            "-g",
            help="Read as a member of a group, from its committed offsets, and commit.",
            complete="group",
        ),
    ] = None,
    limit: Annotated[
        int | None, option("--limit", "-n", help="Stop after this many records.", minimum=1)
    ] = None,
    format: Annotated[
        Literal["table", "json", "raw", "key-value"],
        option("--format", help="How to print a record; raw prints only the value."),
    ] = "table",
    as_json: Annotated[bool, option("--json", help="Short for --format json: one object per line.")] = False,
    template: Annotated[
        str | None,
        option("--template", help="How to print a record, such as '{partition}/{offset} {key}={value}'."),
    ] = None,
    separator: Annotated[
        str,
        option(
            "--separator",
            help=r"What ends a record in the format raw, such as \x00; by default a newline.",
        ),
    ] = "\n",
    key_separator: Annotated[
        str,
        option(
            "--key-separator",
            "-K",
            help="Separates key and value in the format key-value; by default a tab.",
        ),
    ] = "\t",
    key_format: Annotated[
        str | None,
        option("--key-format", metavar="FORMAT", help="How to deserialize keys; see --value-format."),
    ] = None,
    value_format: Annotated[
        str | None,
        option(
            "--value-format",
            metavar="FORMAT",
            help="How to deserialize values: string, json, long, integer, double, boolean, uuid, hex, base64, avro ... "
            "By default as text.",
        ),
    ] = None,
    committed: Annotated[
        bool, option("--committed", help="Skip records of open and aborted transactions.")
    ] = False,
) -> None:
    """Read records from topics.

    Without `--follow` it reads up to the current end of the topics, with a group until no more records come. Keys and
    values that are not text are printed with escapes, and in JSON as `{"base64": ...}`, which `produce --format json`
    reads. `--key-format` and `--value-format` take the names of the client's deserializers."""
    from penstock.cli.consume import ConsumeOptions, run
    from penstock.cli.escapes import unescape
    from penstock.cli.records.printers import RecordStyle

    isolation = "read_committed" if committed else "read_uncommitted"
    # A misspelled name must not create a topic.
    settings = connection.settings(isolation_level=isolation, allow_auto_create_topics="false")
    style = RecordStyle(
        format="json" if as_json else format,
        template=template,
        separator=unescape(separator),
        key_separator=unescape(key_separator),
        key_format=key_format or settings.pop("key.deserializer", None),
        value_format=value_format or settings.pop("value.deserializer", None),
    )
    options = ConsumeOptions(
        topics=tuple(topics),
        partitions=tuple(partitions),
        start=start,
        group=group,
        follows=follow,
        limit=limit,
        style=style,
    )
    run(options, settings)


command = Command(
    consume,
    examples=[
        "penstock consume orders",
        "penstock consume orders --follow --from latest",
        "penstock consume orders --from -10 --json | jq .value",
        "penstock consume orders --partition 2 --from 4711 --limit 1 --format raw",
        "penstock consume orders payments --group billing --follow",
        "penstock consume word-counts --value-format long",
        "penstock consume orders --from 15m --template '{timestamp} {key}: {value}'",
    ],
    kafka="kafka-console-consumer",
    kafka_flags=("--topic", "--include", "--whitelist", "--from-beginning"),
)
