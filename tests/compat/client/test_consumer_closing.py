"""A consumer that is closed leaves nothing open, whatever it was used for."""

from __future__ import annotations

import gc

from harness.admin import create_topic
from harness.brokers import Broker
from penstock import Consumer, TopicPartition


def test_a_consumer_that_was_only_asked_about_a_topic_leaves_no_socket_open(cluster: Broker) -> None:
    """Warnings are errors here, and a socket that is collected unclosed warns."""
    topic = create_topic(cluster.bootstrap, "asked")

    with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        assert len(consumer.partitions_for(topic)) == 1
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}

    del consumer
    gc.collect()
