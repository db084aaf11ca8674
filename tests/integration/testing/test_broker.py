"""`penstock.testing.Broker`: a real broker for tests, with injected faults that any client sees."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from harness.brokers import answers, penstock_environment
from harness.waiting import wait_until
from penstock import errors
from penstock.testing import Broker, BrokerFailed, PendingFault

pytestmark = pytest.mark.penstock_only("tests Penstock's test broker")
WAIT_SECONDS = 30.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_a_broker_serves_and_leaves_nothing_behind() -> None:
    broker = Broker()
    folder = broker.folder
    assert answers(broker.port)
    assert "running" in repr(broker)

    broker.close()

    assert not broker.is_running
    assert not answers(broker.port)
    assert not folder.exists()


def test_it_takes_broker_settings() -> None:
    with Broker(settings={"num.partitions": 3, "auto.create.topics.enable": True}) as broker:
        deliver(broker, "events")

        topics = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(
            timeout=WAIT_SECONDS
        )

    assert len(topics.topics["events"].partitions) == 3


def test_an_invalid_setting_is_reported() -> None:
    with pytest.raises(BrokerFailed, match=r"did you mean num\.partitions"):
        Broker(settings={"num.partition": 3})


def test_a_given_folder_is_kept(tmp_path: Path) -> None:
    with Broker(folder=tmp_path / "kept") as broker:
        deliver(broker, "events", b"before")
        port = broker.port

    with Broker(folder=tmp_path / "kept", port=port) as broker:
        assert read(broker, "events", 1) == [b"before"]


def test_a_port_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BrokerFailed, match="cannot listen"):
            Broker(port=taken.getsockname()[1])


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_acknowledged_records_are_there_after_a_restart(broker: Broker, end: str) -> None:
    deliver(broker, "events", b"one")
    getattr(broker, end)()
    assert not broker.is_running
    with pytest.raises(BrokerFailed, match="is not running"):
        broker.faults.clear()

    broker.start()

    assert read(broker, "events", 1) == [b"one"]


def test_a_closed_broker_cannot_be_restarted() -> None:
    broker = Broker()
    broker.close()

    assert repr(broker) == f"<Broker {broker.bootstrap_servers}, closed>"
    with pytest.raises(BrokerFailed, match="closed"):
        broker.start()


def test_it_cannot_be_started_twice(broker: Broker) -> None:
    with pytest.raises(BrokerFailed, match="already running"):
        broker.start()


def test_a_paused_broker_answers_after_resume(broker: Broker) -> None:
    broker.pause()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("events", b"patience")
    assert producer.flush(0.2) == 1

    broker.resume()

    assert producer.flush(WAIT_SECONDS) == 0


def test_a_paused_broker_can_be_closed(broker: Broker) -> None:
    broker.pause()

    broker.close()

    assert not broker.is_running


def test_the_broker_exits_with_the_process_that_made_it() -> None:
    program = (
        "from penstock.testing import Broker; broker = Broker(); print(broker._node.running().pid); input()"
    )
    maker = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=penstock_environment(),
    )
    try:
        assert maker.stdout is not None
        broker = psutil.Process(int(maker.stdout.readline()))
        maker.send_signal(signal.SIGKILL)
        wait_until(lambda: not broker.is_running(), "the broker to end", seconds=WAIT_SECONDS)
    finally:
        maker.kill()
        maker.communicate()


# -- faults, seen by a client of another project


def test_a_client_retries_after_an_injected_error(broker: Broker) -> None:
    deliver(broker, "events", b"first")
    broker.faults.fail("Produce", "NOT_LEADER", times=2)

    deliver(broker, "events", b"second")

    assert broker.faults.pending == []
    assert read(broker, "events", 2) == [b"first", b"second"]


def test_a_lost_response_does_not_duplicate_an_idempotent_record(broker: Broker) -> None:
    broker.faults.drop_response("Produce")

    deliver(broker, "events", b"once", idempotent=True)
    deliver(broker, "events", b"after", idempotent=True)

    assert broker.faults.pending == []
    assert read(broker, "events", 2) == [b"once", b"after"]


def test_a_lost_response_duplicates_a_record_without_idempotence(broker: Broker) -> None:
    deliver(broker, "events", b"first")
    broker.faults.drop_response("Produce")

    deliver(broker, "events", b"twice")

    assert read(broker, "events", 3) == [b"first", b"twice", b"twice"]


def test_a_dropped_request_is_not_executed(broker: Broker) -> None:
    deliver(broker, "events", b"first")
    broker.faults.drop_request("Produce")

    deliver(broker, "events", b"second")
    deliver(broker, "events", b"third")

    assert read(broker, "events", 3) == [b"first", b"second", b"third"]


def test_a_silent_broker_makes_the_client_time_out(broker: Broker) -> None:
    deliver(broker, "events", b"first")
    broker.faults.silence("Produce")

    with pytest.raises(KafkaException, match=r"(?i)timed out"):
        deliver(
            broker,
            "events",
            b"second",
            **{"message.timeout.ms": 5_000, "request.timeout.ms": 4_000, "retries": 0},
        )
    assert read(broker, "events", 2) == [b"first", b"second"]


def test_a_late_response_is_accepted(broker: Broker) -> None:
    broker.faults.delay("Produce", seconds=0.05)

    deliver(broker, "events", b"late")

    assert broker.faults.pending == []


def test_metadata_can_fail_for_every_topic(broker: Broker) -> None:
    deliver(broker, "events")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    broker.faults.fail(
        "Metadata", "TOPIC_AUTHORIZATION_FAILED", times=100
    )  # the client sends more requests than it is asked to

    spoilt = admin.list_topics("events", timeout=WAIT_SECONDS)

    assert spoilt.topics["events"].error is not None
    assert spoilt.brokers


def test_pending_faults_can_be_cleared(broker: Broker) -> None:
    broker.faults.fail("Produce", "NOT_LEADER", times=1000)
    assert broker.faults.pending == [PendingFault("Produce", "fail", 1000)]

    broker.faults.clear()

    deliver(broker, "events")


# -- Penstock's clients


def test_clients_of_the_broker_are_closed_with_it() -> None:
    with Broker() as broker:
        admin = broker.admin()
        admin.create_topic("orders", partitions=2)
        producer = broker.producer(serializer="json")
        producer.send("orders", {"id": 1}, key="alice").result(WAIT_SECONDS)
        consumer = broker.consumer("orders", deserializer="json")
        (message,) = consumer.read(until="end").to_messages()
        assert (message.key, message.value) == (b"alice", {"id": 1})

    with pytest.raises(errors.ClientClosed):
        producer.send("orders", {"id": 2})


def test_a_client_that_fails_to_close_does_not_keep_the_broker() -> None:
    broker = Broker()
    broker.producer().send("orders", b"never written")
    broker.kill()

    broker.close()

    assert not broker.folder.exists()


# -- the plugin


def test_the_fixture_is_available_without_setup(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        textwrap.dedent("""
        import pytest
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        @pytest.mark.penstock(settings={"num.partitions": 2})
        def test_partitions(penstock):
            producer = Producer({"bootstrap.servers": penstock.bootstrap_servers})
            producer.produce("events", b"hello")
            assert producer.flush(30) == 0
            topics = AdminClient({"bootstrap.servers": penstock.bootstrap_servers}).list_topics("events", timeout=30)
            assert len(topics.topics["events"].partitions) == 2

        def test_failing(penstock):
            assert not penstock.is_running
        """)
    )

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*penstock's log*"])


def test_a_marker_with_unknown_arguments_fails_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.penstock(setings={"num.partitions": 3})
        def test_slip(penstock): ...

        @pytest.mark.penstock({"num.partitions": 3})
        def test_no_name(penstock): ...
        """
    )

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*takes only settings=*, not setings*"])


# -- helpers


def deliver(
    broker: Broker, topic: str, value: bytes = b"x", *, idempotent: bool = False, **settings: object
) -> None:
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": idempotent,
            "retry.backoff.ms": 10,
            "log_level": 2,
            **settings,
        }
    )

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer.produce(topic, value, on_delivery=delivered)
    assert producer.flush(WAIT_SECONDS) == 0
    if failures:
        raise KafkaException(failures[0])


def read(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(count, timeout=WAIT_SECONDS)]
    finally:
        consumer.close()
