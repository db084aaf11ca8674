"""What `penstock produce` prints when records are not acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

import penstock as package
from penstock.cli.clients import open_producer
from penstock.cli.failures import Refusal
from penstock.cli.record_writer import write_records
from penstock.cli.records.line_reader import NewRecord
from penstock.testing.broker import Broker

IMPATIENT = {"delivery.timeout.ms": "1500", "request.timeout.ms": "1000", "linger.ms": "0"}

pytestmark = pytest.mark.penstock_only("tests Penstock's command line")


def settings_of(broker: Broker) -> dict[str, object]:
    return {"bootstrap.servers": broker.bootstrap_servers, **IMPATIENT}


def test_a_command_does_not_close_its_producer_before_the_delivery_timeout(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gave up after 60 s, although the guide and the setting say 120."""
    timeouts: list[float | None] = []
    original = package.Producer.close

    def close(self: package.Producer, timeout: float | None = None) -> None:
        timeouts.append(timeout)
        original(self, timeout)

    monkeypatch.setattr(package.Producer, "close", close)
    with open_producer({"bootstrap.servers": penstock.bootstrap_servers}):
        pass
    with suppress(ZeroDivisionError), open_producer(settings_of(penstock)):
        raise ZeroDivisionError

    by_default, impatient = (timeout or 0 for timeout in timeouts)
    assert by_default > 120
    assert 1.5 < impatient < 10


@pytest.mark.parametrize("waits_for_each", [False, True])
def test_a_producer_that_times_out_names_the_reason_first_and_counts_what_was_written(
    penstock: Broker, waits_for_each: bool
) -> None:
    """It blamed a closed producer, and did not report that one record was written."""
    penstock.admin().create_topic("w", partitions=1)

    def records() -> Iterator[NewRecord]:
        yield NewRecord(b"a")
        with penstock.consumer("w", auto_offset_reset="earliest") as consumer:
            assert next(iter(consumer)).value == b"a"
        penstock.faults.fail("Produce", "KAFKA_STORAGE_ERROR", times=1000)
        yield NewRecord(b"b")

    with pytest.raises(Refusal) as refused:
        write_records("w", records(), settings_of(penstock), waits_for_each=waits_for_each)

    message = str(refused.value)
    assert message.startswith("w-0: ")
    assert "[KAFKA_STORAGE_ERROR]" in message
    assert "closed" not in message
    assert message.endswith("wrote 1 record (1 byte) to w; 1 more not acknowledged")
