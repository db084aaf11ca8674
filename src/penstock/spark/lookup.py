"""What the driver asks a cluster: which partitions a query reads, and the ends of them.

Each question is a call of an admin client that the process keeps. A cluster that does not answer is asked again, as the
options `fetchOffset.*` say; so a broker may be away for some time.

Between two questions topics may come and go. What goes is not there: a query that reads it by a pattern does without,
and one that had read of it before is told by `losses`. What comes is there with the next look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import errors
from penstock.client.cluster import TopicPartition
from penstock.spark import clients
from penstock.spark.errors import BadOption, CannotRead, SparkError
from penstock.spark.offsets import EARLIEST, Offsets
from penstock.spark.options import Options
from penstock.spark.sink import DECISIONS_TOPIC

if TYPE_CHECKING:
    from penstock.admin import ListedOffset, TopicDescription

T = TypeVar("T")

LOOKS_MAX = 5  # topics that go away one after another are not waited for to the last


class PartitionsGone(SparkError):
    """Partitions that were there a moment ago, or seemed to be."""

    def __init__(self, failed: errors.ItemsFailed) -> None:
        super().__init__(f"there is no {', no '.join(map(str, failed.failures))} any more")
        self.left: Mapping[TopicPartition, ListedOffset] = failed.results
        """What was told of the others."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a query reads, as it is now."""

    partitions: tuple[TopicPartition, ...]
    ids: dict[str, str]
    missing: tuple[str, ...] = ()
    """What was named and is not there: `topic orders`, or `partition orders-9`."""

    def check(self) -> None:
        """A query does not begin without something that it names."""
        if self.missing:
            raise BadOption(
                f"there is no {', no '.join(self.missing)}: create it, or let the option that names it name another"
            )


