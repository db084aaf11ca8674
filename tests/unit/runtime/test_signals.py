"""Signals that a program was started to ignore stay ignored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from penstock.cli.kafka.events import stopped_by_signals
from penstock.cli.pipeline_run import StopSignals
from penstock.runtime.signals import signals_to_handle
from penstock.streams.running import heeding_signals

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def in_background() -> Iterator[None]:
    """As a shell script's background job under `nohup`."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ALL}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("in_background")
def test_ignored_signals_are_left_alone_but_for_sigterm() -> None:
    assert signals_to_handle(*ALL) == (signal.SIGTERM,)


def test_signals_that_are_not_ignored_are_handled() -> None:
    assert signals_to_handle(*ALL) == ALL


@pytest.mark.usefixtures("in_background")
def test_closing_the_terminal_does_not_stop_a_pipeline_under_nohup() -> None:
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGINT)
        assert not signals.is_requested()

        signal.raise_signal(signal.SIGTERM)
        assert signals.is_requested()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.usefixtures("in_background")
def test_ctrl_c_does_not_stop_an_app_in_the_background() -> None:
    with heeding_signals() as stopping:
        signal.raise_signal(signal.SIGINT)
        assert not stopping.is_set()

        signal.raise_signal(signal.SIGTERM)
        assert stopping.is_set()


@pytest.mark.usefixtures("in_background")
def test_ctrl_c_does_not_stop_a_kafka_tool_in_the_background() -> None:
    with stopped_by_signals() as is_requested:
        signal.raise_signal(signal.SIGINT)
        assert not is_requested()

        signal.raise_signal(signal.SIGTERM)
        assert is_requested()
