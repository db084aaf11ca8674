"""Calls that are wrong in one way each. Never run: type checkers have to find what is marked, and nothing else."""

from __future__ import annotations

from penstock import Admin, TopicPartition
from penstock.admin import NewTopic


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
