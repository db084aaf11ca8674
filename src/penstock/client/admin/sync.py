"""`Admin` without asyncio: runs each call of the async one on a thread of its own.

Every call is declared once, in the async class; `blocking` makes a method with the same arguments, types and docstring
that waits for the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from types import MethodType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from penstock.client.admin import aio
from penstock.client.background import Background
from penstock.client.settings import AdminSettings, First

if TYPE_CHECKING:
    from penstock.client.options import AdminOptions

P = ParamSpec("P")
R = TypeVar("R")


class blocking(Generic[P, R]):
    """A method that runs the async one of the same name on the admin's thread, and waits for it."""

    def __init__(self, method: Callable[Concatenate[aio.Admin, P], Coroutine[Any, Any, R]]) -> None:
        self._method = method

    @overload
    def __get__(self, admin: None, owner: type) -> Callable[Concatenate[Admin, P], R]: ...

    @overload
    def __get__(self, admin: Admin, owner: type) -> Callable[P, R]: ...

    def __get__(self, admin: Admin | None, owner: type) -> Callable[..., R]:
        method = self._method

        def wait(admin: Admin, *arguments: P.args, **options: P.kwargs) -> R:
            return admin._wait(lambda inner: method(inner, *arguments, **options))

        called = functools.wraps(method)(wait)
        # Bound like a method, so that `help()` and `inspect` show its arguments and docstring.
        return called if admin is None else MethodType(called, admin)


class Admin:
    """Describes and changes a cluster: topics, configs, groups, ACLs and more. Threads may share one.

        with Admin("localhost:9092") as admin:
            admin.create_topic("orders", partitions=3)

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
        self.settings = AdminSettings.of(bootstrap_servers, settings, dict(options))
        self._background = Background("penstock-admin")
        self._inner: aio.Admin | None = None

    def __repr__(self) -> str:
        return f"<Admin at {self.settings.cluster_name}>"

    def close(self) -> None:
        """Close all connections and end the thread. The client cannot be used afterwards."""
        inner, self._inner = self._inner, None
        if inner is not None and not self._background.is_forked:
            self._background.call(inner.close)
        self._background.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, begin: Callable[[aio.Admin], Coroutine[Any, Any, R]]) -> R:
        async def run() -> R:
            if self._inner is None:  # created on the thread of its loop
                self._inner = aio.Admin.of(self.settings)
            return await begin(self._inner)

        return self._background.call(run)

    connect = blocking(aio.Admin.connect)

    create_topic = blocking(aio.Admin.create_topic)
    create_topics = blocking(aio.Admin.create_topics)
    delete_topic = blocking(aio.Admin.delete_topic)
    delete_topics = blocking(aio.Admin.delete_topics)
    list_topics = blocking(aio.Admin.list_topics)
    describe_topic = blocking(aio.Admin.describe_topic)
    describe_topics = blocking(aio.Admin.describe_topics)
    create_partitions = blocking(aio.Admin.create_partitions)

    describe_config = blocking(aio.Admin.describe_config)
    describe_configs = blocking(aio.Admin.describe_configs)
    alter_config = blocking(aio.Admin.alter_config)
    alter_configs = blocking(aio.Admin.alter_configs)
    list_config_resources = blocking(aio.Admin.list_config_resources)

    list_groups = blocking(aio.Admin.list_groups)
    describe_group = blocking(aio.Admin.describe_group)
    describe_groups = blocking(aio.Admin.describe_groups)
    delete_group = blocking(aio.Admin.delete_group)
    delete_groups = blocking(aio.Admin.delete_groups)
    remove_members = blocking(aio.Admin.remove_members)

    list_group_offsets = blocking(aio.Admin.list_group_offsets)
    list_groups_offsets = blocking(aio.Admin.list_groups_offsets)
    alter_group_offsets = blocking(aio.Admin.alter_group_offsets)
    delete_group_offsets = blocking(aio.Admin.delete_group_offsets)
    group_lag = blocking(aio.Admin.group_lag)
    groups_lag = blocking(aio.Admin.groups_lag)

    list_share_group_offsets = blocking(aio.Admin.list_share_group_offsets)
    alter_share_group_offsets = blocking(aio.Admin.alter_share_group_offsets)
    delete_share_group_offsets = blocking(aio.Admin.delete_share_group_offsets)

    list_offsets = blocking(aio.Admin.list_offsets)
    topic_offsets = blocking(aio.Admin.topic_offsets)
    delete_records = blocking(aio.Admin.delete_records)

    list_transactions = blocking(aio.Admin.list_transactions)
    describe_transaction = blocking(aio.Admin.describe_transaction)
    describe_transactions = blocking(aio.Admin.describe_transactions)
    describe_producers = blocking(aio.Admin.describe_producers)
    complete_transaction = blocking(aio.Admin.complete_transaction)
    abort_transaction = blocking(aio.Admin.abort_transaction)
    fence_producer = blocking(aio.Admin.fence_producer)
    fence_producers = blocking(aio.Admin.fence_producers)
    terminate_transaction = blocking(aio.Admin.terminate_transaction)

    describe_cluster = blocking(aio.Admin.describe_cluster)
    api_versions = blocking(aio.Admin.api_versions)
    unregister_broker = blocking(aio.Admin.unregister_broker)

    describe_quorum = blocking(aio.Admin.describe_quorum)
    add_voter = blocking(aio.Admin.add_voter)
    remove_voter = blocking(aio.Admin.remove_voter)

    reassign_partitions = blocking(aio.Admin.reassign_partitions)
    list_reassignments = blocking(aio.Admin.list_reassignments)
    elect_leaders = blocking(aio.Admin.elect_leaders)

    describe_log_dirs = blocking(aio.Admin.describe_log_dirs)
    alter_replica_log_dirs = blocking(aio.Admin.alter_replica_log_dirs)

    describe_acls = blocking(aio.Admin.describe_acls)
    create_acl = blocking(aio.Admin.create_acl)
    create_acls = blocking(aio.Admin.create_acls)
    delete_acls = blocking(aio.Admin.delete_acls)

    describe_quotas = blocking(aio.Admin.describe_quotas)
    alter_quota = blocking(aio.Admin.alter_quota)
    alter_quotas = blocking(aio.Admin.alter_quotas)

    describe_users = blocking(aio.Admin.describe_users)
    set_password = blocking(aio.Admin.set_password)
    delete_password = blocking(aio.Admin.delete_password)
    alter_users = blocking(aio.Admin.alter_users)

    create_token = blocking(aio.Admin.create_token)
    renew_token = blocking(aio.Admin.renew_token)
    expire_token = blocking(aio.Admin.expire_token)
    describe_tokens = blocking(aio.Admin.describe_tokens)

    describe_features = blocking(aio.Admin.describe_features)
    update_features = blocking(aio.Admin.update_features)
