"""Members of every client come through crashes of their broker: nobody is lost, and nothing that they should read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compat.conftest import GROUP_SETTINGS, StartHost
from compat.groups import members
from compat.groups.history import delivery_faults
from compat.groups.members import Group
from compat.groups.state import committed_offsets, end_offsets
from harness.admin import create_topic
from harness.brokers import Broker
from harness.load import Load

PARTITION_COUNT = 4
CRASH_COUNT = 2
CLIENTS = [
    members.CONFLUENT_COOPERATIVE,
    members.CONFLUENT_NEW,
    members.AIOKAFKA,
    members.KAFKA_PYTHON,
    members.JAVA_RANGE,
    members.JAVA_NEW,
    members.KAFKAJS,
    members.FRANZ_COOPERATIVE,
    members.PENSTOCK_RANGE,
    members.PENSTOCK_COOPERATIVE,
    members.PENSTOCK_NEW,
]


def test_members_of_every_client_go_on_after_a_crash(
    tmp_path: Path, make_broker: Callable[..., Broker], host_of: StartHost
) -> None:
    # A KRaft broker that was killed is not let in again before its old session ends.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings={**GROUP_SETTINGS, **session})
    broker.start()
    try:
        topic = create_topic(broker.bootstrap, "crash", partitions=PARTITION_COUNT)
        groups = {
            client: Group(broker.bootstrap, f"crash-{client}", topic, partition_count=PARTITION_COUNT)
            for client in CLIENTS
        }
        with Load(broker.bootstrap, topic) as load:
            for client, group in groups.items():
                for name in ("a", "b"):
                    group.join(host_of(client), name, client.settings)
            for group in groups.values():
                group.wait_until_shared_by("a", "b")
            for _ in range(CRASH_COUNT):
                broker.kill()
                broker.start()
                load.wait_for_more()
                written = dict(load.written)
                for group in groups.values():
                    group.wait_until_read(written)
        for group in groups.values():
            group.wait_until_read(load.written)
            group.leave_all()
        for client, group in groups.items():
            # What was read and not committed when the broker died may come again; and where it was away longer than a
            # session, a partition may have gone on before its member heard of it.
            found = delivery_faults(group.history.events(), load.written, is_exactly_once=False)
            assert (str(client), found) == (str(client), [])
            assert committed_offsets(group) == end_offsets(group), client
    finally:
        broker.close()
    broker.check_output()
