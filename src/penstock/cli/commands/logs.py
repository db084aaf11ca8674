"""`penstock logs`: the files of a partition, looked at without a node."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Argument, Group, Option
from penstock.cli.output import Output

command = Group(help="Look into the files of a log, also where no node runs.", kafka="kafka-dump-log")


@command.command(
    "dump",
    examples=[
        "penstock logs dump /tmp/kraft-combined-logs/orders-0",
        "penstock logs dump /tmp/kraft-combined-logs/orders-0/00000000000000000000.log --records",
        "penstock logs dump /tmp/kraft-combined-logs/__consumer_offsets-12 --records --json",
    ],
)
def dump(
    paths: Annotated[
        tuple[str, ...], Argument(help="Files of a log, or the folder of a partition.", complete="file")
    ],
    *,
    output: Output,
    records: Annotated[bool, Option("--records", "-r", help="Each record, not only each batch.")] = False,
    decoder: Annotated[
        Literal["auto", "text", "offsets", "transactions", "metadata"],
        Option("--decoder", "-d", help="How records are read; by default as the topic's name suggests."),
    ] = "auto",
    limit: Annotated[
        int | None, Option("--limit", help="Stop after so many lines of each file.", minimum=1)
    ] = None,
) -> None:
    """Print batches, records, index entries and producers as they stand in the files.

    Segments (`.log`), checkpoints, indexes (`.index`, `.timeindex`, `.txnindex`) and snapshots of producers
    (`.snapshot`) are understood. Nothing is changed, and a node may go on writing meanwhile. With `--json` every
    line is an object."""
    from penstock.cli.dump.listing import list_file, log_files
    from penstock.cli.output import say

    for path in log_files(paths):
        listing = list_file(path, wants_records=records, decoder=decoder, rows_max=limit)
        if output.as_json:
            listing.print_json_lines()
            continue
        with output.progress(f"reading {path}"):
            rows = list(listing.rows)
        print(f"{path}: {listing.title}")
        output.table(listing.columns, rows)
        for problem in listing.problems:
            say(f"{path}: {problem}")
        print()
