"""A closed consumer leaves nothing open, whatever it was used for."""

from __future__ import annotations

import gc
import threading

import pytest

from harness.admin import create_topic
from harness.brokers import Broker
from harness.waiting import wait_until
from penstock import Consumer, Producer, TopicPartition, errors


def test_a_consumer_used_only_for_queries_leaves_no_socket_open(cluster: Broker) -> None:
    """Warnings are errors here, and an unclosed socket warns when it is collected."""
    topic = create_topic(cluster.bootstrap, "asked")

    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        assert len(consumer.partitions_for(topic)) == 1
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}

    del consumer
    gc.collect()


def test_a_loop_ends_when_another_thread_closes_the_consumer(cluster: Broker) -> None:
    """It failed with concurrent use if it polled again before the other thread had finished closing."""
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


def test_a_consumer_without_a_subscription_is_collected_silently(
    cluster: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its task was collected before its loop had ended it, and asyncio warned."""
    before = set(threading.enumerate())
    consumer = Consumer(bootstrap_servers=cluster.bootstrap)
    with pytest.raises(errors.IllegalState):
        consumer.poll(0)
    own = [each for each in threading.enumerate() if each not in before]

    del consumer
    gc.collect()
    wait_until(lambda: not any(each.is_alive() for each in own), "its thread ends")

    assert caplog.messages == []
