"""Error messages of the exactly-once sink. A stream and a batch write fail alike, but a user acts on them differently.

A sink's name tells which one it is: the sink of a batch write begins with `WRITE`, that of a stream is its query's id
or the name given to `to_topics`.
"""

from __future__ import annotations

from collections.abc import Sequence

WRITE = "write:"
"""Marks the sink of a batch write. `to_topics` accepts no name that begins with it."""

TIMED_OUT = "open for longer than the broker allows"
GRANT = "Set transaction.two.phase.commit.enable=true on the broker, or raise its transaction.max.timeout.ms"


def is_write(sink: str) -> bool:
    return sink.startswith(WRITE)


def named(sink: str) -> str:
    """What a message calls a sink."""
    return f"batch write {sink.removeprefix(WRITE)!r}" if is_write(sink) else f"query {sink}"


def superseded(sink: str, holder: str) -> str:
    if is_write(sink):
        return (
            f"{named(sink)} was taken over by another job with the same writeId ({holder}). Nothing was written twice."
            " Wait for that job, or give each write a writeId of its own"
        )
    return (
        f"query {sink} is run by somebody else too, who has taken over ({holder}): was its checkpoint"
        " copied, or is an old driver still alive? Nothing was written twice. Stop one of them; a query of its own"
        " needs a checkpoint of its own"
    )


def given_up(sink: str) -> str:
    if is_write(sink):
        return f"{named(sink)} failed or was cancelled; this job writes nothing more. Run it again"
    return (
        f"a batch of query {sink} failed or was stopped, and with it this run of the query was given up:"
        " what is not written is written when the query is started again, and not a second time in the same run"
    )


def not_repeatable(sink: str, *, transaction: object, rows_before: int, rows_now: int) -> str:
    what_next = (
        "then write the missing rows under another writeId"
        if is_write(sink)
        else "then begin with a new checkpoint"
    )
    return (
        f"the transaction {transaction} of {rows_before} rows was decided and then aborted, because it was {TIMED_OUT},"
        f" and now there are {rows_now} rows in its place: {named(sink)} does not give the same rows again, so they"
        " cannot be made good. Look at the last records of the output with isolation.level=read_committed,"
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
        f"batch {batch} of query {sink} is decided, but of its transactions {lost} were aborted"
        f" before they were committed, because they were {TIMED_OUT}. Start the query"
        f" again: it will write these again. {GRANT}"
    )


def written_with_other_rows(sink: str, *, rows_before: int, rows_now: int) -> str:
    return (
        f"{named(sink)} was committed before, with {rows_before} rows; this job has {rows_now} rows and none of them"
        " was written. If they are new rows, write them under another writeId. If this is a rerun of the same write,"
        " there is nothing to do: its rows are committed"
    )
