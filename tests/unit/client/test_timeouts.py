"""Every public call says how long it waits in the same word and unit: `timeout`, in seconds."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Admin, aio
from penstock.client.deadlines import milliseconds, seconds
from penstock.client.errors import BadArgument, NoBrokersAvailable

FACES = (Admin, aio.Admin)
NOWHERE = "127.0.0.1:1"


def calls() -> Iterator[Any]:
    for face in FACES:
        for name, call in inspect.getmembers(face, callable):
            if not name.startswith("_"):
                yield pytest.param(call, id=f"{face.__module__}.{name}")


@pytest.mark.parametrize("call", list(calls()))
def test_a_call_names_its_wait_timeout(call: Any) -> None:
    parameters = inspect.signature(call).parameters
    assert not [name for name in parameters if name.startswith("timeout_")]
    if "timeout" in parameters:
        timeout = parameters["timeout"]
        assert (timeout.annotation, timeout.default) == ("float | None", None)


@pytest.mark.parametrize(
    ("timeout", "expected_ms"), [(None, None), (0, 0), (0.25, 250), (1, 1000), (1.5, 1500), (0.0004, 0)]
)
def test_seconds_become_milliseconds(timeout: float | None, expected_ms: int | None) -> None:
    assert milliseconds(timeout) == expected_ms


def test_for_ever_is_a_time_that_timers_can_take() -> None:
    assert 30 * 24 * 3600 < seconds(math.inf) < 2**53
    assert seconds(10**400) == seconds(math.inf)


@pytest.mark.parametrize("nonsense", [-1, -0.001, math.nan, -math.inf, True, "5", b"5", [5], 1j])
def test_nonsense_is_refused_by_its_value(nonsense: Any) -> None:
    with pytest.raises(BadArgument, match=r"timeout is .*, and must be .* seconds") as refused:
        seconds(nonsense)
    assert repr(nonsense) in str(refused.value)


@pytest.mark.parametrize("nonsense", [-1, math.nan, True, "5"])
def test_admin_refuses_nonsense(nonsense: Any) -> None:
    with Admin(NOWHERE) as admin:
        with pytest.raises(BadArgument, match="timeout"):
            admin.connect(timeout=nonsense)
        with pytest.raises(BadArgument, match="timeout"):
            admin.list_topics(timeout=nonsense)


def test_a_timeout_of_nothing_ends_at_once() -> None:
    with Admin(NOWHERE) as admin, pytest.raises((NoBrokersAvailable, TimeoutError)):
        admin.connect(timeout=0)
