"""Error messages of the exactly-once sink. Streams and batch writes fail alike, but users act on them differently.

The name of a sink tells which one it is: that of a batch write starts with `WRITE`; that of a stream is the query id
or the name given to `to_topics`.
"""

from __future__ import annotations

from collections.abc import Sequence

WRITE = "write:"
"""Marks the sink of a batch write. `to_topics` rejects names that start with it."""

TIMED_OUT = "open for longer than the broker allows"
GRANT = "Set transaction.two.phase.commit.enable=true on the broker, or raise its transaction.max.timeout.ms"


def is_write(sink: str) -> bool:
    return sink.startswith(WRITE)


def named(sink: str) -> str:
    """The sink as messages call it."""
    return f"batch write {sink.removeprefix(WRITE)!r}" if is_write(sink) else f"query {sink}"


def superseded(sink: str, holder: str) -> str:
    if is_write(sink):
        return (
            f"{named(sink)} was taken over by another job with the same writeId ({holder}). Nothing was written twice."
            " Wait for that job, or give each write its own writeId"
        )
    return (
        f"query {sink} was taken over by another run ({holder}): was its checkpoint copied, or is an old driver still"
        " alive? Nothing was written twice. Stop one of the runs; a separate query needs its own checkpoint"
    )


def given_up(sink: str) -> str:
    if is_write(sink):
        return f"{named(sink)} failed or was cancelled; this job writes nothing more. Run it again"
    return (
        f"a batch of query {sink} failed or was stopped, so this run of the query writes nothing more. Start the query"
        " again: it writes the missing rows, and none twice"
    )


def not_repeatable(sink: str, *, transaction: object, rows_before: int, rows_now: int) -> str:
    what_next = (
        "then write the missing rows under another writeId"
        if is_write(sink)
        else "then start with a new checkpoint"
    )
    return (
        f"the transaction {transaction} of {rows_before} rows was decided and then aborted, because it was {TIMED_OUT},"
        f" but the rerun has {rows_now} rows instead: {named(sink)} does not produce the same rows again, so the lost"
        " ones cannot be rewritten. Check the last records of the output with isolation.level=read_committed,"
        f" {what_next}"
    )


def aborted_after_decision(sink: str, *, batch: int, transactions: Sequence[object]) -> str:
    lost = ", ".join(map(str, transactions))
    if is_write(sink):
        return (
            f"{named(sink)} is committed in part: its transactions {lost} were aborted before they could be committed,"
            f" because they were {TIMED_OUT}. Run the same job again with writeId={sink.removeprefix(WRITE)} and as"
            f" many partitions: it writes their rows again and no others. {GRANT}"
        )
    return (
        f"batch {batch} of query {sink} is committed in part: its transactions {lost} were aborted before they could be"
        f" committed, because they were {TIMED_OUT}. Start the query again: it writes their rows again. {GRANT}"
    )


def written_with_other_rows(sink: str, *, rows_before: int, rows_now: int) -> str:
    return (
        f"{named(sink)} was already committed, with {rows_before} rows; this job has {rows_now} rows and wrote none of"
        " them. If they are new rows, write them with another writeId. If this is a rerun of the same write, nothing"
        " is left to do: its rows are committed"
    )
