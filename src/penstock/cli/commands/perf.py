"""`penstock perf`: load, and what the cluster makes of it."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Output

command = Group(help="Measure how fast a cluster takes, gives and commits records.")

TOPIC = Argument(
    help="The topic; one that does not exist is made where the broker allows it.", complete="topic"
)
SIZE = Option("--size", "-s", help="Bytes of each value.", minimum=0)
ACKS = Option("--acks", help="Who has to have a record.")
COMPRESSION = Option("--compression", "-z", help="How to pack records.")
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]


@command.command(
    "produce",
    examples=[
        "penstock perf produce load --records 1000000 --size 100",
        "penstock perf produce load --rate 50000 --acks 1 --json",
    ],
)
def produce(
    topic: Annotated[str, TOPIC],
    *,
    connection: Connection,
    output: Output,
    records: Annotated[int, Option("--records", "-n", help="How many.", minimum=1)] = 1_000_000,
    size: Annotated[int, SIZE] = 100,
    rate: Annotated[
        float | None, Option("--rate", "-r", help="At most so many a second.", minimum=0.001)
    ] = None,
    acks: Annotated[Literal["0", "1", "all"], ACKS] = "all",
    compression: Annotated[Codec, COMPRESSION] = "none",
) -> None:
    """Write records as fast as the cluster takes them.

    A latency is the time from handing a record to the producer until the broker has answered; they are measured on
    a sample."""
    from penstock.cli.perf import showing

    settings = connection.settings(acks=acks, compression_type=compression)
    showing.produce(topic, count=records, size=size, per_second=rate, settings=settings, output=output)


@command.command(
    "consume",
    examples=[
        "penstock perf consume load",
        "penstock perf consume load --records 100000 --group readers --json",
    ],
)
def consume(
    topic: Annotated[str, TOPIC],
    *,
    connection: Connection,
    output: Output,
    records: Annotated[
        int | None,
        Option("--records", "-n", help="How many; all that there are where nothing is said.", minimum=1),
    ] = None,
    group: Annotated[
        str | None, Option("--group", "-g", help="As a member of a group.", complete="group")
    ] = None,
) -> int:
    """Read records as fast as the cluster gives them, from the beginning."""
    from penstock.cli.perf import showing

    settings = connection.settings(auto_offset_reset="earliest", allow_auto_create_topics="false")
    if group is not None:
        settings["group.id"] = group
    return showing.consume(topic, count=records, settings=settings, output=output)


@command.command(
    "end-to-end",
    examples=[
        "penstock perf end-to-end load",
        "penstock perf end-to-end load --records 1000 --acks 1 --json",
    ],
)
def end_to_end(
    topic: Annotated[str, TOPIC],
    *,
    connection: Connection,
    output: Output,
    records: Annotated[int, Option("--records", "-n", help="How many.", minimum=1)] = 10_000,
    size: Annotated[int, SIZE] = 100,
    acks: Annotated[Literal["1", "all"], ACKS] = "all",
) -> None:
    """Write a record and read it back, one at a time."""
    from penstock.cli.perf import showing

    showing.end_to_end(
        topic, count=records, size=size, acks=acks, settings=connection.settings(), output=output
    )


@command.command(
    "transactions",
    examples=[
        "penstock perf transactions load",
        "penstock perf transactions load --count 1000 --records 50 --json",
    ],
)
def transactions(
    topic: Annotated[str, TOPIC],
    *,
    connection: Connection,
    output: Output,
    count: Annotated[int, Option("--count", "-c", help="How many transactions.", minimum=1)] = 1_000,
    records: Annotated[int, Option("--records", "-n", help="Records in each.", minimum=1)] = 10,
    size: Annotated[int, SIZE] = 100,
    transactional_id: Annotated[
        str, Option("--transactional-id", help="Who it is that writes them.")
    ] = "penstock-perf",
) -> None:
    """Commit one transaction after another."""
    from penstock.cli.perf import showing

    showing.transactions(
        topic,
        count=count,
        records_each=records,
        size=size,
        settings=connection.settings(transactional_id=transactional_id),
        output=output,
    )
