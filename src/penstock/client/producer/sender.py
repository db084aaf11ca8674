"""The driver of a producer: takes due batches out of the accumulator, sends them, and handles the responses.

One request to a node has at most one batch of each partition, and up to `max.in.flight.requests.per.connection`
requests are in flight. `pump` does everything that can be done now and sets one timer for the next step; it is called
when records, a response, a connection or new metadata arrive. Nothing here waits, so no step is left half done.

It runs only on the client's loop. Invariant: a taken batch ends completed, failed, split, or waiting again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.client import errors
from penstock.client.cluster import LeaderChange, Node, TopicPartition
from penstock.client.cluster_client import ClusterClient
from penstock.client.producer.accumulator import Accumulator, Line
from penstock.client.producer.batch_outcomes import BatchOutcomes
from penstock.client.producer.idempotence import Idempotence, ProducerIdAndEpoch
from penstock.client.producer.last_errors import LastErrors
from penstock.client.producer.produce_requests import (
    SINGLE_VERSION,
    Produce,
    Taken,
    Written,
    leader_hint,
    record_errors,
)
from penstock.client.producer.sender_state import NodeLoad, SendCounts, SendRules
from penstock.client.producer.transactions import State, Transactions
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.types import ZERO_UUID
from penstock.records.producing import ProducerBatch
from penstock.runtime.backoff import Backoff

logger = logging.getLogger(__name__)


class Sender:
    def __init__(
        self,
        client: ClusterClient,
        accumulator: Accumulator,
        rules: SendRules,
        backoff: Backoff,
        *,
        idempotence: Idempotence | None,
        transactions: Transactions | None,
        on_failure: Callable[[ProducerBatch], None],
        on_room: Callable[[], None],
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._rules = rules
        self._backoff = backoff
        self._idempotence = idempotence
        self._transactions = transactions
        self._on_room = on_room
        self._loads: dict[int, NodeLoad] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = math.inf
        self._tasks: set[asyncio.Task[None]] = set()
        self._identifying: asyncio.Task[None] | None = None
        self._is_pumping = False
        self._is_more = False
        self.is_stopped = False
        self.counts = SendCounts()
        self.last_errors = LastErrors(lambda: client.cluster)
        self.outcomes = BatchOutcomes(
            accumulator,
            backoff,
            self.counts,
            self.last_errors,
            retries=rules.retries,
            idempotence=idempotence,
            transactions=transactions,
            on_failure=on_failure,
        )
        self.used_ms: dict[str, float] = {}
        """When something was last sent to a topic."""
        self.on_leaderless: Callable[[set[str]], None] = lambda topics: None
        """Topics that have a partition without a known leader."""
        self.on_want_partitions: Callable[[], None] = lambda: None
        """Whether partitions wait to be added to the transaction."""

    def start(self) -> None:
        self._client.on_update(lambda cluster: self.pump())

    def pump(self) -> None:
        """Do everything that can be done now, and set the timer for the rest."""
        if self.is_stopped:
            return
        if self._is_pumping:
            self._is_more = True
            return
        self._is_pumping, self._is_more = True, False
        try:
            now_ms = self._client.now_ms()
            self._fail_expired(now_ms)
            if self._transactions is not None and (failure := self._transactions.failure()) is not None:
                self.fail_unsent(failure)
            if self._idempotence is not None:
                self._accumulator.settle_numbers()
                if self._transactions is None and not self._idempotence.identity.is_known:
                    self._want_identity()
            may_write = None if self._transactions is None else self._may_write
            check_ready = self._accumulator.check_ready(
                now_ms, self._client.cluster.leader_node_id, may_write
            )
            next_ms = check_ready.next_ms
            for node_id, lines in check_ready.by_node.items():
                next_ms = min(next_ms, self._send_to(node_id, lines, now_ms))
            if check_ready.leaderless:
                self.on_leaderless({line.topic for line in check_ready.leaderless})
                self._client.need_leaders(
                    [TopicPartition(line.topic, line.partition) for line in check_ready.leaderless]
                )
                self._client.mark_stale()
            if self._transactions is not None and self._transactions.partitions_to_add():
                self.on_want_partitions()
            self._set_timer(next_ms)
        finally:
            self._is_pumping = False
        if self._is_more:  # an earlier step created more work
            asyncio.get_running_loop().call_soon(self.pump)

    @property
    def in_flight(self) -> int:
        return sum(load.in_flight for load in self._loads.values())

    def is_behind(self, node_id: int) -> bool:
        """Whether a node has had batches to take for longer than `partitioner.availability.timeout.ms`."""
        load = self._loads.get(node_id)
        limit_ms = self._rules.availability_timeout_ms
        return load is not None and limit_ms > 0 and load.ready_ms - load.taken_ms > limit_ms

    def fail_unsent(self, error: Exception) -> None:
        """Fail everything that is not in flight."""
        for line, batch in self._accumulator.take_all_unsent():
            self.outcomes.give_up(line, batch, error)

    def epoch_checked(self) -> None:
        """The coordinator has said whether this producer is fenced, or did not respond."""
        self.outcomes.epoch_checked()
        self.pump()

    async def stop(self) -> None:
        """Send nothing more; batches without an outcome fail with ClientClosed."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        under_way = [(line, batch) for line in self._accumulator.lines for batch in line.under_way]
        for line, batch in [*under_way, *self._accumulator.take_all_unsent()]:
            self.outcomes.close(line, batch)

    def last_error(self) -> errors.PenstockError | None:
        """The known reason why records are not written."""
        return self.last_errors.of_any(
            (line.topic, line.partition)
            for line in self._accumulator.lines
            if line.under_way or line.next_batch() is not None
        )

    # -- requests

    def _send_to(self, node_id: int, lines: list[Line], now_ms: float) -> float:
        """Send as much as may be in flight to one node; returns when to check again if nothing happens."""
        load = self._loads.get(node_id)
        if load is None:
            load = self._loads[node_id] = NodeLoad()
            load.taken_ms = now_ms
        load.ready_ms = now_ms
        if load.throttled_until_ms > now_ms:
            return load.throttled_until_ms
        if not self._client.is_ready(node_id):
            self._connect(node_id, load)
            return math.inf
        while lines and load.in_flight < self._rules.in_flight_max:
            load.taken_ms = now_ms
            taken, lines = self._take(lines, now_ms)
            if not taken:
                break
            self._send(node_id, load, taken, now_ms)
            if lines and not self._client.is_ready(node_id):  # the connection closed in this moment
                break
        return math.inf

    def _take(self, lines: list[Line], now_ms: float) -> tuple[list[tuple[Line, ProducerBatch]], list[Line]]:
        """One batch of each line, as many as fit into a request; and the lines that have more."""
        taken: list[tuple[Line, ProducerBatch]] = []
        rest: list[Line] = []
        available_bytes = self._rules.request_bytes_max
        for line in lines:
            following = line.next_batch()
            if following is None or (taken and following.size_bytes > available_bytes):
                rest.append(line)
                continue
            batch = self._accumulator.take(line, now_ms)
            if batch is None:
                continue
            available_bytes -= batch.size_bytes
            taken.append((line, batch))
            if self._accumulator.has_due(line, now_ms):
                rest.append(line)
        return taken, rest

    def _send(
        self, node_id: int, load: NodeLoad, taken: list[tuple[Line, ProducerBatch]], now_ms: float
    ) -> None:
        rules, counts, transactions = self._rules, self.counts, self._transactions
        sealed = []
        for line, batch in taken:
            self.used_ms[line.topic] = now_ms
            sealed.append(batch.seal(rules.compression, rules.level, transactions is not None))
            counts.outgoing_byte_total += len(sealed[-1])
            counts.record_send_total += batch.record_count
        produce = Produce(taken)
        try:
            newest = self._client.version_of(node_id, ApiKey.PRODUCE)
            is_plain = newest == SINGLE_VERSION and transactions is None and rules.acks != 0
            if len(taken) > 1 or not is_plain or not self._send_single(node_id, load, produce, sealed[0]):
                self._send_many(node_id, load, produce, sealed, newest)
        except errors.PenstockError as error:
            self._no_answer(taken, error)
            return
        load.in_flight += 1
        counts.request_total += 1

    def _send_single(self, node_id: int, load: NodeLoad, produce: Produce, sealed: memoryview) -> bool:
        """Send the only batch without the codec; False if its topic has no id."""
        topic = self._client.cluster.topics.get(produce.taken[0][0].topic)
        if topic is None or topic.id == ZERO_UUID:
            return False
        timeout_ms = self._rules.request_timeout_ms
        self._client.send_encoded(
            node_id,
            ApiKey.PRODUCE,
            SINGLE_VERSION,
            produce.encode_single(sealed, topic.id, acks=self._rules.acks, timeout_ms=timeout_ms),
            partial(self._on_answer, load, produce),
            read=produce.read_single,
            timeout_ms=timeout_ms,
        )
        return True

    def _send_many(
        self, node_id: int, load: NodeLoad, produce: Produce, sealed: list[memoryview], newest: int
    ) -> None:
        rules, transactions = self._rules, self._transactions
        request = produce.request(
            sealed,
            self._client.cluster,
            acks=rules.acks,
            timeout_ms=rules.request_timeout_ms,
            transactional_id=None if transactions is None else transactions.transactional_id,
        )
        is_explicit = transactions is not None and not transactions.is_implicit
        answer = self._client.send(
            node_id,
            request,
            version=produce.version(newest, is_explicit=is_explicit),
            timeout_ms=rules.request_timeout_ms,
            expects_answer=rules.acks != 0,
        )
        answer.add_done_callback(partial(self._on_future, load, produce))

    # -- responses

    def _on_future(self, load: NodeLoad, produce: Produce, answer: asyncio.Future[Any]) -> None:
        error = errors.Disconnected() if answer.cancelled() else answer.exception()
        if error is not None and not isinstance(error, errors.PenstockError):
            raise error
        self._answered(load, produce, None if error is not None else answer.result(), error)

    def _on_answer(
        self, load: NodeLoad, produce: Produce, response: Any, error: errors.PenstockError | None
    ) -> None:
        if error is None:
            self._answered(load, produce, response, None)
        else:  # the connection is closing, and must be closed before anything is sent again
            asyncio.get_running_loop().call_soon(self._answered, load, produce, None, error)

    def _answered(
        self, load: NodeLoad, produce: Produce, response: Any, error: errors.PenstockError | None
    ) -> None:
        load.in_flight -= 1
        if self.is_stopped:
            return
        if error is not None:
            self._no_answer(produce.taken, error)
        elif type(response) is Written:
            self._take_written(load, produce, response)
        elif self._rules.acks == 0:
            for line, batch in produce.taken:
                self.outcomes.complete(line, batch, -1, -1)
        else:
            self._take_response(load, produce, response)
        self._on_room()
        if (
            self._accumulator.has_unsent
        ):  # a caller that waits for this one record gets the interpreter sooner
            self.pump()

    def _take_written(self, load: NodeLoad, produce: Produce, written: Written) -> None:
        if written.throttle_time_ms > 0:
            load.throttled_until_ms = self._client.now_ms() + written.throttle_time_ms
        ((line, batch),) = produce.taken
        if not batch.is_done:  # otherwise it expired before the response
            self.outcomes.complete(line, batch, written.base_offset, written.log_append_time_ms)

    def _take_response(self, load: NodeLoad, produce: Produce, response: Any) -> None:
        if response.throttle_time_ms > 0:
            load.throttled_until_ms = self._client.now_ms() + response.throttle_time_ms
        hints: list[LeaderChange] = []
        for line, batch, result in produce.answers(response):
            if result is None:
                error = errors.Disconnected("the response has no result for this partition")
                self._no_answer([(line, batch)], error)
                continue
            self._take_answer(line, batch, result)
            hint = leader_hint(line, result)
            if hint is not None:
                hints.append(hint)
        if hints:
            nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
            self._client.take_leaders(hints, nodes)

    def _take_answer(self, line: Line, batch: ProducerBatch, result: Any) -> None:
        if batch.is_done:
            return  # it expired before the response
        code = result.error_code
        if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.outcomes.complete(line, batch, result.base_offset, result.log_append_time_ms)
            return
        place = f"{line.topic}-{line.partition}"
        error = errors.of(code, result.error_message, about=place)
        if isinstance(error, errors.StaleMetadata):
            self._client.mark_stale()
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            logger.info("%s finds a batch of %d bytes too large; splitting it", place, batch.size_bytes)
            self.outcomes.split(line, batch)
            return
        if self.outcomes.can_retry(line, batch, code, result.log_start_offset):
            self._retry(line, batch, error)
        else:
            self.outcomes.fail(line, batch, error, record_errors(result, error, place))

    def _no_answer(self, taken: Taken, error: errors.PenstockError) -> None:
        """The request may or may not have arrived."""
        for line, batch in taken:
            if batch.is_done:
                continue
            if self.outcomes.can_retry_unanswered(batch, error):
                self._retry(line, batch, error)
            else:
                self.outcomes.give_up(line, batch, error)
        self._client.mark_stale()

    def _retry(self, line: Line, batch: ProducerBatch, error: Exception) -> None:
        self.outcomes.retry(line, batch, error, self._client.now_ms())
        self._is_more = True

    def _fail_expired(self, now_ms: float) -> None:
        if now_ms < self._accumulator.first_expiry_ms:
            return
        expired = self._accumulator.take_expired(now_ms)
        for line, batch in expired:
            self.outcomes.expire(line, batch, now_ms)
        if expired:
            self._on_room()

    # -- helpers

    def _may_write(self, line: Line) -> bool:
        transactions = self._transactions
        assert transactions is not None, "only transactions wait for it"
        if transactions.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR) or self.outcomes.suspects:
            return False
        return transactions.may_write(line.topic, line.partition)

    def _want_identity(self) -> None:
        is_asking = self._identifying is not None and not self._identifying.done()
        if not is_asking and not self._accumulator.is_empty:
            self._identifying = self._spawn(self._identify())

    async def _identify(self) -> None:
        """Request a producer id. If that is refused for good, all waiting batches fail."""
        assert self._idempotence is not None
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=2**31 - 1, producer_epoch=-1
        )
        try:
            response = await self._client.ask_any(request)
            if response.error_code is not ErrorCode.NONE:
                raise errors.of(response.error_code, about="the producer's id")
        except errors.PenstockError as error:
            if error.retriable:
                await asyncio.sleep(self._backoff.wait_ms(1) / 1000)
            else:
                self.fail_unsent(error)
        else:
            identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            self._idempotence.take_identity(identity)
        self._identifying = None
        self.pump()

    def _connect(self, node_id: int, load: NodeLoad) -> None:
        if load.connecting is None or load.connecting.done():  # done: it was cancelled
            load.connecting = self._spawn(self._open(node_id, load))

    async def _open(self, node_id: int, load: NodeLoad) -> None:
        try:
            await self._client.connect(node_id)
            self.last_errors.reached(node_id)
        except errors.PenstockError as error:
            logger.info("node %d cannot be reached: %s", node_id, error)
            self.last_errors.unreachable(node_id, error)
            self._client.mark_stale()
            # The connection has its own backoff; this only prevents a busy loop.
            await asyncio.sleep(self._backoff.wait_ms(1) / 1000)
        load.connecting = None
        self.pump()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _set_timer(self, when_ms: float) -> None:
        """Check at this time. An earlier timer is kept, and sets the next one."""
        if self._timer is not None:
            if self._timer_ms <= when_ms:
                return
            self._timer.cancel()
            self._timer = None
        if when_ms != math.inf:
            self._timer_ms = when_ms
            self._timer = asyncio.get_running_loop().call_at(when_ms / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        self.pump()
