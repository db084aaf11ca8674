"""Delayed operations complete once and in order."""

from __future__ import annotations

import asyncio

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.replication.purgatory import DelayedFetch, FetchPurgatory, OffsetPurgatory


def test_operations_complete_lowest_offset_first() -> None:
    waits = OffsetPurgatory()
    reported: list[tuple[str, ErrorCode]] = []
    waits.add(10, lambda error: reported.append(("ten", error)))
    waits.add(5, lambda error: reported.append(("five", error)))
    waits.add(20, lambda error: reported.append(("twenty", error)))

    waits.complete_up_to(10)

    assert reported == [("five", ErrorCode.NONE), ("ten", ErrorCode.NONE)]
    assert len(waits) == 1


def test_a_lower_offset_completes_nothing() -> None:
    waits = OffsetPurgatory()
    reported: list[ErrorCode] = []
    waits.add(10, reported.append)

    waits.complete_up_to(9)

    assert reported == []
    assert waits


def test_fail_all_completes_every_operation_with_the_error() -> None:
    waits = OffsetPurgatory()
    reported: list[tuple[int, ErrorCode]] = []
    for offset in (3, 1, 2):
        waits.add(offset, lambda error, offset=offset: reported.append((offset, error)))

    waits.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert reported == [(offset, ErrorCode.NOT_LEADER_OR_FOLLOWER) for offset in (1, 2, 3)]
    assert not waits


def test_a_callback_may_add_an_operation() -> None:
    waits = OffsetPurgatory()
    reported: list[str] = []
    waits.add(1, lambda error: waits.add(9, lambda error: reported.append("again")))

    waits.complete_up_to(5)
    waits.complete_up_to(9)

    assert reported == ["again"]


def test_cancelled_operations_are_not_completed_and_not_kept() -> None:
    waits = OffsetPurgatory()
    reported: list[int] = []
    added = [waits.add(offset, lambda error, offset=offset: reported.append(offset)) for offset in range(100)]

    for wait in added[10:]:
        wait.cancel()
        wait.cancel()

    assert len(waits) <= 20
    waits.complete_up_to(100)
    assert reported == list(range(10))
    assert not waits


def test_a_callback_may_cancel_other_operations() -> None:
    waits = OffsetPurgatory()
    reported: list[str] = []

    def first(error: ErrorCode) -> None:
        reported.append("first")
        for wait in others:
            wait.cancel()

    waits.add(1, first)
    others = [waits.add(offset, lambda error: reported.append("other")) for offset in (1, 2, 3)]
    waits.add(4, lambda error: reported.append("last"))

    waits.complete_up_to(2)
    waits.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert reported == ["first", "last"]


def test_a_failing_callback_is_logged_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    waits = OffsetPurgatory()
    reported: list[int] = []

    def broken(error: ErrorCode) -> None:
        raise KeyError("member of straw")

    waits.add(1, broken)
    waits.add(2, lambda error: reported.append(2))
    waits.complete_up_to(2)

    assert reported == [2]
    assert "member of straw" in caplog.text


async def test_a_fetch_is_woken_once_when_enough_bytes_were_appended() -> None:
    woken: list[str] = []
    wait = DelayedFetch(100, lambda: woken.append("look"))
    waits = FetchPurgatory()
    waits.add(wait)

    waits.add_bytes(60)
    await asyncio.sleep(0)
    assert woken == []

    waits.add_bytes(40)
    waits.add_bytes(40)
    await asyncio.sleep(0)
    assert woken == ["look"]


async def test_a_fetch_is_woken_after_the_append_that_woke_it_and_not_inside() -> None:
    woken: list[str] = []
    wait = DelayedFetch(1, lambda: woken.append("look"))

    wait.add_bytes(1)

    assert woken == []
    await asyncio.sleep(0)
    assert woken == ["look"]


async def test_a_removed_fetch_is_not_woken() -> None:
    woken: list[str] = []
    wait = DelayedFetch(1, lambda: woken.append("look"))
    waits = FetchPurgatory()
    waits.add(wait)

    waits.discard(wait)
    waits.discard(wait)
    waits.add_bytes(10)
    await asyncio.sleep(0)

    assert woken == []
    assert not waits
