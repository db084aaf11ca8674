"""What the driver asks a cluster: which partitions a query reads, and their first and last offsets.

Each request uses an admin client of the pool. If the cluster does not answer, the request is retried as the options
`fetchOffset.*` say, so a broker may be unavailable for some time.

Topics may be created and deleted between two requests. A query with a pattern skips a deleted topic; if it had read the
topic before, `losses` reports it. The next lookup finds new topics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import errors
from penstock.client.cluster import TopicPartition
from penstock.protocol.constants import EARLIEST_TIMESTAMP
from penstock.spark import clients
from penstock.spark.errors import BadOption, CannotRead, SparkError
from penstock.spark.offsets import Offsets
from penstock.spark.options import Options
from penstock.spark.sink import DECISIONS_TOPIC

if TYPE_CHECKING:
    from penstock.admin import ListedOffset, TopicDescription

T = TypeVar("T")

LOOKS_MAX = 5  # enough for topics that are deleted one after another


class PartitionsDeleted(SparkError):
    """Partitions that existed a moment ago, or seemed to."""

    def __init__(self, failed: errors.ItemsFailed) -> None:
        super().__init__(f"these partitions do not exist any more: {', '.join(map(str, failed.failures))}")
        self.left: Mapping[TopicPartition, ListedOffset] = failed.results
        """The offsets of the other partitions."""


@dataclass(frozen=True, slots=True)
class Found:
    """The partitions that a query reads, at this moment."""

    partitions: tuple[TopicPartition, ...]
    ids: dict[str, str]
    missing: tuple[str, ...] = ()
    """Named but nonexistent: `topic orders`, or `partition orders-9`."""

    def check(self) -> None:
        """Reject a query that names something that does not exist."""
        if self.missing:
            raise BadOption(
                f"not found: {', '.join(self.missing)}; create it, or correct the option that names it"
            )


class Lookup:
    """The lookups of one query. Holds no client, so that it can be pickled."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._found: Found | None = None
        self._found_until_s = 0.0
        chosen = [name for name in ("subscribe", "subscribePattern", "assign") if options.is_set(name)]
        if len(chosen) != 1:
            given = " and ".join(chosen) or "none"
            raise BadOption(
                f"set exactly one of the options subscribe, subscribePattern and assign; given: {given}"
            )

    def found(self) -> Found:
        """The current partitions, or those of a moment ago if `partition.metadata.cache.ttl.ms` allows it."""
        if self._found is not None and time.monotonic() < self._found_until_s:
            return self._found
        self._found = self._ask("partitions", self._find)
        self._found_until_s = time.monotonic() + self._options.get("partition.metadata.cache.ttl.ms") / 1000
        return self._found

    def look(self, then: Callable[[Found], T]) -> T:
        """Call `then` with the current partitions; again if some are deleted meanwhile."""
        for looks_left in reversed(range(LOOKS_MAX)):
            try:
                return then(self.found())
            except PartitionsDeleted:
                if not looks_left:
                    raise
                self._found = None
        raise AssertionError("the last look returns or raises")

    def reads(self, partition: TopicPartition) -> bool:
        """Whether the query would read this partition if it existed."""
        assigned = self._options.get("assign")
        if assigned is not None:
            return partition.partition in assigned.get(partition.topic, ())
        return reads_topic(self._options, partition.topic)

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """Offsets for timestamps, `EARLIEST_TIMESTAMP` or `LATEST_TIMESTAMP`; with read_committed, the latest is the
        last stable offset. Raises PartitionsDeleted if some do not exist."""
        if not wanted:
            return {}
        return self._ask("offsets", lambda: self._list(wanted))

    def list_offsets_left(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The same for the partitions that exist."""
        try:
            return self.list_offsets(wanted)
        except PartitionsDeleted as deleted:
            return {partition: listed.offset for partition, listed in deleted.left.items()}

    def mean_bytes(self, ends: Offsets) -> dict[TopicPartition, float]:
        """The average size of a record of each partition on disk."""
        topics = sorted({partition.topic for partition in ends})
        first = self.list_offsets(dict.fromkeys(ends, EARLIEST_TIMESTAMP))
        sizes = self._ask("sizes", lambda: self._sizes(topics))
        return {
            partition: sizes.get(partition, 0) / (end - first[partition])
            for partition, end in ends.items()
            if end > first[partition]
        }

    def _sizes(self, topics: list[str]) -> dict[TopicPartition, int]:
        """The size of the largest replica of each partition: others may lag."""
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
        return {partition: each.offset for partition, each in listed.items()}

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

    def _ask(self, what: str, attempt: Callable[[], T]) -> T:
        """Call `attempt`, and retry while the cluster is unavailable."""
        left = retries = self._options.get("fetchOffset.numRetries")
        while True:
            try:
                return attempt()
            except errors.PenstockError as error:
                if isinstance(error, errors.BadConfiguration):
                    raise
                if left <= 0 or not _is_retriable(error):
                    raise self._failure(what, error, asked=retries - left + 1) from _first(error)
            left -= 1
            time.sleep(self._options.get("fetchOffset.retryIntervalMs") / 1000)

    def _failure(self, what: str, error: errors.PenstockError, *, asked: int) -> SparkError:
        if isinstance(error, errors.ItemsFailed) and len(_unknown(error)) == len(error.failures):
            return PartitionsDeleted(error)
        options = self._options
        pattern = options.get("subscribePattern")
        topics = (
            f"topics matching {pattern.pattern}"
            if pattern
            else ", ".join(options.get("subscribe") or options.get("assign"))
        )
        place = options.settings["bootstrap.servers"]
        return CannotRead(
            f"cannot get the {what} of {topics} from {place} after {asked} attempts: {error}"
            " (the options fetchOffset.numRetries and fetchOffset.retryIntervalMs control retries)"
        )


def reads_topic(options: Options, topic: str) -> bool:
    """Whether a query with these options reads this topic. A pattern may match any part of a name, as in Spark's
    connector. It never matches the sink's decision topic, which would make each batch cause the next one."""
    pattern = options.get("subscribePattern")
    if pattern is not None:
        return topic != DECISIONS_TOPIC and pattern.search(topic) is not None
    return topic in (options.get("subscribe") or options.get("assign"))


def _unknown(failed: errors.ItemsFailed) -> list[Any]:
    """The failed items that do not exist."""
    return [
        item for item, error in failed.failures.items() if isinstance(error, errors.UnknownTopicOrPartition)
    ]


def _first(error: errors.PenstockError) -> Exception:
    """One of several errors: their tracebacks fill pages and say the same."""
    return next(iter(error.failures.values())) if isinstance(error, errors.ItemsFailed) else error


def _is_retriable(error: errors.PenstockError) -> bool:
    if isinstance(error, errors.ItemsFailed):
        return all(_is_retriable(each) for each in error.failures.values())
    return error.retriable
