"""Administers a topic with the newest kafka-python, and prints what it found as JSON.

kafka_python_admin.py BOOTSTRAP TOPIC
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition  # noqa: E402, after warnings are silenced
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec  # noqa: E402


def main(bootstrap, topic):
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    options = {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "1000000"}}
    client.create_topics({topic: options}, wait_for_metadata=True)
    found = {"is listed": topic in client.list_topics()}

    client.create_partitions({topic: 3})
    found["partitions"] = len(client.describe_topics([topic])[0]["partitions"])
    found["configs"] = configs(client, topic)
    change = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "2000000", "flush.ms": "777"})
    client.alter_configs([change])
    found["altered"] = configs(client, topic)
    client.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["flush.ms"])])
    found["reset"] = configs(client, topic)

    partition = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for timestamp_ms in (1_000, 5_000, 3_000):
        producer.send(topic, b"x", partition=0, timestamp_ms=timestamp_ms)
    producer.flush()
    producer.close()
    wanted = {
        "earliest": OffsetSpec.EARLIEST,
        "latest": OffsetSpec.LATEST,
        "max timestamp": OffsetSpec.MAX_TIMESTAMP,
        "for 2000": 2_000,
    }
    found["offsets"] = {
        name: client.list_partition_offsets({partition: spec})[partition].offset
        for name, spec in wanted.items()
    }
    found["producers"] = len(client.describe_producers([partition])[partition].active_producers)
    found["low watermark"] = client.delete_records({partition: 2})[partition]["low_watermark"]
    found["log size"] = sum(sizes(client.describe_log_dirs([topic])))

    found["metadata.version"] = client.describe_features()["metadata.version"]["finalized"][1]
    found["controller"] = client.describe_cluster()["controller_id"]
    found["quorum leader"] = client.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"]

    client.delete_topics([topic])
    found["is listed after deletion"] = topic in client.list_topics()
    client.close()
    print(json.dumps(found))


def configs(client, topic):
    """The topic's own settings."""
    described = client.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
    )
    entries = next(iter(next(iter(described.values())).values()))
    source = {name: entry.get("config_source") for name, entry in entries.items()}
    return {name: entry["value"] for name, entry in entries.items() if "TOPIC" in str(source[name])}


def sizes(brokers):
    for broker in brokers:
        for directory in broker["log_dirs"] if "log_dirs" in broker else broker["results"]:
            for topic in directory["topics"]:
                for partition in topic["partitions"]:
                    yield partition["partition_size"]


if __name__ == "__main__":
    main(*sys.argv[1:])
