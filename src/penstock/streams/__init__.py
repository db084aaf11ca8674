"""Streams and tables: a typed DSL whose topologies run on Spark.

    app = App("word-count", brokers="localhost:9092")
    words = app.stream("lines", value=str).flat_map(str.split)
    words.group_by_value().count(name="counts").to("word-counts")
    app.run()

Programs are written with `dsl`. `topology` describes them, `interpret` defines the exact result, and `compile` runs
them on Spark. Names are imported on first use, so a topology can be built and tested without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._lazy import names_from

if TYPE_CHECKING:
    from penstock.streams.app import App, AppFailed
    from penstock.streams.dsl.builder import Builder
    from penstock.streams.dsl.grouped import CogroupedStream, GroupedStream, WindowedStream
    from penstock.streams.dsl.stream import Stream
    from penstock.streams.dsl.suppression import until_time_limit, until_window_closes
    from penstock.streams.dsl.table import GlobalTable, GroupedTable, Table
    from penstock.streams.nouns import Record, TopologyError, Windowed
    from penstock.streams.processors import (
        Context,
        KeyValueState,
        Processor,
        SessionState,
        Transformer,
        WindowState,
    )
    from penstock.streams.serdes import Serde, serde
    from penstock.streams.stores import Store, key_value_store, session_store, window_store
    from penstock.streams.windows import hopping, session, sliding, tumbling, unlimited, within

__all__ = [
    "App",
    "AppFailed",
    "Builder",
    "CogroupedStream",
    "Context",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "KeyValueState",
    "Processor",
    "Record",
    "Serde",
    "SessionState",
    "Store",
    "Stream",
    "Table",
    "TopologyError",
    "Transformer",
    "WindowState",
    "Windowed",
    "WindowedStream",
    "hopping",
    "key_value_store",
    "serde",
    "session",
    "session_store",
    "sliding",
    "tumbling",
    "unlimited",
    "until_time_limit",
    "until_window_closes",
    "window_store",
    "within",
]

if not TYPE_CHECKING:
    _HOMES = {
        "app": ["App", "AppFailed"],
        "dsl.builder": ["Builder"],
        "dsl.grouped": ["CogroupedStream", "GroupedStream", "WindowedStream"],
        "dsl.stream": ["Stream"],
        "dsl.suppression": ["until_time_limit", "until_window_closes"],
        "dsl.table": ["GlobalTable", "GroupedTable", "Table"],
        "nouns": ["Record", "TopologyError", "Windowed"],
        "processors": ["Context", "KeyValueState", "Processor", "SessionState", "Transformer", "WindowState"],
        "serdes": ["Serde", "serde"],
        "stores": ["Store", "key_value_store", "session_store", "window_store"],
        "windows": ["hopping", "session", "sliding", "tumbling", "unlimited", "within"],
    }
    __getattr__, __dir__ = names_from(
        __name__, {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
    )
