"""An application before it runs, and how it hears signals."""

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


def test_a_setting_that_nobody_knows_is_refused_when_the_application_is_made() -> None:
    with pytest.raises(BadConfiguration, match="did you mean state"):
        App("orders", state_dirs="/tmp")


def test_a_topology_that_reads_nothing_does_not_start() -> None:
    with pytest.raises(TopologyError, match="reads nothing"):
        App("idle").start()


def test_it_is_said_until_when_to_run() -> None:
    with pytest.raises(TopologyError, match="not until 'tomorrow'"):
        App("orders").run(until="tomorrow")  # type: ignore[arg-type]


def test_a_state_that_is_not_there_is_told_with_those_that_are() -> None:
    app = App("orders")
    app.stream("lines", key=str, value=str).group_by_key().count(name="counts")

    with pytest.raises(TopologyError, match="there are: counts"):
        app.state("count")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_and_not_the_process(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    with heeding_signals() as stopping:
        os.kill(os.getpid(), number)
        assert stopping.wait(60)

    assert signal.getsignal(number) is before


def test_a_stop_of_what_does_not_run_is_no_mistake() -> None:
    App("orders").stop()


def test_queries_that_began_are_stopped_where_a_later_one_cannot_begin(
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
    """One that rests between batches."""

    isActive = True
    lastProgress = None
    status: ClassVar[dict[str, object]] = {"isTriggerActive": False, "message": "Waiting for data to arrive"}

    def stop(self) -> None:
        self.isActive = False
