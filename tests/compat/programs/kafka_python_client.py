"""Writes and reads records with kafka-python: 1.4.7 (of 2019) or the newest, depending on the interpreter.

    kafka_python_client.py produce BOOTSTRAP API_VERSION   jobs as JSON on stdin
    kafka_python_client.py consume BOOTSTRAP API_VERSION   {topic: count} as JSON on stdin, {topic: lines} on
    stdout

API_VERSION is `auto` or pins the protocol of an older broker (such as 0.10), and with it the older message formats.
Records have the text form of `harness.samples`, implemented again because the interpreter of 1.4.7 does not share
the tests' libraries.
"""

import base64
import json
import sys
import time
import warnings
from importlib.metadata import version

warnings.simplefilter("ignore")  # an old library on a new interpreter, so warnings are expected

if version("kafka-python").startswith("1."):
    # The copy of `six` inside 1.4.7 relies on an import hook that Python 3.12 removed; the current `six` replaces
    # it.
    import six
    import six.moves

    sys.modules["kafka.vendor.six"] = six
    sys.modules["kafka.vendor.six.moves"] = six.moves

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # noqa: E402, after the stand-in

READ_SECONDS = 60.0


def main(mode, bootstrap, api_version):
    options = {"bootstrap_servers": bootstrap}
    if api_version != "auto":
        options["api_version"] = tuple(int(part) for part in api_version.split("."))
    work = json.load(sys.stdin)
    if mode == "produce":
        for job in work:
            produce(options, **job)
    else:
        json.dump(consume(options, work), sys.stdout)


def produce(options, topic, codec, lines):
    producer = KafkaProducer(
        acks="all", compression_type=None if codec == "none" else codec, linger_ms=20, **options
    )
    futures = []
    for line in lines.splitlines():
        _offset, timestamp, key, value, headers = line.split("\t")
        futures.append(
            producer.send(
                topic,
                decode(value),
                key=decode(key),
                partition=0,
                timestamp_ms=None if timestamp == "-" else int(timestamp),
                headers=[
                    (part.split("=", 1)[0], decode(part.split("=", 1)[1]))
                    for part in headers.split(",")
                    if part
                ],
            )
        )
    for future in futures:
        future.get(READ_SECONDS)
    producer.close()


def consume(options, counts):
    consumer = KafkaConsumer(group_id=None, auto_offset_reset="earliest", **options)
    consumer.assign([TopicPartition(topic, 0) for topic in counts])
    lines = {topic: [] for topic in counts}
    deadline = time.monotonic() + READ_SECONDS
    while any(len(lines[topic]) < count for topic, count in counts.items()) and time.monotonic() < deadline:
        for partition, messages in consumer.poll(timeout_ms=1000).items():
            lines[partition.topic].extend(line_of(message) for message in messages)
    consumer.close()
    return {topic: "\n".join(parts) for topic, parts in lines.items()}


def line_of(message):
    headers = ",".join(f"{name}={encode(value)}" for name, value in message.headers)
    timestamp = "-" if message.timestamp is None else str(message.timestamp)
    return "\t".join([str(message.offset), timestamp, encode(message.key), encode(message.value), headers])


def encode(data):
    return "-" if data is None else base64.b64encode(data).decode()


def decode(text):
    return None if text == "-" else base64.b64decode(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
