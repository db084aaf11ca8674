"""Streams groups without a broker: topologies, topics that appear and disappear, members that follow the protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.consumer_groups import ConsumerHarness
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.streams.checks import check_heartbeat
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.group import StreamsGroup
from penstock.coordinator.group.streams.groups import StreamsGroups
from penstock.coordinator.group.streams.responses import StreamsHeartbeat, error_response
from penstock.coordinator.group.streams.tasks import Task, in_order
from penstock.metadata.errors import Refused
from penstock.metadata.records import ConfigRecord
from penstock.metadata.resources import group_resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

GROUP = "application"
CLIENT = Client("client", "/127.0.0.1")
SESSION_MS = 45_000
REBALANCE_MS = 60_000
AT_ONCE = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
"""Every new epoch is assigned at once, which most tests want."""


def topic_info(name: str, *, partitions: int = 0, replicas: int = 0, **settings: str) -> TopicInfo:
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[KeyValue(key=key.replace("_", "."), value=value) for key, value in settings.items()],
    )


def subtopology(
    subtopology_id: str = "0",
    *,
    sources: list[str] | None = None,
    changelogs: list[TopicInfo] | None = None,
    sinks: list[str] | None = None,
    repartitions: list[TopicInfo] | None = None,
    joined: list[tuple[list[int], list[int]]] | None = None,
) -> Subtopology:
    """`joined`: indexes of source and repartition topics that must have the same number of partitions."""
    return Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sources or [],
        source_topic_regex=[],
        state_changelog_topics=changelogs or [],
        repartition_sink_topics=sinks or [],
        repartition_source_topics=repartitions or [],
        copartition_groups=[
            CopartitionGroup(
                source_topics=in_sources, source_topic_regex=[], repartition_source_topics=in_repartitions
            )
            for in_sources, in_repartitions in joined or []
        ],
    )


def topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(parts))


def simple_topology(epoch: int = 0) -> Topology:
    """One stateless subtopology that reads `in`."""
    return topology(subtopology(sources=["in"]), epoch=epoch)


def counting_topology() -> Topology:
    """Words of `in` go to a repartition topic and are counted."""
    return topology(
        subtopology("0", sources=["in"], sinks=["words"]),
        subtopology(
            "1",
            repartitions=[topic_info("words", cleanup_policy="delete")],
            changelogs=[topic_info("counts", cleanup_policy="compact")],
            joined=[([], [0])],
        ),
    )


Owned = dict[str, set[Task]]
"""Tasks by role: active, standby, warmup."""


def nothing() -> Owned:
    return {"active": set(), "standby": set(), "warmup": set()}


class StreamsHarness(ConsumerHarness):
    """`heartbeat` sends one request of a member, `settle` sends heartbeats of honest members until nothing changes."""

    def __init__(self, properties: dict[str, str] | None = None, **options: Any) -> None:
        super().__init__({**AT_ONCE, **(properties or {})}, **options)
        self.streams = StreamsGroups(self.context)
        self.parts.append(self.streams)
        self.streams.loaded()

    def change_metadata(self, *records: Any) -> None:
        before = self.image
        super().change_metadata(*records)
        delta = before.apply(records, offset=before.offset + len(records), epoch=1)
        self.streams.metadata_changed(delta)

    def set_for_group(self, name: str, value: str) -> None:
        resource = group_resource(GROUP)
        self.change_metadata(
            ConfigRecord(
                resource_type=int(resource.type), resource_name=resource.name, name=name, value=value
            )
        )

    @property
    def group(self) -> StreamsGroup:
        group = self.context.groups[GROUP]
        assert isinstance(group, StreamsGroup)
        return group

    def request(
        self, member_id: str = "one", epoch: int = 0, *, owned: Owned | None = None, **fields: Any
    ) -> StreamsGroupHeartbeatRequest:
        if epoch == 0:
            fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
            fields.setdefault("topology", simple_topology())
            fields.setdefault("process_id", f"process of {member_id}")
            owned = nothing() if owned is None else owned
        tasks = {kind: None if owned is None else _task_ids(owned[kind]) for kind in nothing()}
        return StreamsGroupHeartbeatRequest(
            group_id=fields.pop("group_id", GROUP),
            member_id=member_id,
            member_epoch=epoch,
            endpoint_information_epoch=fields.pop("endpoint_epoch", 0),
            active_tasks=fields.pop("active_tasks", tasks["active"]),
            standby_tasks=fields.pop("standby_tasks", tasks["standby"]),
            warmup_tasks=fields.pop("warmup_tasks", tasks["warmup"]),
            **fields,
        )

    def beat(self, member_id: str = "one", epoch: int = 0, **fields: Any) -> StreamsHeartbeat:
        """Raises `Refused` if it is refused."""
        client = fields.pop("client", CLIENT)
        request = self.request(member_id, epoch, **fields)
        check_heartbeat(request)
        return self.answer(self.streams.heartbeat(request, client=client, version=0))

    def heartbeat(  # type: ignore[override]
        self, member_id: str = "one", epoch: int = 0, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        """A refusal becomes an error response, as in the handler."""
        try:
            return self.beat(member_id, epoch, **fields).response
        except Refused as refused:
            return error_response(refused)

    def restarted(self) -> StreamsHarness:
        """A new owner of the shard, with the state from the log."""
        other = StreamsHarness(image=self.image)
        other.settings = self.settings
        other.clock_ms = self.clock_ms
        other._incarnations = self._incarnations
        other.load(self.compacted())
        other.streams.loaded()
        return other


def statuses(response: StreamsGroupHeartbeatResponse) -> list[StatusCode]:
    return [StatusCode(status.status_code) for status in response.status or []]


def tasks_of(ids: list[TaskIds] | None) -> set[Task]:
    return {Task(each.subtopology_id, partition) for each in ids or [] for partition in each.partitions}


def _task_ids(tasks: set[Task]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in in_order(tasks)
    ]


@dataclass
class StreamsApp:
    """A member like the Java client: it takes over assigned tasks, and rejoins when it is fenced."""

    harness: StreamsHarness
    member_id: str
    process_id: str | None = None
    topology: Topology = field(default_factory=simple_topology)
    endpoint: Endpoint | None = None
    epoch: int = 0
    owned: Owned = field(default_factory=nothing)
    endpoint_epoch: int = 0
    is_lazy: bool = False
    """It does not revoke the tasks that it should."""

    def beat(self) -> StreamsGroupHeartbeatResponse:
        fields: dict[str, Any] = {}
        if self.epoch == 0:
            fields["topology"] = self.topology
            fields["process_id"] = self.process_id or f"process of {self.member_id}"
            fields["user_endpoint"] = self.endpoint
        response = self.harness.heartbeat(
            self.member_id, self.epoch, owned=self.owned, endpoint_epoch=self.endpoint_epoch, **fields
        )
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned = 0, nothing()
            return response
        assert response.error_code is ErrorCode.NONE, response
        self.epoch = response.member_epoch
        self.endpoint_epoch = response.endpoint_information_epoch
        if response.active_tasks is not None and not self.is_lazy:
            self.owned = {
                "active": tasks_of(response.active_tasks),
                "standby": tasks_of(response.standby_tasks),
                "warmup": tasks_of(response.warmup_tasks),
            }
        return response

    def leave(self) -> None:
        assert self.harness.heartbeat(self.member_id, -1).error_code is ErrorCode.NONE
        self.epoch, self.owned = 0, nothing()

    @property
    def active(self) -> set[Task]:
        return self.owned["active"]

    @property
    def standby(self) -> set[Task]:
        return self.owned["standby"]


def settle(*apps: StreamsApp) -> None:
    """All members send heartbeats in turn until nothing is written any more."""
    harness = apps[0].harness
    for _ in range(20):
        before = len(harness.log)
        for app in apps:
            app.beat()
        if len(harness.log) == before:
            return
    raise AssertionError("the group does not settle")
