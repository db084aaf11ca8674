"""Groups of several clients under load, and what must hold after their broker crashed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from compat.groups.history import delivery_faults
from compat.groups.members import Client, Group, Host
from compat.groups.state import check_committed
from harness.load import NumberedLoad, Offset

Groups = Mapping[Client, Group]


def make_groups(clients: Iterable[Client], bootstrap: str, name: str, topic: str, partitions: int) -> Groups:
    """One group for each client."""
    return {
        client: Group(bootstrap, f"{name}-{client}", topic, partition_count=partitions) for client in clients
    }


def join_two_members_each(groups: Groups, host_of: Callable[[Client], Host]) -> None:
    for client, group in groups.items():
        for name in ("a", "b"):
            group.join(host_of(client), name, client.settings)
    for group in groups.values():
        group.wait_until_shared_by("a", "b")


def wait_until_groups_continue(groups: Groups, load: NumberedLoad) -> None:
    """Return when new records are acknowledged, and every group has read all records so far."""
    load.wait_for_more()
    written = dict(load.written)
    for group in groups.values():
        group.wait_until_read(written)


def check_groups(groups: Groups, written: Mapping[Offset, int]) -> None:
    """Every group has read and committed everything.

    Records that were read but not committed before a crash may be delivered again. After an outage longer than a
    session, a partition may have a new owner before the old one is notified.
    """
    for group in groups.values():
        group.wait_until_read(written)
        group.leave_all()
    for client, group in groups.items():
        found = delivery_faults(group.history.events(), written, is_exactly_once=False)
        assert (str(client), found) == (str(client), [])
        check_committed(group)
