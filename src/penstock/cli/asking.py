"""How a command asks a cluster: connect, ask, close.

    listed = ask(connection.settings(), TopicsAdmin, lambda admin: admin.list_topics())

A command names the family of calls that it needs (`penstock.client.admin`), so that no other is loaded. A person
who waits in vain for a broker should not wait for a minute: reaching the cluster has a shorter limit than the
question itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from penstock.client.admin.calls import AdminCalls
from penstock.client.cluster_client import ClusterClient
from penstock.client.settings import AdminSettings
from penstock.runtime.loop import run

Family = TypeVar("Family", bound=AdminCalls)
Result = TypeVar("Result")

CONNECT_MS = 3_000


def ask(
    settings: Mapping[str, str], family: type[Family], work: Callable[[Family], Awaitable[Result]]
) -> Result:
    """Do the work with a family of calls to the cluster, and leave nothing behind."""
    return run(_ask(settings, family, work))


async def _ask(
    settings: Mapping[str, str], family: type[Family], work: Callable[[Family], Awaitable[Result]]
) -> Result:
    known = {name: value for name, value in settings.items() if name in AdminSettings.table()}
    client = ClusterClient(AdminSettings.of(known))
    try:
        admin = family(client)
        await admin.connect(timeout_ms=min(CONNECT_MS, client.api_timeout_ms))
        return await work(admin)
    finally:
        await client.close(timeout_ms=0)
