"""A streams application to be killed: words, counted exactly once. `torture.spark` runs it like a user would.

penstock pipeline run tests/torture/spark_counting.py --brokers BOOTSTRAP
"""

from __future__ import annotations

import os

from penstock.streams import App

app = App("counting", brokers=os.environ["PENSTOCK_BOOTSTRAP_SERVERS"], buffered_records_per_partition=700)
words = app.stream("counting-in", value=str).flat_map(str.split)
words.group_by_value().count(name="counts").to("counting-out")
