"""Where a stage starts without a checkpoint: by the `reset` of its sources, per topic if they differ.

Internal topics are read from their beginning: no record may be skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from penstock.client.cluster import TopicPartition
from penstock.spark import clients
from penstock.streams.compile import names
from penstock.streams.compile.cut import Stage
from penstock.streams.compile.tasks import Program

EARLIEST, LATEST = -2, -1

Places = dict[str, int]
"""By partition number, as in JSON."""


class Cluster(Protocol):
    """What is asked of the cluster."""

    def matching(self, pattern: str) -> Mapping[str, int]:
        """Topics whose whole name matches a pattern, with their partitions."""

    def since(self, topic: str, partitions: int, ago: timedelta) -> Places:
        """The first offsets of records that are no older."""


def starting_offsets(stage: Stage, program: Program, common: str, cluster: Cluster) -> str:
    """The option `startingOffsets`; `common` is the app's `auto.offset.reset`."""
    resets = {source: common if source.reset is None else source.reset for source in stage.sources}
    own = [names.internal(program.application_id, topic) for topic in stage.internal_topics]
    kinds: set[Any] = set(resets.values()) | ({"earliest"} if own else set())
    if len(kinds) == 1 and not any(isinstance(kind, timedelta) for kind in kinds):
        return str(kinds.pop())
    places: dict[str, Places] = {}
    for source, reset in resets.items():
        topics = {topic: program.topics[topic] for topic in source.topics}
        if source.pattern is not None:
            topics |= cluster.matching(source.pattern)
        for topic, count in topics.items():
            if isinstance(reset, timedelta):
                places[topic] = cluster.since(topic, count, reset)
            else:
                places[topic] = _all(count, EARLIEST if reset == "earliest" else LATEST)
    places |= {topic: _all(program.topics[topic], EARLIEST) for topic in own}
    return json.dumps(places)


class RealCluster:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings

    def matching(self, pattern: str) -> Mapping[str, int]:
        with clients.admin(self._settings) as admin:
            found = [listing.name for listing in admin.list_topics() if re.fullmatch(pattern, listing.name)]
            described = admin.describe_topics(found) if found else {}
        return {topic: len(topic_description.partitions) for topic, topic_description in described.items()}

    def since(self, topic: str, partitions: int, ago: timedelta) -> Places:
        """Without such records, the current end: records that arrive while the query starts are newer."""
        wanted = [TopicPartition(topic, index) for index in range(partitions)]
        with clients.admin(self._settings) as admin:
            ends = admin.list_offsets(dict.fromkeys(wanted, "latest"))
            found = admin.list_offsets(dict.fromkeys(wanted, datetime.now(UTC) - ago))
        offsets = {partition: listed.offset for partition, listed in found.items()}
        return {
            str(partition.partition): ends[partition].offset if offset < 0 else offset
            for partition, offset in offsets.items()
        }


def _all(count: int, offset: int) -> Places:
    return {str(index): offset for index in range(count)}
