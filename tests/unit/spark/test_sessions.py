"""Sessions that are refused, in words and at once."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from penstock.spark import sessions
from penstock.spark.sessions import SparkUnavailable, session, signals_held_back


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_where_no_spark_answers_nobody_waits_for_it(scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        master = f"{scheme}://127.0.0.1:{unused.getsockname()[1]}"

        with pytest.raises(
            SparkUnavailable, match=r"no Spark answers at 127\.0\.0\.1:.*penstock spark cluster"
        ):
            session(master=master)


def test_a_spark_that_does_not_start_is_told_with_where_it_spoke(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkRuntimeError

    def fail(*_: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(sessions, "_start", fail)

    with pytest.raises(SparkUnavailable, match=r"did not start at local\[2\].*what it said is in /log"):
        session(master="local[2]", log="/log")


@pytest.fixture
def own_interrupts() -> Iterator[None]:
    """Python's own way with Ctrl-C: a Spark of another test in the same process has put its own in place."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_interrupts")
def test_an_interrupt_while_a_jvm_starts_is_heard_when_it_is_there() -> None:
    seen = []

    def start() -> None:
        with signals_held_back():
            signal.raise_signal(signal.SIGINT)
            seen.append("the JVM is there")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert seen == ["the JVM is there"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("own_interrupts")
def test_a_second_interrupt_does_not_wait() -> None:
    def start() -> None:
        with signals_held_back():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second one was held back too")

    with pytest.raises(KeyboardInterrupt):
        start()
