"""Calls that are wrong in one way each. Never run: type checkers must find the marked lines, and nothing else."""

from __future__ import annotations

from penstock import Admin, Consumer, Producer, TopicPartition, aio, errors
from penstock.admin import NewTopic
from penstock.streams import Stream, Table


def make_admins() -> None:
    Admin("localhost:9092", request_timeout_ms=5)
    Admin("localhost:9092", request_timeout_ms="five")  # wrong
    Admin("localhost:9092", request_timeout=5)  # wrong
    Admin("localhost:9092", group_id="billing")  # wrong
    Admin("localhost:9092", security_protocol="TLS")  # wrong
    Admin(9092)  # wrong


def ask(admin: Admin) -> None:
    admin.create_topic(5)  # wrong
    admin.create_topic("orders", partitions="three")  # wrong
    admin.create_topics([NewTopic("orders")])  # wrong
    admin.no_such_call()  # wrong
    name: int = admin.list_topics()[0].name  # wrong
    admin.describe_producers([TopicPartition("orders", "0")])  # wrong
    print(name)


def make_producers() -> None:
    Producer("localhost:9092", linger_ms=5, acks=1, compression_type="lz4", serializer=len)
    Producer("localhost:9092", linger_ms=0.5)  # wrong
    Producer("localhost:9092", acks="most")  # wrong
    Producer("localhost:9092", compression_type="zip")  # wrong
    Producer("localhost:9092", serializer=5)  # wrong
    Producer("localhost:9092", deserializer="json")  # wrong
    Producer("localhost:9092", lingr_ms=5)  # wrong


def make_consumers() -> None:
    Consumer("orders", group="billing", enable_auto_commit=False)
    Consumer("orders", group=5)  # wrong
    Consumer("orders", enable_auto_commit="no")  # wrong
    Consumer("orders", isolation_level="serializable")  # wrong
    Consumer(5)  # wrong


def use(producer: Producer, consumer: Consumer, later: aio.Consumer) -> None:
    producer.send(b"orders", b"value")  # wrong
    producer.send("orders", b"value", partition="0")  # wrong
    producer.send("orders", b"value", b"key")  # wrong
    producer.send("orders", b"value", headers={"trace": 1})  # wrong
    text: str = producer.send("orders", b"value").result().offset  # wrong
    for message in consumer:
        offset: str = message.offset  # wrong
        print(offset)
    print(list(later))  # wrong
    consumer.seek(("orders", 0, 5), 5)  # wrong
    consumer.subscribe(5)  # wrong
    producer.send_offsets({"orders": 5}, "billing")  # wrong
    producer.send_offsets(producer)  # wrong
    print(text, errors.NoSuchError)  # wrong


def stream(words: Stream[str, str], counts: Table[str, int]) -> None:
    words.map_values(len).filter(lambda length: length > 5)
    words.filter(5)  # wrong
    words.map_values(lambda word: word.no_such_name)  # wrong
    words.merge(words.map_values(len))  # wrong
    lengths: Stream[str, str] = words.map_values(len)  # wrong
    words.join(counts)  # wrong
    words.join(words, lambda one, two: one + two)  # wrong
    words.group_by_key().windowed_by(60)  # wrong
    words.group_by_key().count().suppress(60)  # wrong
    number: str = counts.get("word")  # wrong
    counts.get(5)  # wrong
    print(lengths, number)
