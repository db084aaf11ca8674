"""An application before it runs, and how it handles signals."""

from __future__ import annotations

import os
import signal
from typing import ClassVar

import pytest

from penstock.client.errors import BadConfiguration
from penstock.streams import App, TopologyError
from penstock.streams.running import heeding_signals


def test_an_application_has_the_name_it_was_given() -> None:
    assert App("orders", brokers="localhost:9092").name == "orders"
    assert App(settings={"application.id": "orders"}).name == "orders"


def test_an_unknown_setting_is_rejected_by_the_constructor() -> None:
    with pytest.raises(BadConfiguration, match="did you mean state"):
        App("orders", state_dirs="/tmp")


def test_a_topology_without_input_does_not_start() -> None:
    with pytest.raises(TopologyError, match="has no input"):
        App("idle").start()


def test_until_is_end_or_nothing() -> None:
    with pytest.raises(TopologyError, match="not 'tomorrow'"):
        App("orders").run(until="tomorrow")  # type: ignore[arg-type]


def test_an_unknown_table_is_rejected_with_the_known_ones() -> None:
    app = App("orders")
    app.stream("lines", key=str, value=str).group_by_key().count(name="counts")

    with pytest.raises(TopologyError, match="tables: counts"):
        app.state("count")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_and_not_the_process(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    with heeding_signals() as stopping:
        os.kill(os.getpid(), number)
        assert stopping.wait(60)

    assert signal.getsignal(number) is before


def test_stopping_an_idle_application_does_nothing() -> None:
    App("orders").stop()


def test_started_queries_are_stopped_if_a_later_one_cannot_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, first = App("orders"), Query()

    def begin(stage: str) -> Query:
        if stage == "second":
            raise RuntimeError("no such folder")
        return first

    monkeypatch.setattr(app, "_compiled", lambda spark: ["first", "second"])
    monkeypatch.setattr(app, "_begin", begin)

    with pytest.raises(RuntimeError, match="no such folder"):
        app.start()

    assert not first.isActive


class Query:
    """A query that is idle between batches."""

    isActive = True
    lastProgress = None
    status: ClassVar[dict[str, object]] = {"isTriggerActive": False, "message": "Waiting for data to arrive"}

    def stop(self) -> None:
        self.isActive = False
