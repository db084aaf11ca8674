"""Consume, transform and produce in transactions, with every client: output matches input one to one.

That holds whether a client or the broker is killed in the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat.conftest import TRANSACTION_SETTINGS
from compat.groups.members import Group
from compat.groups.state import committed_offsets
from compat.transactions import transformers
from compat.transactions.input import Input
from compat.transactions.outcome import Reader, faults, open_partitions, read_all
from compat.transactions.transformers import Client, Pipeline
from harness.admin import create_topic
from harness.brokers import Broker
from harness.waiting import wait_until

PARTITION_COUNT = 4
RECORD_COUNT = 400
CRASH_COUNT = 2
CRASH_RECORD_COUNT = 300


@pytest.mark.parametrize("client", transformers.ALL, ids=str)
def test_output_matches_input_while_a_client_is_killed(
    transaction_cluster: Broker, client: Client, request: pytest.FixtureRequest
) -> None:
    is_kafka_4 = transaction_cluster.name == "kafka" and request.config.getoption("--kafka-libs") is None
    if is_kafka_4 and client not in transformers.SERVED_BY_KAFKA_4:
        pytest.skip("Apache Kafka 4 does not serve clients before 2.1")
    bootstrap = transaction_cluster.bootstrap
    source = create_topic(bootstrap, "input", partitions=PARTITION_COUNT)
    written = Input(bootstrap, source, PARTITION_COUNT)
    written.write(RECORD_COUNT)
    monitored = MonitoredPipeline(client, bootstrap, source)
    try:
        monitored.start()
        monitored.read_until(RECORD_COUNT // 4)
        monitored.pipeline.replace(0)
        monitored.read_until(RECORD_COUNT)
    finally:
        monitored.stop()
    monitored.check(written)


def test_output_matches_input_while_the_broker_is_killed(
    tmp_path: Path, make_broker: Callable[..., Broker]
) -> None:
    # A KRaft broker that was killed registers again only after its old session has expired.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings={**TRANSACTION_SETTINGS, **session})
    broker.start()
    pipelines: list[MonitoredPipeline] = []
    try:
        source = create_topic(broker.bootstrap, "input", partitions=PARTITION_COUNT)
        written = Input(broker.bootstrap, source, PARTITION_COUNT)
        pipelines = [
            MonitoredPipeline(client, broker.bootstrap, source) for client in transformers.IN_CRASHES
        ]
        written.write(CRASH_RECORD_COUNT)
        for monitored in pipelines:
            monitored.start()
        for _ in range(CRASH_COUNT):
            # All of them are working and have more to do.
            for monitored in pipelines:
                monitored.read_until(len(written.written) - CRASH_RECORD_COUNT // 2)
            broker.kill()
            broker.start()
            written.write(CRASH_RECORD_COUNT)
        for monitored in pipelines:
            monitored.read_until(len(written.written))
            monitored.stop()
            monitored.check(written)
    finally:
        for monitored in pipelines:
            monitored.kill()
        broker.close()
    broker.check_output()


class MonitoredPipeline:
    """A pipeline with its own output, and a reader of it."""

    def __init__(self, client: Client, bootstrap: str, source: str) -> None:
        target = create_topic(bootstrap, f"output-{client}", partitions=PARTITION_COUNT)
        self.pipeline = Pipeline(client, bootstrap, source=source, target=target)
        self._bootstrap = bootstrap
        self._reader = Reader(bootstrap, target, PARTITION_COUNT)

    def start(self) -> None:
        self.pipeline.start()

    def read_until(self, count: int) -> None:
        self._reader.read_until(count, errors=self.pipeline.tally.failed)
        assert self.pipeline.tally.failed == []

    def stop(self) -> None:
        self.pipeline.stop()

    def kill(self) -> None:
        self.pipeline.kill()

    def check(self, written: Input) -> None:
        """The final output, what was read while it grew, and the group's offsets."""
        name, target = str(self.pipeline.client), self.pipeline.target
        wait_until(
            lambda: open_partitions(self._bootstrap, target, PARTITION_COUNT) == [],
            f"no transaction of {name} is open",
        )
        self._reader.close()
        assert (name, self.pipeline.tally.failed) == (name, [])
        # The log comes first: if only the reader saw a duplicate, it was sent back to an older offset.
        found = read_all(self._bootstrap, target, PARTITION_COUNT, isolation="read_committed")
        assert (name, faults(written.written, found)) == (name, [])
        assert (name, faults(written.written, self._reader.found)) == (name, [])
        group = Group(
            self._bootstrap, self.pipeline.group, self.pipeline.source, partition_count=PARTITION_COUNT
        )
        assert committed_offsets(group) == written.ends
