"""Requests to the active controller: local or over the wire, through lost connections and new leaders."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.scripted_cluster import HANG_UP, NOTHING, ScriptedCluster
from penstock.broker.context import RequestContext
from penstock.broker.controller_channel import ControllerChannel
from penstock.broker.controller_handlers import TABLE
from penstock.broker.envelopes import unwrap_request, wrap_response
from penstock.metadata.errors import Refused
from penstock.net.node_connections import NodeAddress, NodeConnections
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

Test = Callable[["World"], Coroutine[Any, Any, None]]

ME = 9
BLOCK = AllocateProducerIdsRequest(broker_id=ME, broker_epoch=5)
GOT = AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)
NOT_CONTROLLER = AllocateProducerIdsResponse(
    error_code=ErrorCode.NOT_CONTROLLER, producer_id_start=0, producer_id_len=0
)


class FakeQuorum:
    failure: Exception | None = None


class FakeController:
    """The controller of this node. Each call takes the next of `answers`."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Any:
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def create_topics(self, request: CreateTopicsRequest, *, requested_by: str) -> Any:
        self.requested_by = requested_by
        return await self.allocate_producer_ids(BLOCK)


class FakeServer:
    def __init__(self) -> None:
        self.controller = FakeController()
        self.quorum = FakeQuorum()


