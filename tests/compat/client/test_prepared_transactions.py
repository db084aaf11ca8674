"""Transactions that one process prepares and another ends, on a real broker.

Apache Kafka 4.3 offers two-phase commit only with unstable versions enabled. Without it a prepared transaction has
`transaction.timeout.ms`, and everything else is the same.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.admin import create_topic, new_name
from harness.brokers import Broker
from harness.waiting import wait_until
from penstock import Admin, Consumer, PreparedTransaction, Producer, aio, errors

SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    """A broker that aborts transactions soon after their timeout."""
    broker = make_broker(tmp_path_factory.mktemp("prepared"), settings=SOON)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def admin(place: Broker) -> Iterator[Admin]:
    with Admin(place.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(place: Broker) -> str:
    return create_topic(place.bootstrap, "prepared", partitions=2)


def prepare(
    place: Broker, topic: str, *values: str, name: str | None = None, **options: Any
) -> PreparedTransaction:
    with Producer(place.bootstrap, transactional_id=name or new_name("writer"), **options) as producer:
        producer.begin()
        for value in values:
            producer.send(topic, value)
        return producer.prepare_transaction()


def committed(place: Broker, topic: str) -> list[bytes]:
    with Consumer(topic, bootstrap_servers=place.bootstrap, isolation_level="read_committed") as consumer:
        return sorted(message.value for message in consumer.read(until="end").to_messages())


def without_record(prepared: PreparedTransaction) -> PreparedTransaction:
    """As another process has it, which kept only the three numbers."""
    return PreparedTransaction(prepared.transactional_id, prepared.producer_id, prepared.producer_epoch)


def test_a_transaction_outlives_its_producer_and_is_committed_once(
    place: Broker, admin: Admin, topic: str
) -> None:
    prepared = prepare(place, topic, "a", "b")
    assert committed(place, topic) == []

    for _ in range(3):
        admin.complete_transaction(prepared, commit=True)
        assert committed(place, topic) == [b"a", b"b"]

    with pytest.raises(errors.TransactionNotAborted):
        admin.complete_transaction(prepared, commit=False)


def test_another_process_ends_it(place: Broker, topic: str) -> None:
    prepared = prepare(place, topic, "a")
    program = (
        "import pickle, sys; from penstock import Admin;"
        "prepared = pickle.loads(bytes.fromhex(sys.argv[2]));"
        "Admin(sys.argv[1]).complete_transaction(prepared, commit=True)"
    )
    command = [sys.executable, "-c", program, place.bootstrap, pickle.dumps(prepared).hex()]
    subprocess.run(
        command, check=True, env={"PYTHONPATH": str(Path(sys.modules["penstock"].__path__[0]).parent)}
    )

    assert committed(place, topic) == [b"a"]


def test_committing_an_aborted_transaction_reports_the_abort(place: Broker, admin: Admin, topic: str) -> None:
    prepared = prepare(place, topic, "a")
    for _ in range(2):
        admin.complete_transaction(prepared, commit=False)

    with pytest.raises(errors.TransactionNotCommitted, match=prepared.transactional_id):
        admin.complete_transaction(prepared, commit=True)
    assert committed(place, topic) == []


def test_a_timed_out_transaction_is_reported_as_aborted(place: Broker, admin: Admin, topic: str) -> None:
    prepared = prepare(place, topic, "a", transaction_timeout_ms=200)
    wait_until(
        lambda: admin.describe_transaction(prepared.transactional_id).state == "CompleteAbort",
        "the transaction is aborted",
    )

    for each in (prepared, without_record(prepared)):
        with pytest.raises(errors.TransactionNotCommitted):
            admin.complete_transaction(each, commit=True)
        admin.complete_transaction(each, commit=False)


def test_the_log_shows_the_outcome_that_a_coordinator_has_forgotten(
    place: Broker, admin: Admin, topic: str
) -> None:
    name = new_name("writer")
    lost = prepare(place, topic, "lost", name=name)
    kept = prepare(place, topic, "kept", name=name)
    admin.complete_transaction(kept, commit=True)
    for value in ("later", "last"):
        admin.complete_transaction(prepare(place, topic, value, name=name), commit=True)

    admin.complete_transaction(kept, commit=True)
    admin.complete_transaction(lost, commit=False)
    with pytest.raises(errors.TransactionNotCommitted):
        admin.complete_transaction(lost, commit=True)
    with pytest.raises(errors.TransactionNotAborted):
        admin.complete_transaction(kept, commit=False)
    with pytest.raises(errors.TransactionOutcomeUnknown):
        admin.complete_transaction(without_record(kept), commit=True)
    assert committed(place, topic) == [b"kept", b"last", b"later"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_without_records_needs_no_end(
    place: Broker, admin: Admin, topic: str, commit: bool
) -> None:
    prepared = prepare(place, topic)

    assert prepared.is_empty
    for each in (prepared, without_record(prepared), without_record(prepared)):
        admin.complete_transaction(each, commit=commit)


def test_one_producer_prepares_repeatedly(place: Broker, admin: Admin, topic: str) -> None:
    with Producer(place.bootstrap, transactional_id=new_name("writer")) as producer:
        for value in ("a", "b", "c"):
            assert producer.init_transactions() is None
            producer.begin()
            producer.send(topic, value)
            prepared = producer.prepare_transaction()
            assert producer.prepare_transaction() == prepared
            with pytest.raises(errors.IllegalState, match="prepared"):
                producer.send(topic, "late")
            admin.complete_transaction(prepared, commit=value != "b")

    assert committed(place, topic) == [b"a", b"c"]


def test_a_producer_ends_its_own_prepared_transaction(place: Broker, topic: str) -> None:
    with Producer(place.bootstrap, transactional_id=new_name("writer")) as producer:
        for value, end in (("a", producer.commit), ("b", producer.abort)):
            producer.begin()
            producer.send(topic, value)
            producer.prepare_transaction()
            end()
        producer.begin()
        producer.send(topic, "c")
        assert producer.complete_transaction(producer.prepare_transaction())
        producer.begin()
        producer.send(topic, "d")
        assert not producer.complete_transaction(
            PreparedTransaction(producer.prepare_transaction().transactional_id, 1, 2)
        )

    assert committed(place, topic) == [b"a", b"c"]


async def test_asynchronous_clients_do_the_same(place: Broker, topic: str) -> None:
    async with aio.Producer(place.bootstrap, transactional_id=new_name("writer")) as producer:
        await producer.init_transactions()
        await producer.begin()
        await producer.send(topic, "a")
        prepared = await producer.prepare_transaction()
    async with aio.Admin(place.bootstrap) as admin:
        await admin.complete_transaction(prepared, commit=True)
        await admin.complete_transaction(prepared, commit=True)

    assert committed(place, topic) == [b"a"]


def test_a_broker_that_does_not_allow_it_is_reported(place: Broker) -> None:
    name = new_name("writer")
    with Producer(
        place.bootstrap, transactional_id=name, transaction_two_phase_commit_enable=True
    ) as producer:
        with pytest.raises(errors.TwoPhaseCommitUnavailable, match=name):
            producer.begin()
        with pytest.raises(errors.TwoPhaseCommitUnavailable):
            producer.init_transactions()


# With two-phase commit


@pytest.fixture(scope="module")
def two_phases(
    tmp_path_factory: pytest.TempPathFactory, make_broker: Callable[..., Broker]
) -> Iterator[Broker]:
    settings = {**SOON, "transaction.two.phase.commit.enable": "true"}
    broker = make_broker(tmp_path_factory.mktemp("two-phases"), settings=settings)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def written(two_phases: Broker) -> str:
    return create_topic(two_phases.bootstrap, "written")


@pytest.mark.penstock_only("Kafka 4.3 keeps no prepared transaction")
def test_it_never_times_out_and_outlives_the_broker(two_phases: Broker, written: str) -> None:
    prepared = prepare(two_phases, written, "a", transaction_two_phase_commit_enable=True)
    two_phases.kill()
    two_phases.start()

    with Admin(two_phases.bootstrap) as admin:
        assert admin.describe_transaction(prepared.transactional_id).timeout_ms == 2**31 - 1
        admin.complete_transaction(prepared, commit=True)
    assert committed(two_phases, written) == [b"a"]


@pytest.mark.penstock_only("Kafka 4.3 keeps no prepared transaction")
@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_restarted_producer_continues_it(two_phases: Broker, written: str, is_remembered: bool) -> None:
    name = new_name("writer")
    options = {"transaction_two_phase_commit_enable": True}
    prepared = prepare(two_phases, written, "a", name=name, **options)

    with Producer(two_phases.bootstrap, transactional_id=name, **options) as producer:
        found = producer.init_transactions(keep_prepared=True)
        assert found == without_record(prepared)
        with pytest.raises(errors.IllegalState):
            producer.begin()
        other = PreparedTransaction(name, prepared.producer_id, prepared.producer_epoch + 5)
        assert producer.complete_transaction(prepared if is_remembered else other) is is_remembered
        with producer.transaction():
            producer.send(written, "b")

    assert committed(two_phases, written) == ([b"a", b"b"] if is_remembered else [b"b"])


@pytest.mark.penstock_only("Kafka 4.3 keeps no prepared transaction")
def test_a_producer_that_does_not_keep_it_aborts_it(two_phases: Broker, written: str) -> None:
    name = new_name("writer")
    options = {"transaction_two_phase_commit_enable": True}
    prepared = prepare(two_phases, written, "a", name=name, **options)
    with Producer(two_phases.bootstrap, transactional_id=name, **options) as producer:
        producer.init_transactions()

    with Admin(two_phases.bootstrap) as admin, pytest.raises(errors.TransactionNotCommitted):
        admin.complete_transaction(prepared, commit=True)
