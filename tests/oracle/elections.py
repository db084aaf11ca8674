"""Asks Apache Kafka's own controller code for the next state of partitions, in one short Java process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle import jars
from oracle.java import RUN_SECONDS_MAX
from penstock.controller.elections import Change, Electorate, change_partition
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.types import Uuid

PROGRAM = Path(__file__).with_name("Elections.java")
TOPIC_ID = Uuid(bytes(15) + b"\x09")


@dataclass(frozen=True, slots=True)
class Case:
    partition: PartitionImage
    change: Change
    alive: Collection[int]
    electorate: Electorate

    def line(self) -> str:
        """The words that Elections.java reads."""
        partition, change, electorate = self.partition, self.change, self.electorate
        return " ".join(
            (
                _text(partition.replicas),
                _text(partition.isr),
                _text(partition.eligible_leaders),
                _text(partition.last_known_leaders),
                _text(partition.adding_replicas),
                _text(partition.removing_replicas),
                str(partition.leader),
                str(int(partition.is_recovering)),
                _text(sorted(self.alive)),
                str(electorate.min_isr),
                str(electorate.has_eligible_leaders).lower(),
                electorate.election.name,
                _text(change.isr),
                _text(change.replicas),
                _text(change.adding),
                _text(change.removing),
                _text(sorted(change.unclean_shutdown)),
                "-" if change.leader_recovery_state is None else str(change.leader_recovery_state),
            )
        )

    def ours(self) -> PartitionChangeRecord | None:
        return change_partition(self.partition, TOPIC_ID, 0, change=self.change, electorate=self.electorate)


def record_text(record: PartitionChangeRecord | None) -> str:
    """The record as Elections.java prints it."""
    if record is None:
        return "none"
    return " ".join(
        (
            _text(record.isr),
            str(record.leader),
            _text(record.replicas),
            _text(record.removing_replicas),
            _text(record.adding_replicas),
            str(record.leader_recovery_state),
            _text(record.eligible_leader_replicas),
            _text(record.last_known_elr),
        )
    )


def kafka_answers(cases: Sequence[Case]) -> list[str]:
    finished = subprocess.run(
        [
            "java",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{jars.libs()}{os.sep}*",
            str(PROGRAM),
        ],
        input="\n".join(case.line() for case in cases) + "\n",
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answers = [line for line in finished.stdout.splitlines() if line]
    assert len(answers) == len(cases), finished.stderr
    return answers


def _text(numbers: Sequence[int] | None) -> str:
    return "-" if numbers is None else "[" + ",".join(map(str, numbers)) + "]"
