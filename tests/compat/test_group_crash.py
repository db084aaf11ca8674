"""Members of every client survive crashes of their broker: no member and no record is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from compat.conftest import GROUP_SETTINGS, SHORT_BROKER_SESSION, StartHost
from compat.groups import members
from compat.groups.crashes import (
    check_groups,
    join_two_members_each,
    make_groups,
    wait_until_groups_continue,
)
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


def test_members_of_every_client_continue_after_crashes(
    tmp_path: Path, make_broker: Callable[..., Broker], host_of: StartHost
) -> None:
    broker = make_broker(tmp_path / "broker", settings={**GROUP_SETTINGS, **SHORT_BROKER_SESSION})
    broker.start()
    try:
        topic = create_topic(broker.bootstrap, "crash", partitions=PARTITION_COUNT)
        groups = make_groups(CLIENTS, broker.bootstrap, "crash", topic, PARTITION_COUNT)
        with Load(broker.bootstrap, topic) as load:
            join_two_members_each(groups, host_of)
            for _ in range(CRASH_COUNT):
                broker.kill()
                broker.start()
                wait_until_groups_continue(groups, load)
        check_groups(groups, load.written)
    finally:
        broker.close()
    broker.check_output()
