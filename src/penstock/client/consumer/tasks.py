"""Tasks whose failure is reported: a task that died silently would leave a reader waiting forever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def supervised(
    work: Coroutine[Any, Any, None], name: str, on_failure: Callable[[BaseException], None]
) -> asyncio.Task[None]:
    """Start a task; `on_failure` is called with its exception, unless it was cancelled."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            on_failure(error)

    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(ended)
    return task
