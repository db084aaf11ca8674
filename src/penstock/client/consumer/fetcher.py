"""Fetches ahead: one task per node sends the requests of the plan and queues the responses.

`fetch_plan` makes the decisions. Everything here runs on the loop, except that the application's thread, and no other,
takes from `ready`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from penstock.client import errors
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.fetch_plan import Answer, Fetched, FetchPlan
from penstock.client.consumer.positions import Positions
from penstock.client.consumer.tasks import supervised
from penstock.protocol.apis import ApiKey
from penstock.protocol.messages.fetch import FetchRequest

IDS_VERSION = 13  # of Fetch: topics by id


class Fetcher:
    def __init__(
        self,
        client: ClusterClient,
        positions: Positions,
        plan: FetchPlan,
        *,
        on_news: Callable[[bool], None],
        on_lost_place: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`on_news` is called when records arrive; with True if there is an error for the application."""
        self.ready: deque[Fetched] = deque()
        self.plan = plan
        self._client = client
        self._positions = positions
        self._on_news = on_news
        self._on_lost_place = on_lost_place
        self._on_failure = on_failure
        settings = client.settings
        self._request_timeout_ms: int = settings.get("request.timeout.ms")
        self._backoff = client.backoff
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._wakeups: dict[int, asyncio.Event] = {}
        self._is_closed = False

    def wake(self) -> None:
        """Something changed: check whether there is something to fetch."""
        if self._is_closed:
            return
        cluster = self._client.cluster
        self._positions.follow_leaders(cluster)
        if any(state.leader is None and state.has_position for state in self._positions):
            self._client.mark_stale()  # no known leader
        for node_id in self.plan.nodes(cluster, self._client.now_ms()):
            if node_id not in self._tasks or self._tasks[node_id].done():
                self._wakeups[node_id] = asyncio.Event()
                self._tasks[node_id] = supervised(
                    self._serve(node_id), f"penstock-fetch-{node_id}", self._on_failure
                )
        for wakeup in self._wakeups.values():
            wakeup.set()

    def finished(self, fetched: Fetched) -> None:
        """Something was consumed or dropped. Unlike `wake` this looks at no other partition: it happens for each
        portion of each partition, so its cost must not grow with their number."""
        now_ms = self._client.now_ms()
        if self.plan.finished(fetched, now_ms) and not self._is_closed:
            for node_id, wakeup in self._wakeups.items():
                if self.plan.may_ask(node_id, now_ms):
                    wakeup.set()

    def purge(self) -> None:
        """Drop data of positions that have moved."""
        if not self.ready:
            return
        now_ms = self._client.now_ms()
        for _ in range(len(self.ready)):
            fetched = self.ready.popleft()
            if fetched.is_current and self._positions.get(fetched.state.partition) is fetched.state:
                self.ready.append(fetched)
            else:
                self.plan.finished(fetched, now_ms)

    async def close(self) -> None:
        """End the tasks and the sessions. Requests in flight are dropped."""
        self._is_closed = True
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for node_id in tasks:
            self._end_session(node_id)
        self.ready.clear()

    # The task of a node

    async def _serve(self, node_id: int) -> None:
        client, plan, wakeup = self._client, self.plan, self._wakeups[node_id]
        failures = 0
        is_wanted = True
        while True:
            wakeup.clear()
            was_wanted, is_wanted = is_wanted, node_id in plan.nodes(client.cluster, client.now_ms())
            if not is_wanted:
                if was_wanted:
                    self.wake()  # another node serves it now, and its task may be waiting
                else:
                    await wakeup.wait()
                continue
            try:
                if not client.is_ready(node_id):
                    await client.connect(node_id)
                await self._fetch(node_id, wakeup)
                failures = 0
            except errors.PenstockError as error:
                plan.failed(node_id, client.now_ms())
                client.mark_stale()
                if not error.retriable:
                    self._on_failure(error)
                failures += 1
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)

    async def _fetch(self, node_id: int, wakeup: asyncio.Event) -> None:
        """Send one request, or wait until there may be one."""
        client, plan = self._client, self.plan
        version = client.version_of(node_id, ApiKey.FETCH)
        wanted = plan.next_request(node_id, client.cluster, client.now_ms(), knows_ids=version >= IDS_VERSION)
        if wanted is None:
            await self._rest(wakeup, plan.wake_at_ms(node_id, client.now_ms()))
            return
        request, version_max = wanted
        response = await client.send(
            node_id,
            request,
            version=version if version_max is None else min(version, version_max),
            timeout_ms=self._request_timeout_ms + request.max_wait_ms,
        )
        self._take(plan.answered(node_id, response, client.now_ms()))

    def _take(self, answer: Answer) -> None:
        client = self._client
        if answer.leaders:
            client.take_leaders(answer.leaders, answer.nodes)
        if answer.is_stale:
            client.mark_stale()
        if answer.fetched:
            self.ready.extend(answer.fetched)
        if answer.has_moved:
            self.wake()
        if answer.lacks_place:
            self._on_lost_place()
        if answer.fetched or answer.has_errors:
            self._on_news(answer.has_errors)

    @staticmethod
    async def _rest(wakeup: asyncio.Event, until_ms: int | None) -> None:
        if until_ms is None:
            await wakeup.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until_ms / 1000):
                await wakeup.wait()

    def _end_session(self, node_id: int) -> None:
        """Optional: the node would drop the session later by itself."""
        last = self.plan.last_request(node_id)
        if last is None or not self._client.is_ready(node_id):
            return
        request, version_max = last
        self._send_last(node_id, request, version_max)

    def _send_last(self, node_id: int, request: FetchRequest, version_max: int | None) -> None:
        with contextlib.suppress(errors.PenstockError):
            answer = self._client.send(node_id, request, version=version_max)
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
