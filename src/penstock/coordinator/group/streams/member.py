"""A member of a streams group: one thread of a Streams application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from penstock.coordinator.group.client import Client
from penstock.coordinator.group.modern.member import ModernMember
from penstock.coordinator.group.streams.tasks import NOTHING, OwnedTasks
from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class UserEndpoint(NamedTuple):
    """Where the application answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember(ModernMember[OwnedTasks]):
    topology_epoch: int = -1
    process_id: str = ""
    """Members of one process share its state directory, so no two of them may own the same task."""
    user_endpoint: UserEndpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: OwnedTasks = NOTHING
    revoking: OwnedTasks = NOTHING

    def updated_by(self, request: StreamsGroupHeartbeatRequest, client: Client) -> StreamsMember:
        """With the fields that a heartbeat sets; the same object if nothing changes, as with most heartbeats."""
        fields: dict[str, Any] = {"client_id": client.client_id, "client_host": client.host}
        if request.rack_id is not None:
            fields["rack_id"] = request.rack_id
        if request.rebalance_timeout_ms != -1:
            fields["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.topology is not None:
            fields["topology_epoch"] = request.topology.epoch
        if request.process_id is not None:
            fields["process_id"] = request.process_id
        if request.user_endpoint is not None:
            fields["user_endpoint"] = UserEndpoint(request.user_endpoint.host, request.user_endpoint.port)
        if request.client_tags is not None:
            fields["client_tags"] = {tag.key: tag.value for tag in request.client_tags}
        if all(getattr(self, name) == value for name, value in fields.items()):
            return self
        return replace(self, **fields)
