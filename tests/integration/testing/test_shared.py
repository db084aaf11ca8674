"""One broker for all tests: unique names for each test, nothing left behind, and one broker per xdist worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import TopicPartition, errors
from penstock.testing import SharedSession
from penstock.testing.shared import SharedBroker

pytestmark = pytest.mark.penstock_only("tests Penstock's test broker")


@pytest.fixture(scope="module")
def session() -> Iterator[SharedSession]:
    with SharedSession() as session:
        yield session


def topics_of(session: SharedSession) -> list[str]:
    return [topic.name for topic in session.broker.admin().list_topics()]


def test_two_tests_with_the_same_names_do_not_see_each_other(session: SharedSession) -> None:
    with session.share() as first, session.share() as second:
        orders, others = first.topic("orders"), second.topic("orders")

        assert orders != others
        assert first.group("billing") != second.group("billing")
        assert first.name("writer") != second.name("writer")
        assert first.topic("orders") == orders


def test_topics_and_groups_are_deleted_after_the_test(session: SharedSession) -> None:
    with session.share() as shared:
        orders, billing = shared.topic("orders", partitions=2), shared.group("billing")
        shared.producer().send(orders, b"one").result(30)
        consumer = shared.consumer(orders, group=billing, auto_offset_reset="earliest")
        (message,) = consumer.poll(30)
        consumer.commit()
        assert message.value == b"one"
        assert orders in topics_of(session)
        assert len(shared.admin().describe_topic(orders).partitions) == 2

    assert orders not in topics_of(session)
    assert billing not in [group.group_id for group in session.broker.admin().list_groups()]


def test_the_clean_up_ignores_a_topic_that_was_never_created(session: SharedSession) -> None:
    with session.share() as shared:
        written = shared.topic("orders")
        shared.topic("never", create=False)

    assert written not in topics_of(session)


def test_a_broker_that_a_test_has_stopped_runs_for_the_next_test(session: SharedSession) -> None:
    with session.share() as shared:
        shared.topic("orders")
        session.broker.stop()

    with session.share() as shared:
        shared.producer().send(shared.topic("orders"), b"one").result(30)


TESTS = """
    import os

    import pytest

    @pytest.fixture(scope="session", autouse=True)
    def note_the_broker(penstock_session):
        with open("brokers.txt", "a") as file:
            print(penstock_session.broker.port, file=file)

    @pytest.mark.parametrize("number", range(6))
    def test_a_topic_of_its_own(penstock_shared, number):
        orders = penstock_shared.topic("orders")
        producer = penstock_shared.producer()
        producer.send(orders, str(number).encode()).result(30)
        consumer = penstock_shared.consumer(orders, auto_offset_reset="earliest")
        assert [message.value for message in consumer.poll(30)] == [str(number).encode()]
"""


@pytest.mark.parametrize(("options", "brokers"), [([], 1), (["-n", "2"], 2)], ids=["alone", "xdist"])
def test_a_session_starts_one_broker_per_worker(
    pytester: pytest.Pytester, options: list[str], brokers: int
) -> None:
    pytester.makepyfile(TESTS)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)

    result.assert_outcomes(passed=6)
    ports = (pytester.path / "brokers.txt").read_text().split()
    assert len(set(ports)) == len(ports) == brokers


def test_the_shared_broker_has_the_settings_of_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npenstock_shared_settings =\n    num.partitions = 3\n")
    pytester.makepyfile(
        """
        def test_partitions(penstock_shared):
            orders = penstock_shared.topic("orders")
            assert len(penstock_shared.admin().describe_topic(orders).partitions) == 3
        """
    )

    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_settings_of_one_test_are_rejected_with_the_shared_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.penstock(settings={"num.partitions": 3})
        def test_own(penstock_shared): ...
        """
    )

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*use the fixture penstock, or set penstock_shared_settings*"])


def test_a_failing_test_shows_what_the_shared_broker_logged_during_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def log(session, event):
            with session.broker.log_file.open("a") as file:
                print(event, file=file)

        def test_before(penstock_shared, penstock_session):
            log(penstock_session, "an event of before")

        def test_failing(penstock_shared, penstock_session):
            log(penstock_session, "an event of its own")
            assert False
        """
    )

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*penstock's log*"])
    log = result.stdout.str().partition("penstock's log")[2]
    assert "an event of its own" in log
    assert "an event of before" not in log


def test_a_topic_without_a_name_is_rejected(penstock_shared: SharedBroker) -> None:
    with pytest.raises(ValueError, match="a topic needs a name"):
        penstock_shared.topic("")


def test_an_unknown_partition_does_not_suggest_to_create_the_topic(
    penstock_shared: SharedBroker,
) -> None:
    topic = penstock_shared.topic(partitions=3)

    with (
        penstock_shared.consumer(TopicPartition(topic, 77)) as consumer,
        pytest.raises(
            errors.UnknownTopicOrPartition, match="has 3 partitions; partitions are numbered from 0"
        ) as raised,
    ):
        consumer.poll(timeout=30)
    assert "create" not in str(raised.value)


def test_deleting_unknown_topics_does_not_suggest_to_create_them(
    penstock_shared: SharedBroker,
) -> None:
    admin = penstock_shared.admin()

    with pytest.raises(errors.ItemsFailed) as several:
        admin.delete_topics(["nosuch", "neither"])
    with pytest.raises(errors.UnknownTopicOrPartition) as one:
        admin.delete_topic("nosuch")

    for error in (*several.value.exceptions, one.value):
        assert "check the spelling of its name" in str(error)
        assert "create" not in str(error)
