"""How long the console consumer waits, by Kafka's `--timeout-ms`."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.kafka.console_consumer import POLL_S, Printer


class QuietConsumer:
    """Has no messages, and ends the third wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def poll(self, timeout: float, max_records: int) -> list[Any]:
        self.waits.append(timeout)
        if len(self.waits) == 3:
            raise KeyboardInterrupt
        return []


def test_the_time_without_a_message_is_milliseconds_of_the_flag() -> None:
    consumer: Any = QuietConsumer()
    Printer(lambda message: b"", skips_errors=False).print_all(consumer, messages_max=None, patience_ms=250)
    assert consumer.waits == [0.25]


@pytest.mark.parametrize("patience_ms", [None, -1])
def test_a_negative_or_missing_time_waits_forever(patience_ms: int | None) -> None:
    consumer: Any = QuietConsumer()
    printer = Printer(lambda message: b"", skips_errors=False)
    with pytest.raises(KeyboardInterrupt):
        printer.print_all(consumer, messages_max=None, patience_ms=patience_ms)
    assert consumer.waits == [POLL_S] * 3
