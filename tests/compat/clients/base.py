"""The interface of clients under test, so that one test serves them all.

Each client has a `Producer` and a `Consumer`. Both take all their work at once, so that a program that starts slowly
(a JVM) starts once. `expected` is what remains of a sample with this producer: kcat, for example, cannot set a
timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.samples import CODECS, Sample


@dataclass(frozen=True, slots=True)
class WriteJob:
    topic: str
    codec: str
    records: Sequence[Sample]


class Producer(Protocol):
    name: str
    codecs: tuple[str, ...]

    def expected(self, sample: Sample) -> Sample:
        """The sample as a consumer must read it."""
        ...

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        """Write each job to partition 0 of its topic; fail unless all records are acknowledged."""
        ...


class Consumer(Protocol):
    name: str
    codecs: tuple[str, ...]
    reads_headers: bool

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        """Read the given number of records from the beginning of partition 0 of each topic."""
        ...


ALL_CODECS = CODECS
READ_SECONDS = 60.0
