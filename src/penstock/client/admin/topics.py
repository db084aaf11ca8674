"""Topics: create, delete, list, describe, and add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls, Call
from penstock.client.admin.configs import ConfigEntry
from penstock.client.admin.operations import AclOperation
from penstock.client.admin.results import Results, only

PAGE_PARTITIONS = 2000
"""The number of partitions in a page of descriptions: the default maximum of Kafka's brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. None means the cluster's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    replicas: Sequence[Sequence[int]] | None = None
    """The brokers of each partition, the preferred leader first. It also sets the number of partitions and replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A created topic, or with `validate_only` what it would be. Brokers before Kafka 2.4 return only the name."""

    name: str
    topic_id: str | None = None
    """As Kafka's tools show it."""
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, ConfigEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """The total number of partitions of a topic, and optionally the brokers of the new ones."""

    total: int
    replicas: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """One topic in the result of `list_topics`."""

    name: str
    topic_id: str | None
    partitions: int
    is_internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition and its replicas, by broker id."""

    index: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()
    eligible_leaders: tuple[int, ...] | None = None
    """Eligible leader replicas (KIP-966); None if the broker does not say."""
    last_known_eligible: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with its partitions."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def replication_factor(self) -> int:
        """Of the first partition, as in Kafka's tools."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class TopicsAdmin(AdminCalls):
    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        *,
        replicas: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> CreatedTopic:
        """Create a topic; with `validate_only` only check it and return what it would be."""
        topic = NewTopic(
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            config=config or {},
            replicas=replicas,
        )
        return await only(self.create_topics([topic], validate_only=validate_only, timeout=timeout))

    async def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create several topics. Each succeeds or fails by itself."""
        wanted = {topic.name: topic for topic in map(_new_topic, topics)}
        call = self._begin("create topics", timeout)

        async def attempt(names: list[str]) -> Results[str, CreatedTopic]:
            request = wire.topics.create_request(
                [wanted[name] for name in names],
                timeout_ms=call.request_ms(),
                validate_only=validate_only,
            )
            return wire.topics.read_created(await call.ask_controller(request))

        created = await call.run_each(wanted, attempt, is_repeatable=False)
        if not validate_only:
            self._recent_topics.add(created)
        return created

    async def delete_topic(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a topic and all its records, by name or id. This cannot be undone."""
        await only(self.delete_topics([name], timeout=timeout))

    async def delete_topics(
        self, names: Iterable[str] = (), *, ids: Iterable[str] = (), timeout: float | None = None
    ) -> dict[str, None]:
        """Delete topics and all their records, by name or by id. This cannot be undone."""
        by_name, by_id = list(names), set(ids)
        call = self._begin("delete topics", timeout)

        async def attempt(wanted: list[str]) -> Results[str, None]:
            request = wire.topics.delete_request(
                names=[topic for topic in wanted if topic not in by_id],
                ids=[topic for topic in wanted if topic in by_id],
                timeout_ms=call.request_ms(),
            )
            return wire.topics.read_deleted(await call.ask_controller(request), by_id=by_id)

        self._recent_topics.discard(by_name)
        try:
            return await call.run_each([*by_name, *sorted(by_id)], attempt, is_repeatable=False)
        except errors.ItemsFailed as several:
            for each in several.exceptions:
                if isinstance(each, errors.UnknownTopicOrPartition):
                    each.advice = "check the spelling of its name"  # not: create it
            raise

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> list[TopicListing]:
        """All topics that the caller is allowed to see, by name; internal ones only with `include_internal`."""
        call = self._begin("list topics", timeout)
        response = await call.ask(wire.topic_descriptions.list_request())
        listed = wire.topic_descriptions.read_listed(response)
        return [topic for topic in listed if include_internal or not topic.is_internal]

    async def describe_topic(
        self, name: str, *, include_authorized_operations: bool = False, timeout: float | None = None
    ) -> TopicDescription:
        """Partitions, leaders and replicas of a topic."""
        return await only(
            self.describe_topics(
                [name], include_authorized_operations=include_authorized_operations, timeout=timeout
            )
        )

    async def describe_topics(
        self,
        names: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, TopicDescription]:
        """Partitions, leaders and replicas of topics. Large descriptions are fetched in pages (KIP-966)."""
        call = self._begin("describe topics", timeout)

        async def attempt(wanted: list[str]) -> Results[str, TopicDescription]:
            if not include_authorized_operations:
                try:
                    return await self._describe_pages(call, wanted)
                except errors.UnsupportedVersion:
                    pass  # a broker before Kafka 3.8, without pages
            request = wire.topic_descriptions.metadata_request(
                wanted, operations=include_authorized_operations
            )
            return wire.topic_descriptions.read_described(await call.ask(request))

        return await call.run_each(names, attempt)

    async def _describe_pages(self, call: Call, names: list[str]) -> Results[str, TopicDescription]:
        described = wire.topic_descriptions.PagedDescriptions()
        while described.has_more:
            described.add(
                await call.ask(wire.topic_descriptions.page_request(names, PAGE_PARTITIONS, described.cursor))
            )
        return described.results()

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Raise the number of partitions: `create_partitions({"orders": 6})`. Keys may then map to other partitions."""
        wanted = {
            name: total if isinstance(total, NewPartitions) else NewPartitions(total=total)
            for name, total in totals.items()
        }
        call = self._begin("create partitions", timeout)

        async def attempt(names: list[str]) -> Results[str, None]:
            request = wire.topics.grow_request(
                {name: wanted[name] for name in names},
                timeout_ms=call.request_ms(),
                validate_only=validate_only,
            )
            return wire.topics.read_grown(await call.ask_controller(request))

        return await call.run_each(wanted, attempt, is_repeatable=False)


def _new_topic(topic: NewTopic | str) -> NewTopic:
    return NewTopic(name=topic) if isinstance(topic, str) else topic
