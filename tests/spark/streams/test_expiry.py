"""Expired rows of window and session stores are also deleted from Spark's state store."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.streams import (
    App,
    Context,
    Processor,
    Record,
    SessionState,
    Windowed,
    WindowState,
    session_store,
    window_store,
)
from penstock.testing import Broker

HOUR_MS = 3_600_000


class Keeping(Processor[str, str, str, str]):
    """Puts every record into a window store and a session store."""

    def init(self, context: Context[str, str]) -> None:
        self.windows: WindowState[str, str] = context.store("windows")
        self.sessions: SessionState[str, str] = context.store("sessions")

    def process(self, record: Record[str, str]) -> None:
        self.windows.put(record.key, f"window {record.value}", record.timestamp_ms)
        session = Windowed(record.key, record.timestamp_ms, record.timestamp_ms)
        self.sessions.put(session, f"session {record.value}")


def test_expired_rows_leave_the_state_store_of_spark(
    spark: SparkSession, penstock: Broker, tmp_path: Path
) -> None:
    penstock.admin().create_topic("readings", 1)
    stores = [
        window_store("windows", key=str, value=str, window=60, retention=600),
        session_store("sessions", key=str, value=str, retention=600),
    ]

    def run() -> bytes:
        """Everything in Spark's state store after processing."""
        app = App("keeping", penstock.bootstrap_servers, state_dir=str(tmp_path))
        readings = app.stream("readings", key=str, value=str)
        readings.process(Keeping, stores=stores, key=str, value=str).to("out")
        app.run(spark, until="end")
        (checkpoint,) = {each.parent for each in Path(app.settings.state_folder).glob("*/offsets")}
        state = spark.read.format("statestore").option("stateVarName", "pages").load(str(checkpoint))
        return b"".join(bytes(row["data"]) for row in state.select("user_map_value.data").collect())

    def send(value: str, timestamp_ms: int) -> None:
        with penstock.producer() as producer:
            producer.send("readings", value, key="oven", timestamp_ms=timestamp_ms)

    send("first", HOUR_MS)
    kept = run()
    assert b"window first" in kept
    assert b"session first" in kept

    send("second", 2 * HOUR_MS)
    kept = run()
    assert b"window second" in kept
    assert b"session second" in kept
    assert b"first" not in kept
