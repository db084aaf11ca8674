"""The queries under torture: the input of each, and the output that must be there in the end. No I/O.

The expected output is a function of the input topics' records, so a feeder that is interrupted does no harm. A run
waits until `missing` is empty; `wrong` must be empty at any moment, also in the middle of a run.

A read_committed reader checks more than the last values:

- stateless, stateful: every number once.
- updating: every count of a number once, and none after a higher one.
- counting: updates of a word only raise its count, and its changelog has the same updates as its output.
- joining: a record is matched or unmatched, never both, never twice. Behind an internal topic, each result moves a
  total by one step, and no step is left out: the totals list what was added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

PARTITION_COUNT = 3
TWICE = 0.2  # of the numbers, where a query drops or counts
PROGRAMS = Path(__file__).parent


class Sent(NamedTuple):
    topic: str
    value: str
    key: str | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class Row(NamedTuple):
    """A committed record. The rows of a partition, and so of a key, are in order."""

    key: bytes | None
    value: bytes
    timestamp_ms: int = 0
    partition: int = 0
    offset: int = 0

    @property
    def text(self) -> str:
        return self.value.decode()

    @property
    def name(self) -> str:
        return (self.key or b"").decode()


Found = Mapping[str, Sequence[Row]]


class Kind(ABC):
    """One query."""

    name: ClassVar[str]
    meaning: ClassVar[str]
    app: ClassVar[Path | None] = None
    """The program of a streams application; other queries are in `spark_query`."""
    inputs: ClassVar[tuple[str, ...]]
    outputs: ClassVar[tuple[str, ...]]
    made_by_query: ClassVar[tuple[str, ...]] = ()
    """The output topics that the query creates itself."""

    @abstractmethod
    def feed(self, number: int, rng: Random) -> Iterator[Sent]:
        """The input of one step."""

    def last_records(self, number: int) -> Iterator[list[Sent]]:
        """The last input, each part when the output of everything before it is complete."""
        yield from ()

    @abstractmethod
    def missing(self, found: Found) -> list[str]:
        """Output that is missing."""

    @abstractmethod
    def wrong(self, found: Found) -> list[str]:
        """Output that is wrong."""


class Once(Kind):
    """Numbers that come out unchanged, and once."""

    twice: ClassVar[float]

    def feed(self, number: int, rng: Random) -> Iterator[Sent]:
        for _ in range(2 if rng.random() < self.twice else 1):
            yield Sent(self.inputs[0], str(number), partition=rng.randrange(PARTITION_COUNT))

    def missing(self, found: Found) -> list[str]:
        sent, written = (_texts(found, topic) for topic in (*self.inputs, *self.outputs))
        return [f"{number} is missing" for number in sent if number not in written]

    def wrong(self, found: Found) -> list[str]:
        sent, written = (_texts(found, topic) for topic in (*self.inputs, *self.outputs))
        faults = [f"{number} is there {count} times" for number, count in written.items() if count > 1]
        return faults + [f"{number} was never sent" for number in written if number not in sent]


class Stateless(Once):
    name, meaning = "stateless", "rows that pass through"
    inputs, outputs = ("stateless-in",), ("stateless-out",)
    twice = 0.0


class Stateful(Once):
    name, meaning = "stateful", "dropDuplicates"
    inputs, outputs = ("stateful-in",), ("stateful-out",)
    twice = TWICE


class Updating(Once):
    """`number:count`, in update mode."""

    name, meaning = "updating", "groupBy().count() in update mode, by to_topics"
    inputs, outputs = ("updating-in",), ("updating-out",)
    twice = TWICE

    def missing(self, found: Found) -> list[str]:
        written = _texts(found, "updating-out")
        last = (f"{number}:{count}" for number, count in _texts(found, "updating-in").items())
        return [f"{entry} is missing" for entry in last if entry not in written]

    def wrong(self, found: Found) -> list[str]:
        sent = _texts(found, "updating-in")
        faults = []
        for number, updates in _texts_by_key(found["updating-out"]).items():
            counts = [int(entry.partition(":")[2]) for entry in updates]
            faults += [f"{number}: {fault}" for fault in _not_rising(counts)]
            if counts[-1] > sent[number]:
                faults.append(f"{number} was sent {sent[number]} times and counted {counts[-1]}")
        return faults


class Counting(Kind):
    """Words of lines, counted by a streams application: a fold over Arrow columns, and its changelog."""

    name, meaning = "counting", "a streams App that counts words, with its changelog"
    app = PROGRAMS / "spark_counting.py"
    inputs = ("counting-in",)
    outputs = ("counting-out", "counting-counts-changelog")
    made_by_query = ("counting-counts-changelog",)
    words = tuple(f"word{number}" for number in range(300))

    def feed(self, number: int, rng: Random) -> Iterator[Sent]:
        few = rng.choices(self.words[:10], k=2)  # in every batch
        line = " ".join([*few, *rng.choices(self.words, k=3)])
        yield Sent("counting-in", line, partition=rng.randrange(PARTITION_COUNT))

    def missing(self, found: Found) -> list[str]:
        sent = self._sent(found)
        return [
            f"{topic}: {word} was sent {count} times and counted {last.get(word, 0)}"
            for topic in self.outputs
            for last in [{row.name: _number(row) for row in found[topic]}]
            for word, count in sent.items()
            if last.get(word, 0) < count
        ]

    def wrong(self, found: Found) -> list[str]:
        output, changelog = (_updates(found[topic]) for topic in self.outputs)
        faults = [f"{word}: {fault}" for word, updates in output.items() for fault in _not_rising(updates)]
        sent = self._sent(found)
        faults += [
            f"{word} was sent {sent[word]} times and counted {updates[-1]}"
            for word, updates in output.items()
            if updates[-1] > sent[word]
        ]
        for word in output | changelog:
            ahead, behind = output.get(word, []), changelog.get(word, [])
            shared = min(len(ahead), len(behind))  # the two topics were not read at the same moment
            if ahead[:shared] != behind[:shared]:
                faults.append(f"{word}: the changelog differs from the output")
        return faults

    def _sent(self, found: Found) -> Counter[str]:
        return Counter(word for row in found["counting-in"] for word in row.text.split())


class Joining(Kind):
    """Two streams joined in a window, and totals of the results, with a topic between them.

    Time is that of the numbers, not of a clock, so that results do not depend on when a query was killed.
    """

    name, meaning = (
        "joining",
        "a streams App: a windowed left join, repartitioned, folded by a user's function",
    )
    app = PROGRAMS / "spark_joining.py"
    inputs = ("joining-left", "joining-right")
    outputs = ("joining-out", "joining-totals", "joining-totals-changelog")
    made_by_query = ("joining-totals-changelog",)

    STEP_MS = 10
    WITHIN_MS = 1_000
    GRACE_MS = 60_000  # 6,000 numbers: partitions are read evenly and never differ that much
    BEGIN_MS = 1_700_000_000_000
    TOTALS = 7

    def feed(self, number: int, rng: Random) -> Iterator[Sent]:
        """Either side is some steps late, so that either may be first."""
        for late in range(50):
            each = number - late
            if each >= 0 and each % 31 == late and each % 11:
                yield self._left(each)
            if each >= 0 and each % 50 == late and each % 5:
                yield self._right(each)

    def last_records(self, number: int) -> Iterator[list[Sent]]:
        """A pair at the end of every partition, so that everything before it is read; then records that close all
        windows."""
        ends = [(number + partition, partition) for partition in range(PARTITION_COUNT)]
        yield [
            side(each)._replace(partition=partition)
            for each, partition in ends
            for side in (self._left, self._right)
        ]
        later = number + PARTITION_COUNT + (self.WITHIN_MS + self.GRACE_MS) // self.STEP_MS + 1
        yield [self._right(later)]

    def missing(self, found: Found) -> list[str]:
        pairs, alone = self._expected(found)
        made = {self._number_of(row) for row in found["joining-out"]}
        added, logged = (
            {step for steps in self._steps(found[topic]).values() for step in steps}
            for topic in ("joining-totals", "joining-totals-changelog")
        )
        return [
            f"{topic}: {number} is missing"
            for topic, there in zip(self.outputs, (made, added, logged), strict=True)
            for number in sorted((pairs | alone) - there)
        ]

    def wrong(self, found: Found) -> list[str]:
        faults = [
            f"{entry} is there {count} times"
            for entry, count in _texts(found, "joining-out").items()
            if count > 1
        ]
        pairs, _ = self._expected(found)
        lefts = {int(row.name) for row in found["joining-left"]}
        for row in found["joining-out"]:
            number = self._number_of(row)
            if number not in lefts or row.text != f"{number}+{number if number in pairs else None}":
                faults.append(f"{number} came out as {row.text}")
        for topic in self.outputs[1:]:
            faults += [f"{topic}: {fault}" for fault in self._faults_of_totals(found[topic])]
        return faults

    def _faults_of_totals(self, rows: Sequence[Row]) -> list[str]:
        faults = []
        for name, updates in _texts_by_key(rows).items():
            counts = [int(entry.partition(":")[0]) for entry in updates]
            if counts != list(range(1, len(updates) + 1)):
                at = next(at for at, count in enumerate(counts) if count != at + 1)
                faults.append(
                    f"total {name} goes {counts[max(0, at - 2) : at + 2]}, one step should be one more"
                )
        for name, steps in self._steps(rows).items():
            faults += [f"total {name} has {n} {c} times" for n, c in Counter(steps).items() if c > 1]
            faults += [f"total {name} has {n}" for n in steps if n % self.TOTALS != int(name)]
        return faults

    def _steps(self, rows: Sequence[Row]) -> dict[str, list[int]]:
        """What was added to each total, in order. A total is `count:sum`."""
        sums = {
            name: [0, *(int(entry.partition(":")[2]) for entry in updates)]
            for name, updates in _texts_by_key(rows).items()
        }
        return {
            name: [after - before for before, after in pairwise(updates)] for name, updates in sums.items()
        }

    def _expected(self, found: Found) -> tuple[set[int], set[int]]:
        """Matched numbers, and those that are unmatched in the end."""
        lefts, rights = ({int(row.name) for row in found[topic]} for topic in self.inputs)
        now_ms = max((row.timestamp_ms for topic in self.inputs for row in found[topic]), default=0)
        alone = {
            number
            for number in lefts - rights
            if self._at_ms(number) + self.WITHIN_MS + self.GRACE_MS < now_ms
        }
        return lefts & rights, alone

    def _number_of(self, row: Row) -> int:
        return int(row.name)

    def _left(self, number: int) -> Sent:
        return Sent("joining-left", str(number), key=str(number), timestamp_ms=self._at_ms(number))

    def _right(self, number: int) -> Sent:
        half = self.STEP_MS // 2
        return Sent("joining-right", str(number), key=str(number), timestamp_ms=self._at_ms(number) + half)

    def _at_ms(self, number: int) -> int:
        return self.BEGIN_MS + number * self.STEP_MS


KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (Stateless(), Stateful(), Updating(), Counting(), Joining())
}


def _texts(found: Found, topic: str) -> Counter[str]:
    return Counter(row.text for row in found[topic])


def _texts_by_key(rows: Sequence[Row]) -> dict[str, list[str]]:
    updates: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        updates[row.name].append(row.text)
    return updates


def _updates(rows: Sequence[Row]) -> dict[str, list[int]]:
    updates: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        updates[row.name].append(_number(row))
    return updates


def _number(row: Row) -> int:
    """As Kafka serializes a Long."""
    return int.from_bytes(row.value, "big", signed=True)


def _not_rising(updates: Sequence[int]) -> list[str]:
    return [f"{after} follows {before}" for before, after in pairwise([0, *updates]) if after <= before]
