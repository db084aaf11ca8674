"""Loads the metadata of a consumer's topics before it reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from penstock.client import errors
from penstock.client.cluster import Cluster, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.tasks import supervised
from penstock.client.group.types import Subscription
from penstock.protocol.errors import ErrorCode

TOPIC_PATIENCE_MS = 5_000  # how long to wait for an unknown topic: it may just have been created


class TopicLookup:
    """One attempt at a time; `on_learned` is called after it, preceded by `on_failed` if it failed."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        on_learned: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self.is_done = False
        self._client = client
        self._on_learned = on_learned
        self._on_failed = on_failed
        self._task: asyncio.Task[None] | None = None

    def start(
        self, subscription: Subscription, partitions: Collection[TopicPartition], *, is_member: bool
    ) -> None:
        """Start, unless started already: topics by name, a pattern, or the topics of partitions. A member of a group
        only has to reach the cluster: its topics are the group's business."""
        if not self.is_done and self._task is None:
            self._task = supervised(
                self._run(subscription, partitions, is_member), "penstock-topics", self._on_failed
            )

    def forget(self) -> None:
        """The subscription has changed."""
        self.is_done = False
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(
        self, subscription: Subscription, partitions: Collection[TopicPartition], is_member: bool
    ) -> None:
        client = self._client
        try:
            if is_member:
                await client.refresh()
            elif subscription.pattern is not None:
                client.want(None)
                await client.refresh()
            else:
                names = subscription.topics or {each.topic for each in partitions}
                client.want(names)
                may_create = client.settings.get("allow.auto.create.topics")
                await client.topics(names, may_create=may_create, patience_ms=TOPIC_PATIENCE_MS)
                check_partitions(client.cluster, partitions)
            self.is_done = True
        except errors.PenstockError as error:
            self._on_failed(error)
        self._task = None
        self._on_learned()


def check_partitions(cluster: Cluster, partitions: Collection[TopicPartition]) -> None:
    """Raise an error for partitions that do not exist."""
    for partition in partitions:
        topic = cluster.topics.get(partition.topic)
        if topic is not None and topic.partitions and cluster.partition(partition) is None:
            count = len(topic.partitions)
            message = f"the topic has {count} partition{'s' if count != 1 else ''}"
            unknown = errors.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message, about=partition)
            unknown.advice = "partitions are numbered from 0"  # the topic exists
            raise unknown
