"""Fraud rules with state: the history of a card decides whether its next payment is suspicious.

    penstock pipeline run examples/fraud.py

Three rules in plain Python: too many payments within a minute, a payment far above the card's average, and payments
in two countries within a short time.
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
FACTOR_MAX = 10  # times the average payment of the card
TRAVEL_MS = 10 * MINUTE_MS  # payments in two countries within this time are suspicious
MEMORY = "recent array<long>, paid long, payments long, country string, last long"


class Rules(StatefulProcessor):
    """Checks the payments of each card. Spark stores the state of each card."""

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
