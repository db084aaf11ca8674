"""Which partitions a query reads, on a real broker, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock import Admin, TopicPartition
from penstock.spark import clients
from penstock.spark.batch import PenstockReader
from penstock.spark.errors import CannotRead, DataLost
from penstock.spark.lookup import Lookup
from penstock.spark.options import Options, Use
from penstock.spark.reading import RangeReader
from penstock.spark.sink import DECISIONS_TOPIC
from penstock.spark.stream import PenstockStreamReader
from penstock.testing import Broker


@pytest.fixture(autouse=True)
def no_client_stays_behind() -> Iterator[None]:
    yield
    clients.POOL.clear()


def lookup(broker: Broker, **chosen: str) -> Lookup:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **chosen}
    return Lookup(Options.read(given, Use.STREAM_READ))


def create(broker: Broker, *names: str) -> None:
    with broker.admin() as admin:
        for name in names:
            admin.create_topic(name, partitions=1)


def test_a_pattern_does_not_match_the_decision_topic(penstock: Broker) -> None:
    create(penstock, "orders", DECISIONS_TOPIC)
    by_pattern = lookup(penstock, subscribePattern=".*")

    assert by_pattern.found().partitions == (TopicPartition("orders", 0),)
    assert not by_pattern.reads(TopicPartition(DECISIONS_TOPIC, 0))
    assert lookup(penstock, subscribe=DECISIONS_TOPIC).found().partitions == (
        TopicPartition(DECISIONS_TOPIC, 0),
    )


def test_a_pattern_may_match_any_part_of_a_name(penstock: Broker) -> None:
    create(penstock, "new-orders", "orders", "prices")

    found = lookup(penstock, subscribePattern="order").found()
    exact = lookup(penstock, subscribePattern="^order").found()

    assert [each.topic for each in found.partitions] == ["new-orders", "orders"]
    assert [each.topic for each in exact.partitions] == ["orders"]


def test_assigned_partitions_that_do_not_exist_are_missing(penstock: Broker) -> None:
    create(penstock, "orders")
    found = lookup(penstock, assign='{"orders": [0, 9], "nothing": [0]}').found()

    assert found.partitions == (TopicPartition("orders", 0),)
    assert found.missing == ("topic nothing", "partition orders-9")


def test_a_cluster_that_is_unavailable_for_too_long_is_named_with_the_request(penstock: Broker) -> None:
    impatient = {"kafka.default.api.timeout.ms": "200", "kafka.request.timeout.ms": "100"}
    place = penstock.bootstrap_servers
    reader = stream(penstock, subscribe="orders", **impatient, **{"fetchOffset.numRetries": "1"})
    penstock.kill()

    with pytest.raises(
        CannotRead, match=rf"cannot get the partitions of orders from {place} after 2 attempts: "
    ):
        reader.initialOffset()


class Between:
    """Does something on the cluster once, as soon as the admin client has the response to a request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, question: str, then: Callable[[], object]) -> None:
        ask = getattr(Admin, question)

        def asked(admin: Admin, *given: Any, **more: Any) -> Any:
            answer = ask(admin, *given, **more)
            monkeypatch.undo()
            then()
            return answer

        monkeypatch.setattr(Admin, question, asked)


def stream(broker: Broker, **chosen: str) -> PenstockStreamReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest", **chosen}
    options = Options.read({**given, "fetchOffset.retryIntervalMs": "1"}, Use.STREAM_READ)
    return PenstockStreamReader(options, RangeReader(options, ("value",)), cores=2)


NO_TOPIC_BY_ITSELF = pytest.mark.penstock(settings={"auto.create.topics.enable": False})


