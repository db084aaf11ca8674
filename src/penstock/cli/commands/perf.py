"""`penstock perf`: benchmark a cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.connection import Connection
from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

command = Group(help="Measure the throughput and latency of a cluster.")

TOPIC = argument(
    help="The topic; it is created if it does not exist and the broker allows it.", complete="topic"
)
SIZE = option("--size", "-s", help="Bytes of each value.", minimum=0)
ACKS = option("--acks", help="Which replicas must acknowledge a record.")
COMPRESSION = option("--compression", "-z", help="Compression codec.")
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
    records: Annotated[int, option("--records", "-n", help="How many.", minimum=1)] = 1_000_000,
    size: Annotated[int, SIZE] = 100,
    rate: Annotated[
        float | None, option("--rate", "-r", help="At most this many records a second.", minimum=0.001)
    ] = None,
    acks: Annotated[Literal["0", "1", "all"], ACKS] = "all",
    compression: Annotated[Codec, COMPRESSION] = "none",
) -> None:
    """Produce records as fast as the cluster accepts them.

    Latency is the time from `send` to the acknowledgement, measured on a sample of records."""
    from penstock.cli.perf import report

    settings = connection.settings(acks=acks, compression_type=compression)
    report.produce(topic, count=records, size=size, per_second=rate, settings=settings, output=output)


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
        option("--records", "-n", help="Number of records, by default all.", minimum=1),
    ] = None,
    group: Annotated[
        str | None, option("--group", "-g", help="Read as a member of this group.", complete="group")
    ] = None,
) -> int:
    """Consume records from the beginning, as fast as possible."""
    from penstock.cli.perf import report

    settings = connection.settings(auto_offset_reset="earliest", allow_auto_create_topics="false")
    if group is not None:
        settings["group.id"] = group
    return report.consume(topic, count=records, settings=settings, output=output)


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
    records: Annotated[int, option("--records", "-n", help="How many.", minimum=1)] = 10_000,
    size: Annotated[int, SIZE] = 100,
    acks: Annotated[Literal["1", "all"], ACKS] = "all",
) -> None:
    """Produce a record and consume it, one at a time."""
    from penstock.cli.perf import report

    report.end_to_end(
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
    count: Annotated[int, option("--count", "-c", help="Number of transactions.", minimum=1)] = 1_000,
    records: Annotated[int, option("--records", "-n", help="Records in each transaction.", minimum=1)] = 10,
    size: Annotated[int, SIZE] = 100,
    transactional_id: Annotated[
        str, option("--transactional-id", help="The transactional id of the producer.")
    ] = "penstock-perf",
) -> None:
    """Commit one transaction after another."""
    from penstock.cli.perf import report

    report.transactions(
        topic,
        count=count,
        records_each=records,
        size=size,
        settings=connection.settings(transactional_id=transactional_id),
        output=output,
    )
