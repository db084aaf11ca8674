"""`Admin` for asyncio: all families in one class."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from penstock.client.admin.acls import AclsAdmin
from penstock.client.admin.cluster import ClusterAdmin
from penstock.client.admin.configs import ConfigsAdmin
from penstock.client.admin.features import FeaturesAdmin
from penstock.client.admin.lag import LagAdmin
from penstock.client.admin.log_dirs import LogDirsAdmin
from penstock.client.admin.quorum import QuorumAdmin
from penstock.client.admin.quotas import QuotasAdmin
from penstock.client.admin.reassignment import ReassignmentAdmin
from penstock.client.admin.tokens import TokensAdmin
from penstock.client.admin.topics import TopicsAdmin
from penstock.client.admin.transactions import TransactionsAdmin
from penstock.client.admin.users import UsersAdmin
from penstock.client.cluster_client import ClusterClient
from penstock.client.settings import AdminSettings, First

if TYPE_CHECKING:
    from penstock.client.options import AdminOptions


class Admin(
    TopicsAdmin,
    ConfigsAdmin,
    LagAdmin,
    TransactionsAdmin,
    ClusterAdmin,
    QuorumAdmin,
    ReassignmentAdmin,
    LogDirsAdmin,
    AclsAdmin,
    QuotasAdmin,
    UsersAdmin,
    TokensAdmin,
    FeaturesAdmin,
):
    """Describes and changes a cluster: topics, configs, groups, ACLs and more.

        async with Admin("localhost:9092") as admin:
            await admin.create_topic("orders", partitions=3)

    A call about one item raises its error. A call about several returns a dict, or raises `ItemsFailed`, which has the
    error of each failed item and the results of the others. No connection is opened before the first call.
    """

    def __init__(
        self,
        bootstrap_servers: First = None,
        /,
        *,
        settings: Mapping[str, object] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        self._open(AdminSettings.of(bootstrap_servers, settings, dict(options)))

    @classmethod
    def of(cls, settings: AdminSettings) -> Self:
        """Create an Admin from settings that were checked already."""
        admin = cls.__new__(cls)
        admin._open(settings)
        return admin

    def _open(self, settings: AdminSettings) -> None:
        self.settings = settings
        super().__init__(ClusterClient(settings))

    def __repr__(self) -> str:
        return f"<Admin at {self.settings.cluster_name}>"

    async def close(self) -> None:
        """Close all connections. The client cannot be used afterwards."""
        await self._client.close(timeout_ms=0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