@NO_TOPIC_BY_ITSELF
def test_a_topic_deleted_after_it_was_listed_does_not_match_a_pattern(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(penstock, "orders-a", "orders-b")
    admin = penstock.admin()
    Between(monkeypatch, "list_topics", lambda: admin.delete_topic("orders-b"))

    found = lookup(penstock, subscribePattern="orders-.*").found()

    assert found.partitions == (TopicPartition("orders-a", 0),)
    assert found.missing == ()


@NO_TOPIC_BY_ITSELF
@pytest.mark.parametrize("question", ["list_topics", "describe_topics"])
def test_a_topic_deleted_during_a_streams_lookup_is_lost(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    create(penstock, "orders-a", "orders-b")
    admin = penstock.admin()
    strict = stream(penstock, subscribePattern="orders-.*")
    lenient = stream(penstock, subscribePattern="orders-.*", failOnDataLoss="false")
    start = strict.initialOffset()
    Between(monkeypatch, question, lambda: admin.delete_topic("orders-b"))

    with pytest.raises(
        DataLost, match=r"topic orders-b was deleted; it was read up to offset 0 of orders-b-0"
    ):
        strict.latestOffset(start, strict.getDefaultReadLimit())
    after = lenient.latestOffset(start, lenient.getDefaultReadLimit())

    assert list(after) == ["orders-a", "@ids"]
    assert lenient.partitions(start, after) == []


@NO_TOPIC_BY_ITSELF
@pytest.mark.parametrize("question", ["list_topics", "describe_topics"])
def test_a_topic_deleted_while_a_query_starts_is_ignored(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    create(penstock, "orders-a", "orders-b")
    admin = penstock.admin()
    Between(monkeypatch, question, lambda: admin.delete_topic("orders-b"))

    start = stream(penstock, subscribePattern="orders-.*").initialOffset()

    assert list(start) == ["orders-a", "@ids"]


@NO_TOPIC_BY_ITSELF
def test_a_new_topic_deleted_before_it_is_read_is_a_loss(penstock: Broker) -> None:
    create(penstock, "orders-a")
    admin = penstock.admin()
    strict = stream(penstock, subscribePattern="orders-.*")
    lenient = stream(penstock, subscribePattern="orders-.*", failOnDataLoss="false")
    start = strict.initialOffset()
    create(penstock, "orders-b")
    with penstock.producer() as producer:
        producer.send("orders-b", b"x")
    planned = strict.latestOffset(start, strict.getDefaultReadLimit())
    assert lenient.latestOffset(start, lenient.getDefaultReadLimit()) == planned
    admin.delete_topic("orders-b")

    with pytest.raises(DataLost, match=r"cannot read orders-b-0 up to offset 1: the partition was deleted"):
        strict.partitions(start, planned)
    assert lenient.partitions(start, planned) == []


@NO_TOPIC_BY_ITSELF
def test_a_topic_created_during_a_streams_lookup_is_read_in_the_next_batch(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(penstock, "orders-a")
    reader = stream(penstock, subscribePattern="orders-.*")
    start = reader.initialOffset()
    Between(monkeypatch, "list_topics", lambda: create(penstock, "orders-b"))

    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    with penstock.producer() as producer:
        producer.send("orders-b", b"x")
    second = reader.latestOffset(first, reader.getDefaultReadLimit())

    assert list(first) == ["orders-a", "@ids"]
    assert second["orders-b"] == {"0": 1}
    assert [str(each) for each in reader.partitions(first, second)] == ["offsets [0, 1) of orders-b-0"]


@NO_TOPIC_BY_ITSELF
def test_a_topic_deleted_while_a_batch_is_planned_does_not_match_a_pattern(
    penstock: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(penstock, "orders-a", "orders-b")
    with penstock.producer() as producer:
        producer.send("orders-a", b"x")
        producer.send("orders-b", b"x")
    given = {"kafka.bootstrap.servers": penstock.bootstrap_servers, "fetchOffset.retryIntervalMs": "1"}
    options = Options.read({**given, "subscribePattern": "orders-.*"}, Use.BATCH_READ)
    admin = penstock.admin()
    Between(monkeypatch, "describe_topics", lambda: admin.delete_topic("orders-b"))

    planned = PenstockReader(options, RangeReader(options, ("value",)), cores=2).partitions()

    assert [str(each) for each in planned] == ["offsets [0, 1) of orders-a-0"]
