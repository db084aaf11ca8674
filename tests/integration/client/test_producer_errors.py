"""The error of a producer whose broker rejects its records until the timeout."""

from __future__ import annotations

import pytest

from penstock import Producer, errors
from penstock.testing import Broker


def test_a_receipt_timeout_names_the_brokers_last_error() -> None:
    with Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        producer.send("orders", "written").result(timeout=30)
        broker.faults.fail("PRODUCE", "KAFKA_STORAGE_ERROR", times=1_000_000)
        receipt = producer.send("orders", "refused")

        message = ""
        while "KAFKA_STORAGE_ERROR" not in message:  # until the first response arrives
            with pytest.raises(errors.TimedOut) as late:
                receipt.result(timeout=0.01)
            message = str(late.value)

        assert "the last error was: orders-0" in message
        assert isinstance(late.value.__cause__, errors.StorageFailed)
        broker.faults.clear()
        assert receipt.result(timeout=30).offset == 1
