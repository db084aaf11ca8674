"""`penstock consume`: records of topics on stdout."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Command, Option


def consume(
    topics: Annotated[tuple[str, ...], Argument(help="What to read.", complete="topic")],
    *,
    connection: Connection,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Go on when the end is reached, until Ctrl-C.")
    ] = False,
    start: Annotated[
        str,
        Option(
            "--from",
            "-s",
            metavar="PLACE",
            help="Where to begin in each partition: earliest, latest, an offset, -10 for the last ten, a time "
            "such as 2026-03-14T09:26, or how long ago, such as 15m.",
        ),
    ] = "earliest",
    partitions: Annotated[
        tuple[int, ...],
        Option("--partition", "-p", help="Only these partitions. May be repeated.", minimum=0),
    ] = (),
    group: Annotated[
        str | None,
        Option(
            "--group",
            "-g",
            help="Read as a member of a group, go on where it is, and commit.",
            complete="group",
        ),
    ] = None,
    limit: Annotated[
        int | None, Option("--limit", "-n", help="End after so many records.", minimum=1)
    ] = None,
    format: Annotated[
        Literal["table", "json", "raw", "key-value"],
        Option("--format", help="How each record is printed: raw is its value alone."),
    ] = "table",
    as_json: Annotated[
        bool, Option("--json", help="Short for --format json: an object on each line.")
    ] = False,
    template: Annotated[
        str | None,
        Option(
            "--template", help="How each record is printed, such as '{partition}/{offset} {key}={value}'."
        ),
    ] = None,
    separator: Annotated[
        str,
        Option(
            "--separator",
            help=r"What ends each record in the format raw, such as \x00; a line break by default.",
        ),
    ] = "\n",
    key_separator: Annotated[
        str,
        Option(
            "--key-separator",
            "-K",
            help="What stands between key and value in the format key-value; a tab by default.",
        ),
    ] = "\t",
    key_format: Annotated[
        str | None, Option("--key-format", metavar="FORMAT", help="How keys are read, as --value-format.")
    ] = None,
    value_format: Annotated[
        str | None,
        Option(
            "--value-format",
            metavar="FORMAT",
            help="How values are read: string, json, long, integer, double, boolean, uuid, hex, base64, avro ... "
            "By default as text.",
        ),
    ] = None,
    committed: Annotated[
        bool, Option("--committed", help="Leave out what open and aborted transactions wrote.")
    ] = False,
) -> None:
    """Read records from topics.

    Without `--follow` it ends where the topics ended when it began, and with a group where nothing more comes. Keys
    and values that are not text are shown with escapes, and in JSON as `{"base64": ...}`, which `produce --format
    json` reads again. `--key-format` and `--value-format` take the names of the client's deserializers."""
    from penstock.cli.consume import Wish, run
    from penstock.cli.escapes import unescape
    from penstock.cli.records.printers import Look

    isolation = "read_committed" if committed else "read_uncommitted"
    # Reading a name that was misspelled must not make a topic of that name.
    settings = connection.settings(isolation_level=isolation, allow_auto_create_topics="false")
    look = Look(
        format="json" if as_json else format,
        template=template,
        separator=unescape(separator),
        key_separator=unescape(key_separator),
        key_format=key_format or settings.pop("key.deserializer", None),
        value_format=value_format or settings.pop("value.deserializer", None),
    )
    wish = Wish(
        topics=tuple(topics),
        partitions=tuple(partitions),
        start=start,
        group=group,
        follows=follow,
        limit=limit,
        look=look,
    )
    run(wish, settings)


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
