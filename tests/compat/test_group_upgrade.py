"""Groups are upgraded from classic to consumer and back, one member at a time, under load."""

from __future__ import annotations

import pytest

from compat.conftest import StartHost
from compat.groups import members
from compat.groups.members import Client, Group
from compat.groups.state import finish, group_type
from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.load import Load

PARTITION_COUNT = 6


@pytest.mark.parametrize(
    ("classic", "new"),
    [
        (members.JAVA_RANGE, members.JAVA_NEW),
        (members.JAVA_COOPERATIVE, members.JAVA_NEW),
        (members.CONFLUENT_RANGE, members.CONFLUENT_NEW),
        (members.CONFLUENT_RANGE, members.JAVA_NEW),
        (members.FRANZ_COOPERATIVE, members.JAVA_NEW),
        (members.PENSTOCK_COOPERATIVE, members.PENSTOCK_NEW),
    ],
    ids=str,
)
def test_a_group_is_upgraded_and_downgraded_member_by_member(
    group_cluster: Broker, host_of: StartHost, classic: Client, new: Client
) -> None:
    topic = create_topic(group_cluster.bootstrap, "upgrade", partitions=PARTITION_COUNT)
    group = Group(group_cluster.bootstrap, new_name("upgraded"), topic, partition_count=PARTITION_COUNT)
    with Load(group.bootstrap, topic) as load:
        group.join(host_of(classic), "classic-1", classic.settings)
        group.join(host_of(classic), "classic-2", classic.settings)
        group.wait_until_shared_by("classic-1", "classic-2")
        assert group_type(group) == "CLASSIC"

        group.join(host_of(new), "new-1", new.settings)
        group.wait_until_shared_by("classic-1", "classic-2", "new-1")
        assert group_type(group) == "CONSUMER"
        group.leave("classic-1")
        group.join(host_of(new), "new-2", new.settings)
        group.wait_until_shared_by("classic-2", "new-1", "new-2")
        group.leave("classic-2")
        group.wait_until_shared_by("new-1", "new-2")
        assert group_type(group) == "CONSUMER"

        group.join(host_of(classic), "classic-3", classic.settings)
        group.wait_until_shared_by("new-1", "new-2", "classic-3")
        group.leave("new-1", "new-2")
        group.wait_until_shared_by("classic-3")
        assert group_type(group) == "CLASSIC"
    # A commit in flight while the group changes its type may be rejected, so records may be delivered again.
    finish(group, load.written, is_exactly_once=False)


def test_an_empty_group_takes_the_type_of_its_next_member(group_cluster: Broker, host_of: StartHost) -> None:
    """Its committed offsets stay in either case."""
    topic = create_topic(group_cluster.bootstrap, "retyped", partitions=PARTITION_COUNT)
    group = Group(group_cluster.bootstrap, new_name("retyped"), topic, partition_count=PARTITION_COUNT)
    with Load(group.bootstrap, topic) as load:
        for number, client in enumerate([members.JAVA_RANGE, members.JAVA_NEW, members.JAVA_COOPERATIVE]):
            group.join(host_of(client), f"member-{number}", client.settings)
            group.wait_until_shared_by(f"member-{number}")
            assert group_type(group) == ("CONSUMER" if client.is_new else "CLASSIC")
            group.leave(f"member-{number}")
        group.join(host_of(members.JAVA_NEW), "last", members.JAVA_NEW.settings)
        group.wait_until_shared_by("last")
    finish(group, load.written, is_exactly_once=True)
