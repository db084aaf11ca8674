"""The cluster as a whole: its brokers, the APIs they serve, and unregistering a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client import errors
from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.operations import AclOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """A broker and its address."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False
    """Registered with the controller, but not in service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster: its id, controller and brokers."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedApi:
    """An API of the protocol, and the versions that a broker serves."""

    key: int
    name: str
    first_version: int
    last_version: int
    usable_version: int | None
    """The newest version that this client knows too; None if there is none."""


class ClusterAdmin(AdminCalls):
    async def describe_cluster(
        self,
        *,
        include_fenced: bool = False,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """The cluster's id, brokers and controller; with `bootstrap.controllers`, its controllers."""
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
                raise  # only brokers of Kafka 4.0 and later can do this
        return wire.cluster.read_metadata(await call.ask(wire.cluster.metadata_request()))

    async def api_versions(self, *, timeout: float | None = None) -> Mapping[int, tuple[ServedApi, ...]]:
        """The APIs that each broker serves, by broker id."""
        call = self._begin("list the APIs of brokers", timeout)
        responses = await call.ask_all_brokers(wire.cluster.versions_request())
        return {node_id: wire.cluster.read_versions(response) for node_id, response in responses.items()}

    async def unregister_broker(self, broker: int, *, timeout: float | None = None) -> None:
        """Unregister a broker that is stopped and will not come back."""
        call = self._begin(f"unregister broker {broker}", timeout)

        async def attempt() -> None:
            response = await call.ask(wire.cluster.unregister_request(broker))
            wire.cluster.check_unregistered(response, broker)

        await call.retry(attempt)
