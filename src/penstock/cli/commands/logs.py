"""`penstock logs`: inspect the files of a partition without a node."""

from __future__ import annotations

from typing import Annotated, Literal

from penstock.cli.declare import Group, argument, option
from penstock.cli.output import Output

command = Group(help="Inspect log files; no node needs to run.", kafka="kafka-dump-log")


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
        tuple[str, ...], argument(help="Log files, or the directory of a partition.", complete="file")
    ],
    *,
    output: Output,
    records: Annotated[bool, option("--records", "-r", help="Show records, not only batches.")] = False,
    decoder: Annotated[
        Literal["auto", "text", "offsets", "transactions", "metadata"],
        option("--decoder", "-d", help="How to decode records; auto goes by the name of the topic."),
    ] = "auto",
    limit: Annotated[
        int | None, option("--limit", help="Stop after this many lines of each file.", minimum=1)
    ] = None,
) -> None:
    """Print the batches, records, index entries and producer states in log files.

    It reads segments (`.log`), checkpoints, indexes (`.index`, `.timeindex`, `.txnindex`) and producer snapshots
    (`.snapshot`). It changes nothing, and a node may keep writing. With `--json` every line is an object."""
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
