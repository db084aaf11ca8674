"""How long commands wait for a broker that is away."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest

from penstock.cli.connection import Connection
from penstock.cli.main import main
from penstock.cli.timeouts import for_calls, for_producer, show_warnings
from penstock.client.settings import AdminSettings, ConsumerSettings, ProducerSettings

SERVERS = {"bootstrap.servers": "localhost:9092"}


@pytest.fixture
def unreachable() -> Iterator[str]:
    """An address that refuses connections, and that no other process can take meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_every_client_of_a_command_gives_up_after_the_same_time() -> None:
    assert AdminSettings.of(for_calls(SERVERS)).get("default.api.timeout.ms") == 30_000
    assert ConsumerSettings.of(for_calls(SERVERS)).get("default.api.timeout.ms") == 30_000
    assert ProducerSettings.of(for_producer(SERVERS)).get("max.block.ms") == 30_000


def test_a_timeout_holds_for_clients_of_all_kinds() -> None:
    settings = Connection(timeout=2.5).settings()

    assert AdminSettings.of(for_calls(settings)).get("default.api.timeout.ms") == 2_500
    assert ConsumerSettings.of(for_calls(settings)).get("default.api.timeout.ms") == 2_500
    assert ProducerSettings.of(for_producer(settings)).get("max.block.ms") == 2_500


def test_settings_of_the_user_win_over_the_rule() -> None:
    slow = {**SERVERS, "request.timeout.ms": "45000"}
    assert AdminSettings.of(for_calls(slow)).get("default.api.timeout.ms") == 45_000

    own = {**SERVERS, "default.api.timeout.ms": "90000", "max.block.ms": "80000"}
    assert AdminSettings.of(for_calls(own)).get("default.api.timeout.ms") == 90_000
    assert ProducerSettings.of(for_producer(own)).get("max.block.ms") == 80_000


def test_a_timeout_that_is_no_number_is_left_for_the_client_to_reject() -> None:
    with pytest.raises(ValueError, match=r"default\.api\.timeout\.ms"):
        AdminSettings.of(for_calls({**SERVERS, "default.api.timeout.ms": "soon"}))


@pytest.mark.parametrize(
    "line",
    [
        "topics list",
        "topics create orders",
        "groups list",
        "cluster id",
        "consume orders",
        "consume orders --group billing",
        "produce orders hello",
        "perf produce orders -n 1",
        "perf consume orders",
        "perf end-to-end orders -n 1",
        "perf transactions orders --count 1",
        "top",
    ],
)
def test_a_command_without_a_broker_fails_in_one_sentence_after_its_timeout(
    line: str, unreachable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main([*line.split(), "--bootstrap-server", unreachable, "--timeout", "0.2"])

    shown = capsys.readouterr()
    assert status == 1
    # A client of an earlier test may still warn about another address.
    (sentence,) = [each for each in shown.err.splitlines() if unreachable in each]
    assert f"no broker answers: {unreachable}: connection refused" in sentence
    assert "Traceback" not in shown.err


def test_a_warning_of_a_client_is_printed_like_all_messages(capsys: pytest.CaptureFixture[str]) -> None:
    show_warnings()
    show_warnings()

    logging.getLogger("penstock.client.reachability").warning("no broker has answered for 5 s")
    logging.getLogger("penstock.client.group").warning("group billing: it is odd")

    assert capsys.readouterr().err == (
        "penstock: no broker has answered for 5 s (Ctrl-C stops)\npenstock: group billing: it is odd\n"
    )
