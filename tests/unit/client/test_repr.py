"""The `repr` of clients, without secrets."""

from __future__ import annotations

import re

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition, aio


@pytest.mark.parametrize("make", [Consumer, aio.Consumer], ids=["threads", "asyncio"])
def test_a_consumer_shows_what_it_reads(make: type[Consumer] | type[aio.Consumer]) -> None:
    assert repr(make(bootstrap_servers="a:1")) == "<Consumer of nothing at a:1>"
    assert repr(make("x", "b", group="g")) == "<Consumer of b, x in group g at localhost:9092>"
    assert repr(make(re.compile("o.*"))) == "<Consumer of re.compile('o.*') at localhost:9092>"
    assert repr(make(TopicPartition("orders", 2))) == "<Consumer of orders-2 at localhost:9092>"


def test_a_closed_client_shows_it() -> None:
    consumer, producer = Consumer("orders"), Producer("a:1,b:2")

    consumer.close()
    producer.close()

    assert repr(consumer) == "<Consumer of orders at localhost:9092, closed>"
    assert repr(producer) == "<Producer at a:1,b:2, closed>"


def test_producers_and_admins_show_their_cluster() -> None:
    assert repr(Producer("a:1")) == repr(aio.Producer("a:1")) == "<Producer at a:1>"
    assert repr(Admin("a:1")) == repr(aio.Admin("a:1")) == "<Admin at a:1>"
    assert repr(Admin(bootstrap_controllers="c:1")) == "<Admin at c:1>"
