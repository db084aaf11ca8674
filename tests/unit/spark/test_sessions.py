"""Sessions that cannot be created fail at once, with a helpful error."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from penstock.spark import sessions
from penstock.spark.sessions import SparkUnavailable, delayed_signals, session


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_an_address_without_spark_fails_at_once(scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but not listening
        master = f"{scheme}://127.0.0.1:{unused.getsockname()[1]}"

        with pytest.raises(SparkUnavailable, match=r"no Spark at 127\.0\.0\.1:.*penstock spark cluster"):
            session(master=master)


def test_if_spark_does_not_start_the_error_names_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import PySparkRuntimeError

    def fail(*_: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(sessions, "_start", fail)

    with pytest.raises(SparkUnavailable, match=r"did not start at local\[2\].*see /log"):
        session(master="local[2]", log="/log")


@pytest.fixture
def own_interrupts() -> Iterator[None]:
    """Python's own handler of Ctrl-C: the Spark of another test in the same process may have replaced it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_interrupts")
def test_an_interrupt_during_the_start_of_a_jvm_is_delayed_until_it_runs() -> None:
    seen = []

    def start() -> None:
        with delayed_signals():
            signal.raise_signal(signal.SIGINT)
            seen.append("the JVM is there")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert seen == ["the JVM is there"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("own_interrupts")
def test_a_second_interrupt_is_not_delayed() -> None:
    def start() -> None:
        with delayed_signals():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second one was held back too")

    with pytest.raises(KeyboardInterrupt):
        start()
