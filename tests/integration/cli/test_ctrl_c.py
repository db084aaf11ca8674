"""Ctrl-C ends a command at once, also while a broker hangs, and it reports what was really done."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers import PenstockBroker
from harness.waiting import wait_until
from integration.cli.conftest import Start
from penstock import Consumer, TopicPartition

AT_ONCE_SECONDS = 45.0  # on any machine; closing a client in order would take a minute

pytestmark = pytest.mark.penstock_only("tests Penstock's command line")


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[PenstockBroker]:
    """A broker that the test can freeze."""
    broker = PenstockBroker(tmp_path / "broker", settings={"group.initial.rebalance.delay.ms": "0"})
    broker.start()
    yield broker
    assert broker.process is not None
    broker.process.send_signal(signal.SIGCONT)
    broker.close()


def type_line(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def freeze(broker: PenstockBroker) -> None:
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)


def press_ctrl_c(process: subprocess.Popen[str]) -> str:
    os.killpg(process.pid, signal.SIGINT)
    _, output = process.communicate(timeout=AT_ONCE_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in output
    return output


def end_offset(broker: PenstockBroker, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        return consumer.end_offsets([partition])[partition] if topic in consumer.topics() else 0


def test_only_acknowledged_records_are_reported_as_written(frozen: PenstockBroker, start: Start) -> None:
    process = start(frozen, "produce", "typed")
    type_line(process, "in time")
    wait_until(lambda: end_offset(frozen, "typed") == 1, "the first record is written")
    freeze(frozen)
    type_line(process, "too late")

    output = press_ctrl_c(process)

    assert "stopped: wrote 1 record (7 bytes) to typed" in output


@pytest.mark.parametrize("group", [[], ["--group", "readers"]])
def test_a_reader_does_not_wait_for_a_frozen_broker(
    group: list[str], frozen: PenstockBroker, start: Start
) -> None:
    writer = start(frozen, "produce", "read", "a")
    assert writer.wait(AT_ONCE_SECONDS) == 0
    writer.communicate()
    process = start(frozen, "consume", "read", "--follow", "--format", "raw", *group)
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    freeze(frozen)

    assert press_ctrl_c(process).endswith("penstock: stopped: read 1 record\n")
