"""Clients of Python side by side: Penstock's own, confluent-kafka, aiokafka and kafka-python, on one Penstock broker.

Here the peer is a client and not a broker, so a line has a figure for each of them and its ratio is Penstock's over the
best of the others. Each runs in its own process (`bench.client_runs`), in turn, so that noise affects all alike.
"""

from __future__ import annotations

import json
import subprocess
import sys

from bench.line import Group, Line
from bench.peers import ROOT, Peer
from bench.wire import Wire, new_name

OURS = ("penstock", "penstock.aio")
OTHERS = ("confluent-kafka", "aiokafka", "kafka-python")
PRODUCERS = OURS + OTHERS
RUN_LIMIT_S = 300


def produce(peer: Peer) -> dict[str, float]:
    """Records per second from Python objects, until the last acknowledgement; and from Arrow columns, which no other
    client supports, compared with the objects of the others."""
    figures = {}
    runs = [(PRODUCE, client) for client in PRODUCERS] + [(TABLES, client) for client in OURS]
    for what, client in runs:
        topic = new_name("client")
        with Wire(peer.port) as wire:
            wire.create_topic(topic)
        figures[f"{what}, {client}"] = run(what, client, peer.port, topic)
        with Wire(peer.port) as wire:
            wire.delete_topic(topic)
    best = max(figures[f"{PRODUCE}, {client}"] for client in OTHERS)
    for what in (PRODUCE, TABLES):
        figures[f"{what}, over the best"] = figures[f"{what}, penstock"] / best
    return figures


def latency(peer: Peer) -> dict[str, float]:
    """One record, sent at once and waited for: the median."""
    figures = {}
    topic = new_name("client")
    with Wire(peer.port) as wire:
        wire.create_topic(topic)
        for client in PRODUCERS:
            figures[f"{ONE}, {client}"] = run(ONE, client, peer.port, topic)
        wire.delete_topic(topic)
    best = min(figures[f"{ONE}, {client}"] for client in OTHERS)
    figures[f"{ONE}, over the best"] = figures[f"{ONE}, penstock"] / best
    return figures


def run(what: str, client: str, port: int, topic: str) -> float:
    """One measurement in a fresh process; the figure that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.client_runs", what, client, str(port), topic],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{client} could not {what}:\n{done.stderr[-3000:]}")
    figure: float = json.loads(done.stdout.splitlines()[-1])
    return figure


PRODUCE = "produce from objects"
TABLES = "produce from Arrow"
ONE = "one record, wait for it"

CLIENT_LINES = [
    Group(
        "clients",
        produce,
        [
            *(Line(f"{PRODUCE}, {client}", "records/s", True) for client in PRODUCERS),
            Line(f"{PRODUCE}, over the best", "x", True, 1.0),
            *(Line(f"{TABLES}, {client}", "records/s", True) for client in OURS),
            Line(f"{TABLES}, over the best", "x", True, 3.0),
        ],
        5,
        between_clients=True,
    ),
    Group(
        "clientlatency",
        latency,
        [
            *(Line(f"{ONE}, {client}", "µs", False) for client in PRODUCERS),
            Line(f"{ONE}, over the best", "x", False),
        ],
        5,
        between_clients=True,
    ),
]
