"""A consumer that is closed leaves nothing open, whatever it was used for."""

from __future__ import annotations

import gc
import threading

import pytest

from harness.admin import create_topic
from harness.brokers import Broker
from harness.waiting import wait_until
from penstock import Consumer, Producer, TopicPartition, errors


def test_a_consumer_that_was_only_asked_about_a_topic_leaves_no_socket_open(cluster: Broker) -> None:
    """Warnings are errors here, and a socket that is collected unclosed warns."""
    topic = create_topic(cluster.bootstrap, "asked")

    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        assert len(consumer.partitions_for(topic)) == 1
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}

    del consumer
    gc.collect()


def test_a_loop_that_another_thread_closes_just_ends(cluster: Broker) -> None:
    """It was told of concurrent use, whenever it asked for more before the other thread was done with closing."""
    topic = create_topic(cluster.bootstrap, "closed")
    with Producer(cluster.bootstrap) as producer:
        for number in range(2_000):
            producer.send(topic, str(number))
    consumer = Consumer(topic, bootstrap_servers=cluster.bootstrap, max_poll_records=1)
    is_reading = threading.Event()

    def close() -> None:
        is_reading.wait()
        consumer.close()

    closer = threading.Thread(target=close)
    closer.start()
    for _ in consumer:
        is_reading.set()
    closer.join()


def test_a_consumer_that_reads_nothing_is_collected_in_silence(
    cluster: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its task was collected before its loop had ended it, and asyncio complained."""
    before = set(threading.enumerate())
    consumer = Consumer(bootstrap_servers=cluster.bootstrap)
    with pytest.raises(errors.IllegalState):
        consumer.poll(0)
    own = [each for each in threading.enumerate() if each not in before]

    del consumer
    gc.collect()
    wait_until(lambda: not any(each.is_alive() for each in own), "its thread ends")

    assert caplog.messages == []
