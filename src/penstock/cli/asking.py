"""How a command asks a cluster: connect, ask, close.

    listed = ask(connection.settings(), TopicsAdmin, lambda admin: admin.list_topics())

A command names the family of calls that it needs (`penstock.client.admin`), so that no other is loaded. How long it
waits for a broker is the rule of `waiting`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from penstock.cli.failures import Misuse
from penstock.cli.waiting import for_admin, show_warnings
from penstock.client.admin.calls import AdminCalls
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.errors import PenstockError
from penstock.client.settings import AdminSettings, ConsumerSettings, ProducerSettings
from penstock.runtime.loop import run

Family = TypeVar("Family", bound=AdminCalls)
Result = TypeVar("Result")


def ask(
    settings: Mapping[str, str], family: type[Family], work: Callable[[Family], Awaitable[Result]]
) -> Result:
    """Do the work with a family of calls to the cluster, and leave nothing behind."""
    return run(_ask(settings, family, work))


async def _ask(
    settings: Mapping[str, str], family: type[Family], work: Callable[[Family], Awaitable[Result]]
) -> Result:
    show_warnings()
    client = ClusterClient(AdminSettings.of(for_admin(_of_admin(settings))))
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


def _of_admin(settings: Mapping[str, str]) -> dict[str, str]:
    """Without what is a setting of producers or consumers only: people share one file among all their clients."""
    own = AdminSettings.table()
    return {
        name: value
        for name, value in settings.items()
        if name in own or not (name in ProducerSettings.table() or name in ConsumerSettings.table())
    }


def read_pairs(
    texts: Iterable[str], *, option: str, example: str = "retention.ms=86400000"
) -> dict[str, str]:
    """`key=value` each; a value may have commas and further equals signs in it."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise Misuse(f"{option} {text}: must be key=value, such as {option} {example}")
        pairs[key.strip()] = value.strip()
    return pairs


def read_partition(text: str) -> TopicPartition:
    """`topic:0`, as Kafka's tools write a partition; the topic itself may have no colon."""
    topic, separator, index = text.rpartition(":")
    if not separator or not topic or not index.isdecimal():
        raise Misuse(f"{text} is not a partition: write it as topic:0")
    return TopicPartition(topic, int(index))
