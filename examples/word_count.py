"""Word count: lines in, word counts out, as a table of the latest count of each word.

    penstock pipeline run examples/word_count.py

It uses `penstock.streams`, the streams and tables API. `app.describe()` shows the topology.
"""

from __future__ import annotations

import os

from penstock.streams import App

BROKERS = os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092")

app = App("word-count", brokers=BROKERS)

words = app.stream("lines", value=str).map_values(str.lower).flat_map(str.split)
counts = words.group_by_value().count(
    name="counts"
)  # a table; its state is in RocksDB and in a changelog topic
counts.to("word-counts")

if __name__ == "__main__":
    app.run()
