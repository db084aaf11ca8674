"""Topics: create, delete, list, describe, and add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls, Call
from penstock.client.admin.configs import ConfigEntry
from penstock.client.admin.operations import AclOperation
from penstock.client.admin.outcome import Answers, only

PAGE_PARTITIONS = 2000
"""How many partitions a page of a description has; what Kafka's brokers give at most by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be made. What is None is the cluster's default."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    replicas: Sequence[Sequence[int]] | None = None
    """The brokers of each partition, the preferred leader first; says how many partitions and replicas there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """What a new topic got, or would get. Brokers before Kafka 2.4 tell no more than its name."""

    name: str
    topic_id: str | None = None
    """In Kafka's own spelling, as its tools show it."""
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, ConfigEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """How many partitions a topic is to have in all, and on which brokers the new ones are."""

    total: int
    replicas: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    name: str
    topic_id: str | None
    partitions: int
    is_internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """Where a partition is; brokers are named by their ids."""

    index: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    in_sync: tuple[int, ...]
    offline: tuple[int, ...] = ()
    eligible_leaders: tuple[int, ...] | None = None
    """Not in sync, and still safe to lead (KIP-966); None where the broker does not tell."""
    last_known_eligible: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def replication_factor(self) -> int:
        """Of the first partition, as Kafka's tools tell it."""
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
        """Make a topic; with `validate_only` tell what it would get and make nothing."""
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
        """Make several topics; each is made or refused by itself."""
        wanted = {topic.name: topic for topic in map(_new_topic, topics)}
        call = self._begin("create topics", timeout)

        async def attempt(names: list[str]) -> Answers[str, CreatedTopic]:
            request = wire.topics.create_request(
                [wanted[name] for name in names],
                timeout_ms=call.request_ms(),
                validate_only=validate_only,
            )
            return wire.topics.read_created(await call.ask_controller(request))

        created = await call.each(wanted, attempt, is_repeatable=False)
        if not validate_only:
            self._fresh_topics.add(created)
        return created

    async def delete_topic(self, name: str, *, timeout: float | None = None) -> None:
        await only(self.delete_topics([name], timeout=timeout))

    async def delete_topics(
        self, names: Iterable[str] = (), *, ids: Iterable[str] = (), timeout: float | None = None
    ) -> dict[str, None]:
        """Delete topics with all their records, by name or by id. This cannot be undone."""
        by_name, by_id = list(names), set(ids)
        call = self._begin("delete topics", timeout)

        async def attempt(wanted: list[str]) -> Answers[str, None]:
            request = wire.topics.delete_request(
                names=[topic for topic in wanted if topic not in by_id],
                ids=[topic for topic in wanted if topic in by_id],
                timeout_ms=call.request_ms(),
            )
            return wire.topics.read_deleted(await call.ask_controller(request), by_id=by_id)

        self._fresh_topics.discard(by_name)
        try:
            return await call.each([*by_name, *sorted(by_id)], attempt, is_repeatable=False)
        except errors.ItemsFailed as several:
            for each in several.exceptions:
                if isinstance(each, errors.UnknownTopicOrPartition):
                    each.advice = "see that its name is spelled right"  # not: create it
            raise

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> list[TopicListing]:
        """All topics that the caller may see, by name; internal ones only if asked for."""
        call = self._begin("list topics", timeout)
        response = await call.ask(wire.topic_descriptions.list_request())
        listed = wire.topic_descriptions.read_listed(response)
        return [topic for topic in listed if include_internal or not topic.is_internal]

    async def describe_topic(
        self, name: str, *, include_authorized_operations: bool = False, timeout: float | None = None
    ) -> TopicDescription:
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
        """Where the partitions of topics are. Large clusters answer page by page (KIP-966); that is not seen here."""
        call = self._begin("describe topics", timeout)

        async def attempt(wanted: list[str]) -> Answers[str, TopicDescription]:
            if not include_authorized_operations:
                try:
                    return await self._describe_pages(call, wanted)
                except errors.UnsupportedVersion:
                    pass  # a broker before Kafka 3.8, which answers at one go
            request = wire.topic_descriptions.metadata_request(
                wanted, operations=include_authorized_operations
            )
            return wire.topic_descriptions.read_described(await call.ask(request))

        return await call.each(names, attempt)

    async def _describe_pages(self, call: Call, names: list[str]) -> Answers[str, TopicDescription]:
        described = wire.topic_descriptions.PagedDescriptions()
        while described.has_more:
            described.add(
                await call.ask(wire.topic_descriptions.page_request(names, PAGE_PARTITIONS, described.cursor))
            )
        return described.answers()

    async def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[str, None]:
        """Let topics have more partitions: `create_partitions({"orders": 6})`. Keys may change partitions by it."""
        wanted = {
            name: total if isinstance(total, NewPartitions) else NewPartitions(total=total)
            for name, total in totals.items()
        }
        call = self._begin("create partitions", timeout)

        async def attempt(names: list[str]) -> Answers[str, None]:
            request = wire.topics.grow_request(
                {name: wanted[name] for name in names},
                timeout_ms=call.request_ms(),
                validate_only=validate_only,
            )
            return wire.topics.read_grown(await call.ask_controller(request))

        return await call.each(wanted, attempt, is_repeatable=False)


def _new_topic(topic: NewTopic | str) -> NewTopic:
    return NewTopic(name=topic) if isinstance(topic, str) else topic
