"""One-off admin calls of a command: connect, call, close.

A command names the family of calls that it needs (`penstock.client.admin`), so that no other is loaded:

    listed = with_admin(settings, TopicsAdmin, lambda admin: admin.list_topics())

`timeouts` decides how long to wait for a broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from penstock.cli.timeouts import for_calls, show_warnings
from penstock.client.admin.calls import AdminCalls
from penstock.client.cluster_client import ClusterClient
from penstock.client.errors import PenstockError
from penstock.client.settings import AdminSettings, ConsumerSettings, ProducerSettings
from penstock.runtime.loop import run

Family = TypeVar("Family", bound=AdminCalls)
Result = TypeVar("Result")


def with_admin(
    settings: Mapping[str, str], family: type[Family], work: Callable[[Family], Awaitable[Result]]
) -> Result:
    """Do the work with a family of admin calls, and close the connections."""
    return run(_with_admin(settings, family, work))


async def _with_admin(
    settings: Mapping[str, str], family: type[Family], work: Callable[[Family], Awaitable[Result]]
) -> Result:
    show_warnings()
    client = ClusterClient(AdminSettings.of(for_calls(_for_calls(settings))))
    try:
        admin = family(client)
        await admin.connect()
        return await work(admin)
    except PenstockError as problem:
        from penstock.cli.suggestions import add_suggestions  # loaded only for errors

        await add_suggestions(problem, client)
        raise
    finally:
        await client.close(timeout_ms=0)


def _for_calls(settings: Mapping[str, str]) -> dict[str, str]:
    """Without settings of producers and consumers: users share one file among all their clients."""
    own = AdminSettings.table()
    return {
        name: value
        for name, value in settings.items()
        if name in own or not (name in ProducerSettings.table() or name in ConsumerSettings.table())
    }