class Lookup:
    """The questions of one query. Holds no client, so that it can be pickled."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._found: Found | None = None
        self._found_until_s = 0.0
        chosen = [name for name in ("subscribe", "subscribePattern", "assign") if options.is_set(name)]
        if len(chosen) != 1:
            said = " and ".join(chosen) or "none of them"
            raise BadOption(
                f"one of the options subscribe, subscribePattern and assign says what to read; given: {said}"
            )

    def found(self) -> Found:
        """The partitions that there are now, or were some moments ago if the options allow that."""
        if self._found is not None and time.monotonic() < self._found_until_s:
            return self._found
        self._found = self._asked("partitions", self._find)
        self._found_until_s = time.monotonic() + self._options.get("partition.metadata.cache.ttl.ms") / 1000
        return self._found

    def look(self, then: Callable[[Found], T]) -> T:
        """What `then` makes of the partitions that there are; once more where some go away meanwhile."""
        for looks_left in reversed(range(LOOKS_MAX)):
            try:
                return then(self.found())
            except PartitionsGone:
                if not looks_left:
                    raise
                self._found = None
        raise AssertionError("the last look returns or raises")

    def reads(self, partition: TopicPartition) -> bool:
        """Whether the query would read such a partition, be it there or not."""
        assigned = self._options.get("assign")
        if assigned is not None:
            return partition.partition in assigned.get(partition.topic, ())
        return reads_topic(self._options, partition.topic)

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """Offsets for times, `EARLIEST` or `LATEST`; the latest of read_committed is the last stable one. Raises
        PartitionsGone where some of them are not there."""
        if not wanted:
            return {}
        return self._asked("offsets", lambda: self._list(wanted))

    def list_offsets_left(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The same for those that are there."""
        try:
            return self.list_offsets(wanted)
        except PartitionsGone as gone:
            return {partition: told.offset for partition, told in gone.left.items()}

    def mean_bytes(self, ends: Offsets) -> dict[TopicPartition, float]:
        """How large a record of each partition is on the average, as it lies on disk."""
        topics = sorted({partition.topic for partition in ends})
        first = self.list_offsets(dict.fromkeys(ends, EARLIEST))
        sizes = self._asked("sizes", lambda: self._sizes(topics))
        return {
            partition: sizes.get(partition, 0) / (end - first[partition])
            for partition, end in ends.items()
            if end > first[partition]
        }

    def _sizes(self, topics: list[str]) -> dict[TopicPartition, int]:
        """Of the largest replica of each partition: others may be behind."""
        sizes: dict[TopicPartition, int] = {}
        with clients.admin(self._options.settings) as admin:
            for directories in admin.describe_log_dirs(topics=topics).values():
                for replica in (each for directory in directories for each in directory.replicas):
                    if not replica.is_future:
                        sizes[replica.partition] = max(sizes.get(replica.partition, 0), replica.size_bytes)
        return sizes

    def _list(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        with clients.admin(self._options.settings) as admin:
            listed = admin.list_offsets(wanted, read_committed=self._options.is_committed_only)
        return {partition: told.offset for partition, told in listed.items()}

    def _find(self) -> Found:
        options = self._options
        with clients.admin(options.settings) as admin:
            assigned = options.get("assign")
            names = options.get("subscribe") or assigned
            if names is None:
                names = [topic.name for topic in admin.list_topics() if reads_topic(options, topic.name)]
            missing: tuple[str, ...] = ()
            described: Mapping[str, TopicDescription]
            try:
                described = admin.describe_topics(list(names)) if names else {}
            except errors.ItemsFailed as failed:
                unknown = _unknown(failed)
                if len(unknown) < len(failed.failures):
                    raise
                described = failed.results
                if not options.is_set("subscribePattern"):  # else it was deleted after it was listed
                    missing = tuple(f"topic {name}" for name in sorted(unknown))
        partitions = tuple(
            sorted(
                TopicPartition(name, each.index)
                for name, topic in described.items()
                for each in topic.partitions
                if assigned is None or each.index in assigned[name]
            )
        )
        if assigned is not None:
            named = {TopicPartition(name, index) for name in described for index in assigned[name]}
            missing += tuple(f"partition {each}" for each in sorted(named.difference(partitions)))
        ids = {name: topic.topic_id for name, topic in described.items() if topic.topic_id}
        return Found(partitions, ids, missing)

    def _asked(self, what: str, attempt: Callable[[], T]) -> T:
        """The answer to a question, which is asked again while the cluster is away."""
        left = retries = self._options.get("fetchOffset.numRetries")
        while True:
            try:
                return attempt()
            except errors.PenstockError as error:
                if isinstance(error, errors.BadConfiguration):
                    raise
                if left <= 0 or not _is_passing(error):
                    raise self._failure(what, error, asked=retries - left + 1) from _first(error)
            left -= 1
            time.sleep(self._options.get("fetchOffset.retryIntervalMs") / 1000)

    def _failure(self, what: str, error: errors.PenstockError, *, asked: int) -> SparkError:
        if isinstance(error, errors.ItemsFailed) and len(_unknown(error)) == len(error.failures):
            return PartitionsGone(error)
        options = self._options
        pattern = options.get("subscribePattern")
        topics = (
            f"topics like {pattern.pattern}"
            if pattern
            else ", ".join(options.get("subscribe") or options.get("assign"))
        )
        place = options.settings["bootstrap.servers"]
        return CannotRead(
            f"the {what} of {topics} are not to be had from {place}, asked {asked} times: {error}"
            " (options fetchOffset.numRetries and fetchOffset.retryIntervalMs say how often and when it is asked again)"
        )


def reads_topic(options: Options, topic: str) -> bool:
    """Whether a query with these options reads of such a topic. A pattern may match any part of a name, as in the
    connector, and is about the user's own topics: with the sink's log each batch would make the next one."""
    pattern = options.get("subscribePattern")
    if pattern is not None:
        return topic != DECISIONS_TOPIC and pattern.search(topic) is not None
    return topic in (options.get("subscribe") or options.get("assign"))


def _unknown(failed: errors.ItemsFailed) -> list[Any]:
    """What there is not, of all that failed."""
    return [
        item for item, error in failed.failures.items() if isinstance(error, errors.UnknownTopicOrPartition)
    ]


def _first(error: errors.PenstockError) -> Exception:
    """One of several errors: their tracebacks fill pages, and say the same."""
    return next(iter(error.failures.values())) if isinstance(error, errors.ItemsFailed) else error


def _is_passing(error: errors.PenstockError) -> bool:
    if isinstance(error, errors.ItemsFailed):
        return all(_is_passing(each) for each in error.failures.values())
    return error.retriable
