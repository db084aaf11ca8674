"""Word count: lines in, how often each word was seen out, as a table that always holds the latest count.

    penstock pipeline run examples/word_count.py

It is written in `penstock.streams`, for people who think in streams and tables. `app.describe()` shows what it becomes.
"""

from __future__ import annotations

import os

from penstock.streams import App

BROKERS = os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092")

app = App("word-count", brokers=BROKERS)

words = app.stream("lines", value=str).map_values(str.lower).flat_map(str.split)
counts = words.group_by_value().count(
    name="counts"
)  # a table; its state is in RocksDB and in a topic of its own
counts.to("word-counts")

if __name__ == "__main__":
    app.run()
