"""Every public call has its timeout in the same argument and unit: `timeout`, in seconds."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition, aio
from penstock.client.deadlines import milliseconds, seconds
from penstock.client.errors import BadArgument, NoBrokersAvailable

FACES = (Admin, Consumer, Producer, aio.Admin, aio.Consumer, aio.Producer)
POLL_S = 1.0  # poll does not wait for the client's default timeout
NONSENSE = [-1, math.nan, True, "5"]
NOWHERE = "127.0.0.1:1"


def calls() -> Iterator[Any]:
    for face in FACES:
        for name, call in inspect.getmembers(face, callable):
            if not name.startswith("_"):
                yield pytest.param(call, id=f"{face.__module__}.{name}")


@pytest.mark.parametrize("call", list(calls()))
def test_every_wait_argument_is_called_timeout(call: Any) -> None:
    parameters = inspect.signature(call).parameters
    assert not [name for name in parameters if name.startswith("timeout_")]
    if "timeout" in parameters:
        timeout = parameters["timeout"]
        own = ("float", POLL_S) if call.__name__ == "poll" else ("float | None", None)
        assert (timeout.annotation, timeout.default) == own


@pytest.mark.parametrize(
    ("timeout", "expected_ms"), [(None, None), (0, 0), (0.25, 250), (1, 1000), (1.5, 1500), (0.0004, 0)]
)
def test_seconds_become_milliseconds(timeout: float | None, expected_ms: int | None) -> None:
    assert milliseconds(timeout) == expected_ms


def test_infinity_is_a_valid_timeout() -> None:
    assert 30 * 24 * 3600 < seconds(math.inf) < 2**53
    assert seconds(10**400) == seconds(math.inf)


@pytest.mark.parametrize("nonsense", [-1, -0.001, math.nan, -math.inf, True, "5", b"5", [5], 1j])
def test_invalid_timeouts_are_rejected_with_their_value(nonsense: Any) -> None:
    with pytest.raises(BadArgument, match=r"timeout must be .* seconds") as refused:
        seconds(nonsense)
    assert repr(nonsense) in str(refused.value)


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_admin_rejects_invalid_timeouts(nonsense: Any) -> None:
    with Admin(NOWHERE) as admin:
        with pytest.raises(BadArgument, match="timeout"):
            admin.connect(timeout=nonsense)
        with pytest.raises(BadArgument, match="timeout"):
            admin.list_topics(timeout=nonsense)


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_consumer_rejects_invalid_timeouts_and_continues(nonsense: Any) -> None:
    partition = TopicPartition("orders", 0)
    with Consumer(partition, bootstrap_servers=NOWHERE) as consumer:
        for call in (
            lambda: consumer.poll(nonsense),
            lambda: consumer.read(timeout=nonsense),
            lambda: consumer.position(partition, timeout=nonsense),
            lambda: consumer.end_offsets(timeout=nonsense),
            lambda: consumer.close(timeout=nonsense),
        ):
            with pytest.raises(BadArgument, match="timeout"):
                call()
        assert consumer.assignment() == {partition}


@pytest.mark.parametrize("nonsense", [*NONSENSE, None])
def test_poll_accepts_only_a_number(nonsense: Any) -> None:
    with (
        Consumer("orders", bootstrap_servers=NOWHERE) as consumer,
        pytest.raises(BadArgument, match="timeout"),
    ):
        consumer.poll(nonsense)


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_producer_rejects_invalid_timeouts_and_continues(nonsense: Any) -> None:
    producer = Producer(NOWHERE)
    for call in (producer.flush, producer.close):
        with pytest.raises(BadArgument, match="timeout"):
            call(timeout=nonsense)
    producer.flush(timeout=1)
    producer.close(timeout=1)


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_async_clients_reject_invalid_timeouts(nonsense: Any) -> None:
    consumer, producer = aio.Consumer("orders", bootstrap_servers=NOWHERE), aio.Producer(NOWHERE)
    for call in (consumer.poll, consumer.topics, consumer.close, producer.flush, producer.close):
        with pytest.raises(BadArgument, match="timeout"):
            await call(timeout=nonsense)
    await consumer.close()
    await producer.close()


def test_a_timeout_of_zero_ends_at_once() -> None:
    with Admin(NOWHERE) as admin, pytest.raises((NoBrokersAvailable, TimeoutError)):
        admin.connect(timeout=0)
