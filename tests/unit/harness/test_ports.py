"""Ports for the processes of a test run."""

from __future__ import annotations

from harness.brokers import free_port


def test_no_port_is_given_twice() -> None:
    """Two nodes of one cluster got the same port, about once in 5,000 clusters."""
    ports = [free_port() for _ in range(100)]

    assert len(set(ports)) == len(ports)
