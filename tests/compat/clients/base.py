"""What a client under test can do, so that one test serves them all.

Each client comes as a `Producer` and a `Consumer`. Both take all their work at once: a program that takes a
second to start (a JVM) then starts once. `expected` says what of a sample survives this producer: kcat, for
one, cannot set a timestamp.
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
        """The sample as a consumer has to find it."""
        ...

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        """Writes each job to partition 0 of its topic, and fails unless all is acknowledged."""
        ...


class Consumer(Protocol):
    name: str
    codecs: tuple[str, ...]
    reads_headers: bool

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        """Reads partition 0 of each topic from its beginning, as many records as given."""
        ...


ALL_CODECS = CODECS
READ_SECONDS = 60.0
