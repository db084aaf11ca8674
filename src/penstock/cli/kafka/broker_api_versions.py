"""`kafka-broker-api-versions.sh`: the APIs that each broker serves, and the versions that this client uses."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, COMMAND_CONFIG, Options, Tool, admin_settings
from penstock.client.cluster import Node
from penstock.protocol.apis import ApiKey

TOOL = Tool("This tool helps to retrieve broker version information.", BOOTSTRAP_SERVER, COMMAND_CONFIG)

# APIs between nodes, which clients do not use.
BETWEEN_NODES = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})

Versions = Mapping[int, tuple[int, int]]


def run(options: Options) -> int:
    from penstock.runtime.loop import run as run_loop

    for node, versions in run_loop(_ask(admin_settings(options))):
        print(describe(node, versions))
    return 0


async def _ask(settings: Mapping[str, object]) -> list[tuple[Node, Versions]]:
    from penstock.cli.timeouts import for_calls, show_warnings
    from penstock.client.cluster_client import ClusterClient
    from penstock.client.settings import AdminSettings

    show_warnings()
    client = ClusterClient(AdminSettings.of(for_calls(settings)))
    try:
        cluster = await client.refresh()
        found = []
        for node in sorted(cluster.nodes.values(), key=lambda node: node.id):
            await client.connect(node.id)
            found.append((node, client.versions(node.id)))
        return found
    finally:
        await client.close()


def describe(node: Node, versions: Versions) -> str:
    """The APIs of a broker, in Kafka's format; an unknown API is shown by its number."""
    rack = "null" if node.rack is None else node.rack
    lines = [_line(key, versions.get(key)) for key in ApiKey if key not in BETWEEN_NODES]
    unknown = sorted(key for key in versions if key not in ApiKey.__members__.values())
    lines += [f"\tUNKNOWN({key}): {_range(*versions[key])}" for key in unknown]
    return (
        f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false) -> (\n"
        + ",\n".join(lines)
        + "\n)"
    )


def _line(key: ApiKey, served: tuple[int, int] | None) -> str:
    name = "".join(part.capitalize() for part in key.name.split("_"))
    if served is None:
        return f"\t{name}({key.value}): UNSUPPORTED"
    first, last = served
    usable = min(last, key.last_version)
    is_usable = usable >= max(first, key.first_version)
    return (
        f"\t{name}({key.value}): {_range(first, last)} [{f'usable: {usable}' if is_usable else 'unusable'}]"
    )


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
