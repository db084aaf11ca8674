"""An admin client in a scripted cluster: the test sees its requests and chooses the responses."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from harness.scripted_cluster import ScriptedCluster
from penstock.client.admin.aio import Admin
from penstock.client.cluster_client import ClusterClient
from penstock.client.settings import AdminSettings

Test = Callable[[Admin], Coroutine[Any, Any, None]]


def run_admin(world: ScriptedCluster, test: Test, **options: object) -> None:
    """Run a test with an admin client of the cluster."""

    async def main() -> None:
        settings = AdminSettings.of(world.bootstrap, None, options)
        admin = Admin.of(settings)
        admin._client = ClusterClient(settings, network=world.network, clock=world.clock, rng=world.random)
        try:
            await test(admin)
        finally:
            await admin.close()

    world.run(main)


def asked(world: ScriptedCluster, kind: type[Any]) -> list[tuple[int, Any]]:
    """All requests of one kind, with the node that received each."""
    return [(node.id, request) for node in world.nodes.values() for request in node.asked_for(kind)]
