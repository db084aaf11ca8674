"""Sessions of brokers: who is alive, who must be fenced, and when."""

from __future__ import annotations

from penstock.controller.heartbeats import BrokerSessions
from penstock.metadata.records import BrokerRegistrationChangeRecord
from unit.controller.clusters import cluster

TIMEOUT_MS = 9000


def test_a_new_active_controller_gives_brokers_a_full_session_timeout() -> None:
    sessions = BrokerSessions.build(cluster(2), 500, TIMEOUT_MS)

    assert sessions.expired(500 + TIMEOUT_MS - 1) == []
    assert sessions.expired(500 + TIMEOUT_MS) == [1, 2]
    assert sessions.next_expiry_ms() == 500 + TIMEOUT_MS


def test_a_broker_is_alive_only_after_a_heartbeat_to_this_controller() -> None:
    sessions = BrokerSessions.build(cluster(1), 0, TIMEOUT_MS)
    assert not sessions.is_alive(1, now_ms=0)

    sessions.touch(1, now_ms=100, metadata_offset=7)

    assert sessions.is_alive(1, now_ms=100 + TIMEOUT_MS - 1)
    assert not sessions.is_alive(1, now_ms=100 + TIMEOUT_MS)


def test_the_longest_silent_broker_is_fenced_first() -> None:
    sessions = BrokerSessions.build(cluster(3), 0, TIMEOUT_MS)
    sessions.touch(1, now_ms=30, metadata_offset=7)
    sessions.touch(2, now_ms=10, metadata_offset=7)
    sessions.touch(3, now_ms=20, metadata_offset=7)

    assert sessions.expired(TIMEOUT_MS + 20) == [2, 3]
    assert sessions.next_expiry_ms() == TIMEOUT_MS + 10


def test_a_heartbeat_does_not_renew_a_session_whose_broker_is_being_fenced() -> None:
    sessions = BrokerSessions.build(cluster(2), 0, TIMEOUT_MS)
    sessions.touch(2, now_ms=TIMEOUT_MS, metadata_offset=7)
    sessions.began_fencing(1)

    sessions.touch(1, now_ms=TIMEOUT_MS, metadata_offset=7)

    assert sessions.expired(TIMEOUT_MS) == [1]
    assert sessions.next_expiry_ms() == TIMEOUT_MS
    assert [sessions.is_being_fenced(node_id) for node_id in (1, 2, 3)] == [True, False, False]


def test_a_fenced_broker_does_not_expire() -> None:
    image = cluster(1)
    sessions = BrokerSessions.build(image, 0, TIMEOUT_MS)

    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=image.brokers[1].epoch, fenced=1)
    sessions.apply(image.apply([change], offset=image.offset + 1, epoch=1), now_ms=5)

    assert sessions.expired(10 * TIMEOUT_MS) == []
    assert sessions.next_expiry_ms() is None
    assert sessions.lowest_active_offset() is None


def test_the_lowest_active_offset_is_that_of_the_slowest_active_broker() -> None:
    image = cluster(3)
    sessions = BrokerSessions.build(image, 0, TIMEOUT_MS)
    for node_id, offset in ((1, 5), (2, 3), (3, 9)):
        sessions.touch(node_id, now_ms=1, metadata_offset=offset)
    assert sessions.lowest_active_offset() == 3

    change = BrokerRegistrationChangeRecord(
        broker_id=2, broker_epoch=image.brokers[2].epoch, in_controlled_shutdown=1
    )
    sessions.apply(image.apply([change], offset=image.offset + 1, epoch=1), now_ms=5)

    assert sessions.lowest_active_offset() == 5
