"""Peers that do the same wrong thing all day are in the log, and do not fill it."""

from __future__ import annotations

import pytest

from penstock.net.peer_faults import HOSTS_MAX, LINES_PER_HOST_MAX, WINDOW_S, PeerFaults


def test_the_same_fault_of_a_host_is_logged_once_in_a_window(caplog: pytest.LogCaptureFixture) -> None:
    faults = PeerFaults()

    for second in range(100):
        faults.report(f"10.0.0.7:{second}", "10.0.0.7", "it speaks HTTP", now=float(second))
    faults.report("10.0.0.8:1", "10.0.0.8", "it speaks HTTP", now=99.0)

    assert [record.getMessage() for record in caplog.records] == [
        "closing the connection from 10.0.0.7:0: it speaks HTTP",
        "closing the connection from 10.0.0.7:60: it speaks HTTP (59 similar lines about 10.0.0.7 were suppressed)",
        "closing the connection from 10.0.0.8:1: it speaks HTTP",
    ]


def test_a_host_with_a_new_fault_each_time_gets_a_few_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = PeerFaults()

    for number in range(100):
        faults.report("10.0.0.7:1", "10.0.0.7", f"API key {number} is not served", now=0.0)

    assert len(caplog.records) == LINES_PER_HOST_MAX


def test_hosts_are_forgotten_beyond_a_limit() -> None:
    faults = PeerFaults()

    for number in range(2 * HOSTS_MAX):
        faults.report("peer", f"host {number}", "it speaks TLS", now=number * WINDOW_S)

    assert len(faults._hosts) == HOSTS_MAX
