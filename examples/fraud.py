"""Fraud rules with state: what a card did before decides whether its next payment is suspicious.

    penstock pipeline run examples/fraud.py

Three rules, in plain Python, over a card's own memory: too many payments within a minute, a payment far above what the
card usually pays, and payments in two countries too soon after each other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter, StatefulProcessor, StatefulProcessorHandle

BROKERS = {"kafka.bootstrap.servers": os.environ.get("PENSTOCK_BOOTSTRAP_SERVERS", "localhost:9092")}
PAYMENT = "cents long, country string, ms long"
MINUTE_MS = 60_000
PAYMENTS_MAX = 3  # within a minute
FACTOR_MAX = 10  # above the mean of what the card has paid
TRAVEL_MS = 10 * MINUTE_MS  # nobody pays in two countries within this
MEMORY = "recent array<long>, paid long, payments long, country string, last long"


class Rules(StatefulProcessor):
    """Judges the payments of one card after the other; Spark keeps the memory of each."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.memory = handle.getValueState("memory", MEMORY)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        recent, paid, payments, country, last = (
            self.memory.get() if self.memory.exists() else ([], 0, 0, None, 0)
        )
        for row in sorted(rows, key=lambda row: row.ms):
            recent = [ms for ms in recent if ms > row.ms - MINUTE_MS] + [row.ms]
            broken = {
                "too many payments": len(recent) > PAYMENTS_MAX,
                "unusual amount": payments and row.cents > FACTOR_MAX * paid / payments,
                "two countries": country not in (None, row.country) and row.ms - last < TRAVEL_MS,
            }
            for rule in (rule for rule, is_broken in broken.items() if is_broken):
                yield Row(key=key[0], value=json.dumps({"rule": rule, "cents": row.cents, "ms": row.ms}))
            paid, payments, country, last = paid + row.cents, payments + 1, row.country, row.ms
        self.memory.update((list(recent), paid, payments, country, last))

    def close(self) -> None:
        pass


def pipeline(spark: SparkSession) -> DataStreamWriter:
    payments = (
        spark.readStream.format("penstock")
        .options(subscribe="payments", startingOffsets="earliest", groupId="fraud", **BROKERS)
        .load()
        .select("key", F.from_json(F.decode("value", "utf-8"), PAYMENT).alias("payment"))
        .select("key", "payment.*")
    )
    alerts = payments.groupBy("key").transformWithState(Rules(), "key binary, value string", "Append", "None")
    return alerts.writeStream.format("penstock").options(topic="alerts", **BROKERS)
