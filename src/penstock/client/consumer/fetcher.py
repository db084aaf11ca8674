"""Fetches ahead: one task a node asks for what the plan says and queues what comes.

Thin: what to ask and what an answer means is decided in `fetch_plan`. Everything here runs on the loop; what is `ready`
may be taken from it by the application's thread, and nobody else takes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from penstock.client import errors
from penstock.client.backoff import Backoff
from penstock.client.cluster_client import ClusterClient
from penstock.client.consumer.fetch_plan import Answer, Fetched, FetchPlan
from penstock.client.consumer.positions import Positions
from penstock.client.consumer.tasks import supervised
from penstock.protocol.apis import ApiKey
from penstock.protocol.messages.fetch import FetchRequest

IDS_VERSION = 13  # of Fetch: topics go by id


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
        """`on_news` is called when records came; with True where there is an error for the application."""
        self.ready: deque[Fetched] = deque()
        self.plan = plan
        self._client = client
        self._positions = positions
        self._on_news = on_news
        self._on_lost_place = on_lost_place
        self._on_failure = on_failure
        settings = client.settings
        self._request_timeout_ms: int = settings.get("request.timeout.ms")
        self._backoff = Backoff(settings.get("retry.backoff.ms"), settings.get("retry.backoff.max.ms"))
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._bells: dict[int, asyncio.Event] = {}
        self._is_closed = False

    def wake(self) -> None:
        """Something changed: look whether there is something to fetch."""
        if self._is_closed:
            return
        cluster = self._client.cluster
        self._positions.follow_leaders(cluster)
        if any(state.leader is None and state.has_position for state in self._positions):
            self._client.mark_stale()  # nobody leads it, as far as is known
        for node_id in self.plan.nodes(cluster, self._client.now_ms()):
            if node_id not in self._tasks or self._tasks[node_id].done():
                self._bells[node_id] = asyncio.Event()
                self._tasks[node_id] = supervised(
                    self._serve(node_id), f"penstock-fetch-{node_id}", self._on_failure
                )
        for bell in self._bells.values():
            bell.set()

    def finished(self, fetched: Fetched) -> None:
        """Something was consumed or dropped. Unlike `wake` this looks at no other partition: it happens for each
        portion of each partition, so it must not cost more with more of them."""
        now_ms = self._client.now_ms()
        if self.plan.finished(fetched, now_ms) and not self._is_closed:
            for node_id, bell in self._bells.items():
                if self.plan.may_ask(node_id, now_ms):
                    bell.set()

    def purge(self) -> None:
        """Forget what was fetched from places where the reader is no more."""
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
        """End the tasks and the sessions. What waits for an answer is given up."""
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
        client, plan, bell = self._client, self.plan, self._bells[node_id]
        failures = 0
        is_wanted = True
        while True:
            bell.clear()
            was_wanted, is_wanted = is_wanted, node_id in plan.nodes(client.cluster, client.now_ms())
            if not is_wanted:
                if was_wanted:
                    self.wake()  # what was fetched here is another's now, who may be at rest
                else:
                    await bell.wait()
                continue
            try:
                if not client.is_ready(node_id):
                    await client.connect(node_id)
                await self._fetch(node_id, bell)
                failures = 0
            except errors.PenstockError as error:
                plan.failed(node_id, client.now_ms())
                client.mark_stale()
                if not error.retriable:
                    self._on_failure(error)
                failures += 1
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)

    async def _fetch(self, node_id: int, bell: asyncio.Event) -> None:
        """One request, or a rest until there may be one."""
        client, plan = self._client, self.plan
        version = client.version_of(node_id, ApiKey.FETCH)
        wanted = plan.next_request(node_id, client.cluster, client.now_ms(), knows_ids=version >= IDS_VERSION)
        if wanted is None:
            await self._rest(bell, plan.wake_at_ms(node_id, client.now_ms()))
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
    async def _rest(bell: asyncio.Event, until_ms: int | None) -> None:
        if until_ms is None:
            await bell.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until_ms / 1000):
                await bell.wait()

    def _end_session(self, node_id: int) -> None:
        """A courtesy: the node would forget the session by itself, later."""
        last = self.plan.last_request(node_id)
        if last is None or not self._client.is_ready(node_id):
            return
        request, version_max = last
        self._send_last(node_id, request, version_max)

    def _send_last(self, node_id: int, request: FetchRequest, version_max: int | None) -> None:
        with contextlib.suppress(errors.PenstockError):
            answer = self._client.send(node_id, request, version=version_max)
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
