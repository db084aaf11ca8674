"""Waits are told once, in order, and only when there is something to tell."""

from __future__ import annotations

import asyncio

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.replication.delayed import FetchWait, FetchWaits, OffsetWaits


def test_offsets_are_reached_lowest_first_whatever_the_order_of_asking() -> None:
    waits = OffsetWaits()
    told: list[tuple[str, ErrorCode]] = []
    waits.add(10, lambda error: told.append(("ten", error)))
    waits.add(5, lambda error: told.append(("five", error)))
    waits.add(20, lambda error: told.append(("twenty", error)))

    waits.reach(10)

    assert told == [("five", ErrorCode.NONE), ("ten", ErrorCode.NONE)]
    assert len(waits) == 1


def test_an_offset_below_what_is_needed_tells_nobody() -> None:
    waits = OffsetWaits()
    told: list[ErrorCode] = []
    waits.add(10, told.append)

    waits.reach(9)

    assert told == []
    assert waits


def test_failing_tells_everybody_the_reason_and_forgets_them() -> None:
    waits = OffsetWaits()
    told: list[tuple[int, ErrorCode]] = []
    for offset in (3, 1, 2):
        waits.add(offset, lambda error, offset=offset: told.append((offset, error)))

    waits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert told == [(offset, ErrorCode.NOT_LEADER_OR_FOLLOWER) for offset in (1, 2, 3)]
    assert not waits


def test_a_listener_may_wait_again_while_it_is_told() -> None:
    waits = OffsetWaits()
    told: list[str] = []
    waits.add(1, lambda error: waits.add(9, lambda error: told.append("again")))

    waits.reach(5)
    waits.reach(9)

    assert told == ["again"]


def test_cancelled_waits_are_not_told_and_not_kept() -> None:
    waits = OffsetWaits()
    told: list[int] = []
    added = [waits.add(offset, lambda error, offset=offset: told.append(offset)) for offset in range(100)]

    for wait in added[10:]:
        wait.cancel()
        wait.cancel()

    assert len(waits) <= 20
    waits.reach(100)
    assert told == list(range(10))
    assert not waits


def test_a_listener_may_cancel_others_while_it_is_told() -> None:
    waits = OffsetWaits()
    told: list[str] = []

    def first(error: ErrorCode) -> None:
        told.append("first")
        for wait in others:
            wait.cancel()

    waits.add(1, first)
    others = [waits.add(offset, lambda error: told.append("other")) for offset in (1, 2, 3)]
    waits.add(4, lambda error: told.append("last"))

    waits.reach(2)
    waits.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert told == ["first", "last"]


def test_a_listener_that_fails_is_logged_and_the_others_are_told(caplog: pytest.LogCaptureFixture) -> None:
    waits = OffsetWaits()
    told: list[int] = []

    def broken(error: ErrorCode) -> None:
        raise KeyError("member of straw")

    waits.add(1, broken)
    waits.add(2, lambda error: told.append(2))
    waits.reach(2)

    assert told == [2]
    assert "member of straw" in caplog.text


async def test_a_fetch_is_woken_once_when_enough_bytes_have_come() -> None:
    woken: list[str] = []
    wait = FetchWait(100, lambda: woken.append("look"))
    waits = FetchWaits()
    waits.add(wait)

    waits.arrived(60)
    await asyncio.sleep(0)
    assert woken == []

    waits.arrived(40)
    waits.arrived(40)
    await asyncio.sleep(0)
    assert woken == ["look"]


async def test_a_fetch_is_woken_after_the_append_that_woke_it_and_not_inside() -> None:
    woken: list[str] = []
    wait = FetchWait(1, lambda: woken.append("look"))

    wait.arrived(1)

    assert woken == []
    await asyncio.sleep(0)
    assert woken == ["look"]


async def test_a_fetch_that_left_is_not_woken() -> None:
    woken: list[str] = []
    wait = FetchWait(1, lambda: woken.append("look"))
    waits = FetchWaits()
    waits.add(wait)

    waits.discard(wait)
    waits.discard(wait)
    waits.arrived(10)
    await asyncio.sleep(0)

    assert woken == []
    assert not waits
