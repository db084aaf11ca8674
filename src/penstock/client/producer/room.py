"""Callers that wait until a full buffer has room again. First come, first served; on the loop."""

from __future__ import annotations

import asyncio

from penstock.client import errors
from penstock.records.producing import Intake

ROOM_PART = 8  # whoever waits for room goes on when an eighth of it is free, not at every record


class RoomQueue:
    def __init__(self, intake: Intake, buffer_bytes: int) -> None:
        self._intake = intake
        self._buffer_bytes = buffer_bytes
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def join(self, size_bytes: int) -> asyncio.Future[None] | None:
        """Done when there is room for so many bytes; None if there is room now."""
        wanted = max(size_bytes, self._buffer_bytes // ROOM_PART)
        if self._intake.room_bytes >= wanted:
            return None
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, room))
        return room

    def leave(self, room: asyncio.Future[None]) -> None:
        self._waiting = [each for each in self._waiting if each[1] is not room]

    def advance(self) -> None:
        """Bytes have become free."""
        while self._waiting and self._intake.room_bytes >= self._waiting[0][0]:
            _, room = self._waiting.pop(0)
            if not room.done():
                room.set_result(None)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, room in waiting:
            if not room.done():
                room.set_exception(errors.ClientClosed())
