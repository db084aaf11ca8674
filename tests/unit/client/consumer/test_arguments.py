"""Arguments of a consumer, valid and invalid."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest

import penstock
from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.consumer import arguments
from penstock.client.consumer.commits import Interceptors, consumed, offsets_of
from penstock.client.group.types import Offset, Subscription
from penstock.records.consuming import Message

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_topics_may_be_one_several_or_a_pattern() -> None:
    pattern = re.compile("orders-.*")

    assert arguments.subscription_of("orders") == Subscription(frozenset({"orders"}))
    assert arguments.subscription_of(["orders", "bills"]) == Subscription(frozenset({"orders", "bills"}))
    assert arguments.subscription_of(pattern) == Subscription(pattern=pattern)
    assert arguments.subscription_of(None, "orders-.*") == Subscription(pattern="orders-.*")


@pytest.mark.parametrize("given", [[], [""], [1], None, b"orders", 7])
def test_invalid_topics_are_rejected(given: Any) -> None:
    with pytest.raises(errors.BadArgument):
        arguments.subscription_of(given)


@pytest.mark.parametrize("face", [penstock.Consumer, penstock.aio.Consumer])
@pytest.mark.parametrize("given", ["localhost:9092", "a:9092,b:9092", "PLAINTEXT://a:9092", "[::1]:9092"])
def test_an_address_is_not_accepted_as_a_topic(face: Any, given: str) -> None:
    """The consumer subscribed to a topic of that name, and waited forever."""
    partition = TopicPartition(given, 0)
    for arguments_ in [(given,), ("orders", given), ([given],), (partition,)]:
        with pytest.raises(errors.BadArgument, match=r'write Consumer\("orders", bootstrap_servers='):
            face(*arguments_)
    with pytest.raises(errors.BadArgument, match="address"):
        face().subscribe(["orders", given])


@pytest.mark.parametrize("face", [penstock.Consumer, penstock.aio.Consumer])
def test_a_consumer_takes_a_mapping_of_settings_first(face: Any) -> None:
    """Its keys were taken as topics, while a producer took it as settings."""
    settings = {"bootstrap.servers": "a:9092", "group.id": "billing"}

    consumer = face(settings, "orders", auto_offset_reset="earliest")

    assert consumer.settings.get("group.id") == "billing"
    assert consumer.settings.get("auto.offset.reset") == "earliest"
    assert consumer.subscription() == {"orders"}
    assert face(settings).subscription() == frozenset()
    assert face(settings, P0).assignment() == {P0}
    with pytest.raises(errors.BadArgumentType, match="first"):
        face("orders", settings)
    with pytest.raises(errors.BadConfiguration, match="bootstrap"):
        face(settings, "orders", bootstrap_servers="b:9092")
    with pytest.raises(errors.BadConfiguration, match=r"group\.ids"):
        face({"group.ids": "billing"})


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.subscribe({"orders": 1}),
        lambda consumer: consumer.subscribe([b"orders"]),
        lambda consumer: consumer.assign("orders"),
        lambda consumer: consumer.assign({"orders": 0}),
        lambda consumer: consumer.seek("orders", 0),
        lambda consumer: consumer.seek(P0, "0"),
        lambda consumer: consumer.seek_to_beginning("orders"),
        lambda consumer: consumer.seek_to_time("yesterday"),
        lambda consumer: consumer.pause("orders"),
        lambda consumer: consumer.resume("orders"),
        lambda consumer: consumer.committed("orders"),
        lambda consumer: consumer.commit("orders"),
        lambda consumer: consumer.commit(5),
        lambda consumer: consumer.commit({"orders": 5}),
        lambda consumer: consumer.commit_async(on_done=5),
        lambda consumer: consumer.offsets_for_times("orders"),
        lambda consumer: consumer.end_offsets("orders"),
        lambda consumer: consumer.topic_id(["orders"]),
        lambda consumer: consumer.poll(max_records="5"),
    ],
)
def test_arguments_of_the_wrong_type_raise_bad_argument_type(call: Any) -> None:
    consumer = penstock.Consumer(P0, group="billing")
    if call.__code__.co_names[0] == "subscribe":
        consumer.unsubscribe()
    with pytest.raises(errors.BadArgumentType, match=r"must be .+, not (the|bytes)"):
        call(consumer)


def test_group_metadata_is_available_before_anything_was_read() -> None:
    """Both raised "no running event loop" as the first call of a sync consumer."""
    with penstock.Consumer(P0, bootstrap_servers="127.0.0.1:1", group="billing") as consumer:
        assert consumer.group_metadata().group_id == "billing"
    with penstock.Consumer(P0, bootstrap_servers="127.0.0.1:1", group="billing") as consumer:
        consumer.commit_async()


def test_settings_must_be_a_mapping() -> None:
    for face in (penstock.Consumer, penstock.Producer, penstock.Admin):
        with pytest.raises(errors.BadArgumentType, match=r"settings must be a mapping .* 'linger.ms=5'"):
            face(settings="linger.ms=5")  # type: ignore[operator]


def test_an_invalid_pattern_is_rejected() -> None:
    with pytest.raises(errors.BadArgument, match="not a regular expression"):
        arguments.subscription_of(None, "(")
    with pytest.raises(errors.BadArgument, match="not both"):
        arguments.subscription_of(["orders"], "orders-.*")


def test_partitions_may_be_single_or_lists() -> None:
    assert arguments.partitions_of([P0, ("orders", 1), [P0, P1]]) == [P0, P1]
    for wrong in ("orders", ("orders", -1), ("orders", True), 5, ("", 0)):
        with pytest.raises(errors.BadArgument):
            arguments.partitions_of([wrong])


def test_seek_accepts_offsets_and_messages() -> None:
    assert arguments.place_of(5, P0) == (5, -1)
    assert arguments.place_of(Offset(5, 2), P0) == (5, 2)
    assert arguments.place_of(Message("orders", 0, 7), P0) == (7, -1)
    for wrong in (-1, "5", True, None):
        with pytest.raises(errors.BadArgument):
            arguments.place_of(wrong, P0)


def test_times_are_milliseconds_or_datetimes() -> None:
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)

    assert arguments.timestamps_of({P0: moment, P1: 5}) == {P0: 1_700_000_000_000, P1: 5}
    for wrong in (-1, "now", 1.5):
        with pytest.raises(errors.BadArgument):
            arguments.timestamp_of(wrong)


def test_commit_accepts_messages_and_offsets() -> None:
    messages = [Message("orders", 0, 5, leader_epoch=3), Message("orders", 0, 4), Message("orders", 1, 9)]

    assert offsets_of(messages) == {P0: Offset(6, 3), P1: Offset(10)}
    assert offsets_of(messages[0]) == {P0: Offset(6, 3)}
    assert offsets_of({P0: 7, ("orders", 1): Offset(8, 1, "note")}) == {
        P0: Offset(7),
        P1: Offset(8, 1, "note"),
    }  # type: ignore[dict-item]
    assert offsets_of([]) == {}
    for wrong in ({P0: -1}, {P0: "7"}, {"orders": 7}, ["orders"]):
        with pytest.raises(errors.BadArgument):
            offsets_of(wrong)  # type: ignore[arg-type]


def test_partitions_without_a_position_are_not_committed() -> None:
    from penstock.client.consumer.positions import Positions, ResetPolicy
    from penstock.runtime.backoff import Backoff

    positions = Positions(ResetPolicy("earliest", lambda: 0), has_group=True, backoff=Backoff(1, 1, jitter=0))
    positions.assign([P0, P1])
    positions.seek(P0, 5)

    assert consumed(positions) == {P0: Offset(5)}


def test_interceptors_run_in_order_and_a_failing_one_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Skips:
        def on_consume(self, messages: list[Message]) -> list[Message]:
            return messages[1:]

    class Fails:
        def on_consume(self, messages: list[Message]) -> list[Message]:
            raise RuntimeError("out of order")

        def on_commit(self, offsets: Any) -> None:
            raise RuntimeError("out of order")

    messages = [Message("orders", 0, offset) for offset in range(3)]
    interceptors = Interceptors([Skips(), Fails, Skips])

    assert interceptors.on_consume(messages) == messages[2:]
    interceptors.on_commit({})
    interceptors.close()
    assert "out of order" in caplog.text


def test_an_interceptor_may_be_given_by_its_import_path() -> None:
    assert Interceptors(["collections.OrderedDict"])
    with pytest.raises(errors.BadConfiguration):
        Interceptors(["no.such:Interceptor"])


def test_a_listener_with_misspelled_methods_is_rejected() -> None:
    """It was never notified, without any error."""

    class Listener:
        def on_assigned(self, partitions: Any) -> None: ...

    with pytest.raises(errors.BadArgument, match="on_partitions_assigned"):
        arguments.check_listener(Listener())
    arguments.check_listener(None)
    arguments.check_listener(arguments.RebalanceListener)