class World:
    """Two controllers, 1 and 2, and a channel of node 9, which may be a controller too."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.server = FakeServer()
        self.leader: int | None = 1
        self.connections = NodeConnections(cluster.network, client_id="broker-9", rng=random.Random(1))
        local: Any = self.server
        self.channel = ControllerChannel(
            node_id=ME,
            local=local,
            leader=lambda: (
                None if self.leader is None else NodeAddress(self.leader, f"node{self.leader}", 9092)
            ),
            connections=self.connections,
            rng=random.Random(1),
        )
        self.channel.leader_changed()

    def elect(self, leader: int | None) -> None:
        self.leader = leader
        self.channel.leader_changed()

    def asked(self, node_id: int, kind: type[Any] = AllocateProducerIdsRequest) -> int:
        return len(self.cluster.nodes[node_id].asked_for(kind))

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()


def run(test: Test) -> None:
    cluster = ScriptedCluster(node_ids=(1, 2))
    cluster.answer(AllocateProducerIdsRequest, lambda request, node: GOT)
    cluster.answer(EnvelopeRequest, carry_out)

    async def main() -> None:
        world = World(cluster)
        try:
            await test(world)
        finally:
            await world.connections.close()

    cluster.run(main)


def client_context(*, version: int = 7, host: str = "10.1.2.3") -> RequestContext:
    return RequestContext(
        ApiKey.CREATE_TOPICS, version, 77, "a client", host, "PLAINTEXT", "User:alice", None
    )


CREATE = CreateTopicsRequest(
    topics=[
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in ("a", "b")
    ],
    timeout_ms=5000,
)


def carry_out(envelope: EnvelopeRequest, node: Any) -> EnvelopeResponse:
    """Answer with what the controller sees in the envelope."""
    outer = RequestContext(ApiKey.ENVELOPE, 0, 1, "broker-9", "10.0.0.9", "CONTROLLER", "User:broker", None)
    request, context = unwrap_request(envelope, outer, TABLE.versions)
    return wrap_response(
        CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_message=f"for {context.requester()}")
                for topic in request.topics
            ]
        ),
        context,
    )


# -- requests of the broker itself


def test_a_request_goes_to_the_leader_over_the_wire() -> None:
    async def test(world: World) -> None:
        assert await world.channel.ask(BLOCK, timeout_ms=1000) == GOT
        assert world.cluster.nodes[1].asked_for(AllocateProducerIdsRequest) == [BLOCK]

    run(test)


def test_a_node_that_leads_the_quorum_calls_its_own_controller() -> None:
    async def test(world: World) -> None:
        world.elect(ME)
        world.server.controller.answers = [GOT]
        assert await world.channel.ask(BLOCK, timeout_ms=1000) == GOT
        assert world.cluster.nodes[1].connections == 0

    run(test)


def test_an_error_of_the_request_is_in_the_response_wherever_the_controller_is() -> None:
    async def test(world: World) -> None:
        stale = AllocateProducerIdsResponse(
            error_code=ErrorCode.STALE_BROKER_EPOCH, producer_id_start=0, producer_id_len=0
        )
        world.cluster.answer(AllocateProducerIdsRequest, lambda request, node: stale)
        assert await world.channel.ask(BLOCK, timeout_ms=1000) == stale
        world.elect(ME)
        world.server.controller.answers = [Refused(ErrorCode.STALE_BROKER_EPOCH)]
        assert await world.channel.ask(BLOCK, timeout_ms=1000) == stale

    run(test)


def test_not_controller_is_retried_until_the_node_is_active() -> None:
    async def test(world: World) -> None:
        world.cluster.answer_in_turn(AllocateProducerIdsRequest, NOT_CONTROLLER, NOT_CONTROLLER)
        assert await world.channel.ask(BLOCK, timeout_ms=5000) == GOT
        assert world.asked(1) == 3

    run(test)


def test_a_local_controller_that_is_not_active_yet_is_called_again() -> None:
    async def test(world: World) -> None:
        world.elect(ME)
        world.server.controller.answers = [Refused(ErrorCode.NOT_CONTROLLER), GOT]
        assert await world.channel.ask(BLOCK, timeout_ms=5000) == GOT

    run(test)


def test_a_request_whose_response_was_lost_is_sent_again() -> None:
    async def test(world: World) -> None:
        world.cluster.answer_in_turn(AllocateProducerIdsRequest, HANG_UP)
        assert await world.channel.ask(BLOCK, timeout_ms=5000) == GOT
        assert world.asked(1) == 2

    run(test)


def test_without_a_leader_the_request_waits_and_is_sent_as_soon_as_there_is_one() -> None:
    async def test(world: World) -> None:
        world.elect(None)
        waiting = asyncio.ensure_future(world.channel.ask(BLOCK, timeout_ms=60_000))
        await asyncio.sleep(20)
        elected_at = world.now
        world.elect(2)
        assert await waiting == GOT
        assert world.now - elected_at < 0.1
        assert world.asked(2) == 1

    run(test)


def test_a_leader_that_hangs_is_left_as_soon_as_another_one_is_elected() -> None:
    async def test(world: World) -> None:
        world.cluster.answer_in_turn(AllocateProducerIdsRequest, NOTHING)
        waiting = asyncio.ensure_future(world.channel.ask(BLOCK, timeout_ms=60_000))
        await asyncio.sleep(1)
        assert world.asked(1) == 1
        elected_at = world.now
        world.elect(2)
        assert await waiting == GOT
        assert world.now - elected_at < 0.1

    run(test)


def test_a_leader_that_moves_to_this_node_is_called_locally() -> None:
    async def test(world: World) -> None:
        world.cluster.answer_in_turn(AllocateProducerIdsRequest, NOTHING)
        waiting = asyncio.ensure_future(world.channel.ask(BLOCK, timeout_ms=60_000))
        await asyncio.sleep(1)
        world.server.controller.answers = [GOT]
        world.elect(ME)
        assert await waiting == GOT

    run(test)


def test_without_a_controller_the_request_is_refused_at_its_deadline() -> None:
    async def test(world: World) -> None:
        world.cluster.kill(1)
        began = world.now
        with pytest.raises(
            Refused, match="No active controller responded to AllocateProducerIds within 3000 ms"
        ) as caught:
            await world.channel.ask(BLOCK, timeout_ms=3000)
        assert caught.value.error is ErrorCode.REQUEST_TIMED_OUT
        assert world.now - began == pytest.approx(3.0, abs=0.1)

    run(test)


def test_an_api_that_the_controller_does_not_serve_is_not_retried() -> None:
    async def test(world: World) -> None:
        del world.cluster.versions[ApiKey.ALLOCATE_PRODUCER_IDS]
        with pytest.raises(Refused) as caught:
            await world.channel.ask(BLOCK, timeout_ms=3000)
        assert caught.value.error is ErrorCode.UNSUPPORTED_VERSION

    run(test)


def test_requests_in_progress_are_refused_when_the_node_stops() -> None:
    async def test(world: World) -> None:
        world.elect(None)
        waiting = asyncio.ensure_future(world.channel.ask(BLOCK, timeout_ms=60_000))
        await asyncio.sleep(1)
        world.channel.close()
        with pytest.raises(Refused) as caught:
            await waiting
        assert caught.value.error is ErrorCode.NOT_CONTROLLER

    run(test)


def test_a_failed_metadata_log_is_reported_at_once() -> None:
    async def test(world: World) -> None:
        world.elect(ME)
        world.server.quorum.failure = OSError("disk")
        world.server.controller.answers = [Refused(ErrorCode.NOT_CONTROLLER, "The metadata log failed: disk")]
        began = world.now
        with pytest.raises(Refused, match="disk"):
            await world.channel.ask(BLOCK, timeout_ms=60_000)
        assert world.now - began < 0.1

    run(test)


# -- requests of clients


@pytest.mark.parametrize("version", range(8))
def test_a_forwarded_request_arrives_with_its_version_and_its_client(version: int) -> None:
    async def test(world: World) -> None:
        response = await world.channel.forward(CREATE, client_context(version=version))
        assert [topic.name for topic in response.topics] == ["a", "b"]
        if version >= 1:
            assert response.topics[0].error_message == "for User:alice at 10.1.2.3 (client id a client)"

    run(test)


def test_a_client_with_an_ipv6_address_is_forwarded() -> None:
    async def test(world: World) -> None:
        response = await world.channel.forward(CREATE, client_context(host="2001:db8::7"))
        assert "at 2001:db8::7" in response.topics[0].error_message

    run(test)


def test_a_local_controller_knows_the_client_too() -> None:
    async def test(world: World) -> None:
        world.elect(ME)
        world.server.controller.answers = [CreateTopicsResponse(topics=[])]
        await world.channel.forward(CREATE, client_context())
        assert world.server.controller.requested_by == "User:alice at 10.1.2.3 (client id a client)"

    run(test)


def test_an_envelope_that_is_answered_with_not_controller_goes_to_the_next_leader() -> None:
    async def test(world: World) -> None:
        def not_controller(request: EnvelopeRequest, node: Any) -> Any:
            if node.id == 2:
                return carry_out(request, node)
            world.elect(2)
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)

        world.cluster.answer(EnvelopeRequest, not_controller)
        response = await world.channel.forward(CREATE, client_context())
        assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE] * 2

    run(test)


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_other_errors_of_the_envelope_are_reported_to_the_client(error: ErrorCode, seen: ErrorCode) -> None:
    async def test(world: World) -> None:
        world.cluster.answer(EnvelopeRequest, lambda request, node: EnvelopeResponse(error_code=error))
        response = await world.channel.forward(CREATE, client_context())
        assert [topic.error_code for topic in response.topics] == [seen] * 2

    run(test)


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0\x4d\0\x7f"])
def test_a_malformed_response_in_an_envelope_is_an_error_for_the_client(data: bytes | None) -> None:
    async def test(world: World) -> None:
        world.cluster.answer(EnvelopeRequest, lambda request, node: EnvelopeResponse(response_data=data))
        response = await world.channel.forward(CREATE, client_context())
        assert [topic.error_code for topic in response.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2

    run(test)


def test_without_a_controller_a_client_gets_request_timed_out_for_all_that_it_asked() -> None:
    async def test(world: World) -> None:
        world.elect(None)
        began = world.now
        response = await world.channel.forward(CREATE, client_context())
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("a", ErrorCode.REQUEST_TIMED_OUT),
            ("b", ErrorCode.REQUEST_TIMED_OUT),
        ]
        assert world.now - began == pytest.approx(5.0, abs=0.1)

    run(test)


def test_a_forwarded_request_does_not_delay_heartbeats() -> None:
    """A controller responds in order, so they have different connections."""

    async def test(world: World) -> None:
        from penstock.protocol.messages.broker_heartbeat import (
            BrokerHeartbeatRequest,
            BrokerHeartbeatResponse,
        )

        alive = BrokerHeartbeatResponse(should_shut_down=False)
        world.cluster.answer(BrokerHeartbeatRequest, lambda request, node: alive)
        world.cluster.answer(EnvelopeRequest, lambda request, node: NOTHING)
        waiting = asyncio.ensure_future(world.channel.forward(CREATE, client_context()))
        await asyncio.sleep(0.1)
        heartbeat = BrokerHeartbeatRequest(
            broker_id=ME, current_metadata_offset=1, want_fence=False, want_shut_down=False
        )
        assert await world.channel.ask(heartbeat, timeout_ms=1000) == alive
        waiting.cancel()

    run(test)
