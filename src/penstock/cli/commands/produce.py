"""`penstock produce`: write records from stdin or a file to a topic."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Command, argument, option
from penstock.cli.output import Output


def produce(
    topic: Annotated[str, argument(help="The topic.", complete="topic")],
    values: Annotated[
        tuple[str, ...], argument(help="Values of records; without any, records are read from stdin.")
    ] = (),
    *,
    connection: Connection,
    output: Output,
    file: Annotated[
        str | None, option("--file", "-f", help="Read records from a file instead of stdin.", complete="file")
    ] = None,
    format: Annotated[
        Literal["lines", "json", "whole"],
        option(
            "--format",
            help="What is a record: a line, a line of JSON as printed by `consume --json`, or the whole input.",
        ),
    ] = "lines",
    key: Annotated[str | None, option("--key", "-k", help="The key of all records.")] = None,
    key_separator: Annotated[
        str | None,
        option(
            "--key-separator",
            "-K",
            help=r"Separates key and value on a line; may contain escapes such as \t and \x00.",
        ),
    ] = None,
    key_format: Annotated[
        str | None,
        option("--key-format", metavar="FORMAT", help="How to serialize keys; see --value-format."),
    ] = None,
    value_format: Annotated[
        str | None,
        option(
            "--value-format",
            metavar="FORMAT",
            help="How to serialize values: string, json, long, integer, double, boolean, uuid, hex, base64, avro ... "
            "By default the bytes of the input.",
        ),
    ] = None,
    headers: Annotated[
        tuple[str, ...],
        option("--header", "-H", metavar="NAME=VALUE", help="A header of all records. May be repeated."),
    ] = (),
    null: Annotated[
        str | None, option("--null", help="The text that stands for a null key or value.")
    ] = None,
    partition: Annotated[
        int | None, option("--partition", "-p", help="The partition of all records.", minimum=0)
    ] = None,
    acks: Annotated[
        Literal["0", "1", "all"] | None, option("--acks", help="Which replicas must acknowledge a record.")
    ] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"] | None,
        option("--compression", "-z", help="Compression codec."),
    ] = None,
) -> None:
    """Write records to a topic.

    Input is written as it is, and need not be UTF-8. If the topic does not exist, it is created if the broker allows
    it. Records count as written when the broker has acknowledged them."""
    from penstock.cli.escapes import unescape
    from penstock.cli.produce import Source, run
    from penstock.cli.records.formats import make_writer
    from penstock.cli.timeouts import for_producer

    given = {"acks": acks, "compression.type": compression}
    settings = {
        **connection.settings(),
        **{name: value for name, value in given.items() if value is not None},
    }
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
