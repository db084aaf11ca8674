"""The cluster as a whole: its brokers, what they serve, and taking one of them off the books."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.operations import AclOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False
    """Known to the controller and not in service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """An API of the protocol, and the versions of it that a broker serves."""

    key: int
    name: str
    first_version: int
    last_version: int
    usable_version: int | None
    """The newest that this client knows too."""


class ClusterAdmin(AdminCalls):
    async def describe_cluster(
        self,
        *,
        include_fenced: bool = False,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """Its id, its brokers and who speaks for its controller; by `bootstrap.controllers`, its controllers."""
        call = self._begin("describe the cluster", timeout)
        try:
            request = wire.cluster.describe_request(
                fenced=include_fenced,
                operations=include_authorized_operations,
                of_controllers=bool(self._client.settings.get("bootstrap.controllers")),
            )
            return wire.cluster.read_described(await call.ask(request))
        except errors.UnsupportedVersion:
            if include_fenced:
                raise  # only brokers of Kafka 4.0 and later can tell
        return wire.cluster.read_metadata(await call.ask(wire.cluster.metadata_request()))

    async def api_versions(self, *, timeout: float | None = None) -> Mapping[int, tuple[ServedApi, ...]]:
        """What each broker serves, by its id."""
        call = self._begin("ask brokers what they serve", timeout)
        responses = await call.everywhere(wire.cluster.versions_request())
        return {node_id: wire.cluster.read_versions(response) for node_id, response in responses.items()}

    async def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Have the controller forget a broker that is stopped and will not come back."""
        call = self._begin(f"unregister broker {broker}", timeout)

        async def attempt() -> None:
            response = await call.ask(wire.cluster.unregister_request(broker))
            wire.cluster.check_unregistered(response, broker)

        await call.repeat(attempt)
