"""A streams application to be killed, with operators that Arrow cannot fold. `torture.spark` runs it like a user
would.

The join keeps records of both sides in pages of state and uses timers. Its results go through an internal topic to a
second query, where a user's function folds them. Every update is written (no cache).

penstock pipeline run tests/torture/spark_joining.py --brokers BOOTSTRAP
"""

from __future__ import annotations

import os
from datetime import timedelta

from penstock.streams import App, within

app = App(
    "joining",
    brokers=os.environ["PENSTOCK_BOOTSTRAP_SERVERS"],
    buffered_records_per_partition=700,
    statestore_cache_max_bytes=0,
    repartition_purge_interval_ms=1000,  # processed records are deleted often, so that kills come then too
)


def total_of(key: str, value: str) -> str:
    return str(int(key) % 7)


def add(total: str, value: str) -> str:
    """`count:sum`, from which a reader derives what each step added."""
    count, _, numbers = total.partition(":")
    return f"{int(count) + 1}:{int(numbers) + int(value.partition('+')[0])}"


left = app.stream("joining-left", key=str, value=str)
right = app.stream("joining-right", key=str, value=str)
window = within(timedelta(seconds=1), grace=timedelta(minutes=1))
joined = left.left_join(right, lambda ours, theirs: f"{ours}+{theirs}", within=window, value=str)
joined.to("joining-out")
totals = joined.group_by(total_of, key=str).aggregate(lambda: "0:0", add, value=str, name="totals")
totals.to("joining-totals")
