"""`penstock produce`: records from stdin or a file into a topic."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Command, Option
from penstock.cli.output import Output


def produce(
    topic: Annotated[str, Argument(help="Where to.", complete="topic")],
    values: Annotated[
        tuple[str, ...], Argument(help="Values of single records; without any, records are read from stdin.")
    ] = (),
    *,
    connection: Connection,
    output: Output,
    file: Annotated[
        str | None, Option("--file", "-f", help="Read records from a file instead of stdin.", complete="file")
    ] = None,
    format: Annotated[
        Literal["lines", "json", "whole"],
        Option(
            "--format",
            help="A record for each line, for each line of JSON as `consume --json` prints it, or for the whole input.",
        ),
    ] = "lines",
    key: Annotated[str | None, Option("--key", "-k", help="The key of all records.")] = None,
    key_separator: Annotated[
        str | None,
        Option(
            "--key-separator",
            "-K",
            help=r"What stands between key and value on a line; escapes such as \t and \x00 are understood.",
        ),
    ] = None,
    key_format: Annotated[
        str | None, Option("--key-format", metavar="FORMAT", help="How keys are written, as --value-format.")
    ] = None,
    value_format: Annotated[
        str | None,
        Option(
            "--value-format",
            metavar="FORMAT",
            help="How values are written: string, json, long, integer, double, boolean, uuid, hex, base64, avro ... "
            "By default as they are typed.",
        ),
    ] = None,
    headers: Annotated[
        tuple[str, ...],
        Option("--header", "-H", metavar="NAME=VALUE", help="A header of all records. May be repeated."),
    ] = (),
    null: Annotated[str | None, Option("--null", help="The text that means a null key or value.")] = None,
    partition: Annotated[
        int | None, Option("--partition", "-p", help="The partition of all records.", minimum=0)
    ] = None,
    acks: Annotated[
        Literal["0", "1", "all"] | None, Option("--acks", help="Who has to have a record.")
    ] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"] | None,
        Option("--compression", "-z", help="How to pack them."),
    ] = None,
) -> None:
    """Write records to a topic.

    Input is taken as it is: text need not be UTF-8. A topic that does not exist is made where the broker allows it.
    Nothing is told to be written before the broker has said so."""
    from penstock.cli.escapes import unescape
    from penstock.cli.produce import Source, run
    from penstock.cli.records.formats import make_writer
    from penstock.cli.waiting import for_producer

    said = {"acks": acks, "compression.type": compression}
    settings = {**connection.settings(), **{name: value for name, value in said.items() if value is not None}}
    key_format = key_format or settings.pop("key.serializer", None)
    value_format = value_format or settings.pop("value.serializer", None)
    known = for_producer(settings)
    source = Source(
        values=values,
        file=file,
        format=format,
        key=key,
        key_separator=None if key_separator is None else unescape(key_separator),
        headers=headers,
        null=null,
        partition=partition,
        key_writer=make_writer(key_format, side="key", topic=topic, settings=known),
        value_writer=make_writer(value_format, side="value", topic=topic, settings=known),
    )
    run(topic, source, settings, output)


command = Command(
    produce,
    examples=[
        "echo hello | penstock produce orders",
        "penstock produce orders 'one record' 'and another' --key alice",
        "penstock produce orders --file orders.txt --key-separator :",
        r"penstock produce orders --file orders.tsv --key-separator '\t'",
        "penstock produce counts 42 --key alice --value-format long",
        "penstock consume orders --json | penstock produce copies --format json",
        "penstock produce orders -z zstd -b broker:9092 < orders.txt",
    ],
    kafka="kafka-console-producer",
    kafka_flags=("--topic",),
)
