"""A client's access to a cluster, in a simulated network with scripted faults and virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.scripted_cluster import HANG_UP, NOTHING, Led, ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.cluster import Cluster, Leader, LeaderChange, Node, TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.settings import AdminSettings
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.types import Uuid

GROUP = CoordinatorKind.GROUP
ORDERS = TopicPartition("orders", 0)

Test = Callable[[ClusterClient], Coroutine[Any, Any, None]]


def run(world: ScriptedCluster, test: Test, *, bootstrap: str | None = None, **settings: object) -> None:
    """Run a test with a client, which is closed after it and must leave nothing behind."""

    async def main() -> None:
        client = ClusterClient(
            AdminSettings.of(bootstrap or world.bootstrap, None, settings),
            network=world.network,
            clock=world.clock,
            rng=world.random,
        )
        bystanders = asyncio.all_tasks()
        try:
            await test(client)
        finally:
            await client.close()
        mine = [each for each in asyncio.all_tasks() - bystanders if "_Served" not in repr(each)]
        assert mine == [], "a task was left behind"
        timers = [
            each for each in world.loop._scheduled if not each.cancelled() and "penstock.client" in repr(each)
        ]
        assert timers == [], "a timer was left behind"
        assert all(not node.streams for node in world.nodes.values()) or await _gone(world), (
            "a connection was left"
        )

    world.run(main)


async def _gone(world: ScriptedCluster) -> bool:
    await asyncio.sleep(1)  # virtual: the peers notice it a moment later
    return all(not node.streams for node in world.nodes.values())


def list_groups(world: ScriptedCluster) -> None:
    """Every node responds to ListGroups with a group of its own name."""
    world.answer(
        ListGroupsRequest,
        lambda request, node: ListGroupsResponse(
            groups=[ListedGroup(group_id=f"of-node-{node.id}", protocol_type="consumer")]
        ),
    )


# -- metadata


def test_topics_are_known_after_a_request() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(leader=2, epoch=5)}

    async def test(client: ClusterClient) -> None:
        cluster = await client.topics(["orders"])
        assert cluster.leader_of(ORDERS) == Leader(2, 5)
        assert client.cluster is cluster

    run(world, test)


def test_known_topics_cost_no_request() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}

    async def test(client: ClusterClient) -> None:
        first = await client.topics(["orders"])
        assert await client.topics(["orders"]) is first
        assert len(world.nodes[1].asked_for(MetadataRequest)) == 1

    run(world, test)


def test_a_hundred_waiters_cost_few_requests() -> None:
    world = ScriptedCluster()
    world.topics = {f"topic-{index}": {0: Led(leader=1)} for index in range(100)}

    async def test(client: ClusterClient) -> None:
        await asyncio.gather(*(client.topics([name]) for name in world.topics))
        assert len(world.nodes[1].asked_for(MetadataRequest)) <= 2

    run(world, test)


def test_a_topic_that_is_created_meanwhile_is_found() -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        waiting = asyncio.create_task(client.topics(["orders"]))
        await asyncio.sleep(3)
        world.topics["orders"] = {0: Led(leader=1)}
        assert "orders" in (await waiting).topics

    run(world, test)


def test_an_unknown_topic_is_an_error_after_patience_ms() -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        began_ms = client.now_ms()
        with pytest.raises(errors.UnknownTopicOrPartition, match="orders"):
            await client.topics(["orders"], patience_ms=1500)
        assert 1500 <= client.now_ms() - began_ms < 4000

    run(world, test)


def test_an_unknown_topic_is_an_error_at_the_deadline() -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        began_ms = client.now_ms()
        with pytest.raises(errors.UnknownTopicOrPartition, match="orders"):
            await client.topics(["orders"], deadline_ms=client.deadline(5000))
        assert client.now_ms() - began_ms == pytest.approx(5000, abs=1)

    run(world, test)


def test_a_fatal_error_is_raised_at_once() -> None:
    world = ScriptedCluster()
    world.topic_errors["orders"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    async def test(client: ClusterClient) -> None:
        began_ms = client.now_ms()
        with pytest.raises(errors.TopicAuthorizationFailed, match="orders"):
            await client.topics(["orders"])
        assert client.now_ms() - began_ms < 100

    run(world, test)


@pytest.mark.parametrize("name", ["", None, 7, "\ud800"])
def test_an_invalid_name_is_rejected_and_does_not_break_later_requests(name: Any) -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.BadArgument, match="not a valid topic name"):
            await client.topics([name])
        await client.topics(["orders"])

    run(world, test)


def test_auto_creation_is_requested_only_for_allowed_topics() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}

    def create(request: MetadataRequest, node: ScriptedNode) -> MetadataResponse:
        if request.allow_auto_topic_creation:
            assert [each.name for each in request.topics or []] == ["payments"]
            world.topics["payments"] = {0: Led(leader=1)}
        return world._metadata(request, node)

    world.answer(MetadataRequest, create)

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])
        assert "payments" in (await client.topics(["payments", "orders"], may_create=True)).topics

    run(world, test)


def test_a_refresh_is_newer_than_the_call() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1, epoch=1)}

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])
        for epoch in range(2, 5):
            world.topics["orders"][0].epoch = epoch
            assert (await client.refresh()).leader_of(ORDERS) == Leader(1, epoch)

    run(world, test)


def test_a_refresh_ignores_a_response_to_an_older_request() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1, epoch=1)}
    late: asyncio.Future[Any] = world.loop.create_future()

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])
        world.answer_in_turn(MetadataRequest, late)
        first = asyncio.create_task(client.refresh())
        await asyncio.sleep(1)  # the request is in flight, and will be answered with the present state
        old = world._metadata(world.nodes[1].asked_for(MetadataRequest)[-1], world.nodes[1])
        world.topics["orders"][0].epoch = 2
        second = asyncio.create_task(client.refresh())
        await asyncio.sleep(0)
        late.set_result(old)
        assert (await first).leader_of(ORDERS) == Leader(1, 1)
        assert (await second).leader_of(ORDERS) == Leader(1, 2)

    run(world, test)


def test_wanted_topics_are_refreshed_at_metadata_max_age() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1, epoch=1)}

    async def test(client: ClusterClient) -> None:
        client.want(["orders"])
        await asyncio.sleep(1)
        assert client.cluster.leader_of(ORDERS) == Leader(1, 1)
        world.topics["orders"][0].epoch = 2
        await asyncio.sleep(61)
        assert client.cluster.leader_of(ORDERS) == Leader(1, 2)

    run(world, test, metadata_max_age_ms=60_000)


def test_wanting_all_topics_finds_new_ones() -> None:
    world = ScriptedCluster()
    seen: list[set[str]] = []

    async def test(client: ClusterClient) -> None:
        client.on_update(lambda cluster: seen.append(set(cluster.topics)))
        client.want(None)
        await asyncio.sleep(1)
        world.topics["orders"] = {0: Led(leader=1)}
        await client.refresh()
        assert seen[0] == set()
        assert seen[-1] == {"orders"}

    run(world, test)


def test_a_wanted_topic_without_a_leader_is_refreshed() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=-1, error=ErrorCode.LEADER_NOT_AVAILABLE)}

    async def test(client: ClusterClient) -> None:
        client.want(["orders"])
        await asyncio.sleep(2)
        world.topics["orders"] = {0: Led(leader=1, epoch=1)}
        await asyncio.sleep(2)
        assert client.cluster.leader_of(ORDERS) == Leader(1, 1)

    run(world, test)


def test_stale_metadata_is_refreshed_soon_with_backoff() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])
        before = len(world.nodes[1].asked_for(MetadataRequest))
        for _ in range(1000):
            client.mark_stale()
            await asyncio.sleep(0.01)
        requests = len(world.nodes[1].asked_for(MetadataRequest)) - before
        assert 5 <= requests <= 20, "ten seconds, and at most one a second once nothing is new"

    run(world, test)


def test_a_new_topic_does_not_wait_for_the_backoff() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}

    async def test(client: ClusterClient) -> None:
        missing = asyncio.create_task(client.topics(["missing"]))
        await asyncio.sleep(20)  # by now metadata is requested once a second
        began_ms = client.now_ms()
        await client.topics(["orders"])
        assert client.now_ms() - began_ms < 100
        missing.cancel()

    run(world, test)


def test_leaders_from_produce_and_fetch_responses_are_used() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(leader=1, epoch=1)}

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])
        seen: list[Cluster] = []
        client.on_update(seen.append)
        client.take_leaders([LeaderChange(ORDERS, Leader(2, 2))], [Node(2, "node2", 9092)])
        assert client.cluster.leader_of(ORDERS) == Leader(2, 2)
        client.take_leaders([LeaderChange(ORDERS, Leader(1, 1))], [])
        assert client.cluster.leader_of(ORDERS) == Leader(2, 2)
        assert len(seen) == 1

    run(world, test)


# -- nodes that disconnect


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_an_admin_call_that_waits_for_a_broker_warns_after_five_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        world.kill(1)
        call = asyncio.create_task(client.ask_any(ListGroupsRequest()))
        await asyncio.sleep(4.9)
        assert _warnings(caplog) == []
        await asyncio.sleep(0.2)
        (warning,) = _warnings(caplog)
        assert (
            warning == "no broker has answered for 5 s, still trying: node1:9092: no listener on node1:9092"
        )
        with pytest.raises(errors.NoBrokersAvailable):
            await call

    run(world, test)


def test_a_silent_broker_is_warned_of_after_five_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        world.answer(ApiVersionsRequest, lambda request, node: NOTHING)
        with pytest.raises(errors.NoBrokersAvailable):
            await client.ask_any(ListGroupsRequest(), deadline_ms=client.deadline(6000))
        (warning,) = _warnings(caplog)
        assert warning == "no broker has answered for 5 s, still trying: node1:9092: no response yet"

    run(world, test)


def test_each_call_warns_while_the_broker_is_down_and_none_after_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        world.kill(1)
        with pytest.raises(errors.NoBrokersAvailable):
            await client.ask_any(ListGroupsRequest(), deadline_ms=client.deadline(1000))
        await asyncio.sleep(60)
        assert _warnings(caplog) == [], "nobody waits any more"

        for number in (1, 2):
            with pytest.raises(errors.NoBrokersAvailable):
                await client.ask_any(ListGroupsRequest(), deadline_ms=client.deadline(30_000))
            assert len(_warnings(caplog)) == number
            await asyncio.sleep(60)

    run(world, test)


def test_a_long_outage_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    world = ScriptedCluster()

    def warnings() -> list[str]:
        return _warnings(caplog)

    async def test(client: ClusterClient) -> None:
        world.kill(1)
        with pytest.raises(errors.NoBrokersAvailable):
            await client.refresh(deadline_ms=client.deadline(4000))
        assert warnings() == []

        with pytest.raises(errors.NoBrokersAvailable):
            await client.refresh(deadline_ms=client.deadline(60_000))
        (warning,) = warnings()
        assert "node1:9092" in warning

        await world.start(1)
        await client.refresh()
        world.kill(1)
        with pytest.raises(errors.TimedOut):
            await client.refresh(deadline_ms=client.deadline(60_000))
        assert len(warnings()) == 2, "once for each time that it is away"

    run(world, test)


def test_a_disconnected_node_fails_its_request() -> None:
    world = ScriptedCluster()
    world.answer(ListGroupsRequest, lambda request, node: HANG_UP)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        with pytest.raises(errors.Disconnected):
            await client.ask(1, ListGroupsRequest())

    run(world, test)


def test_a_restarted_node_is_reached_again() -> None:
    world = ScriptedCluster()
    list_groups(world)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.ask(1, ListGroupsRequest())
        world.kill(1)
        await asyncio.sleep(5)
        assert not client.is_ready(1)
        with pytest.raises(errors.Disconnected, match="node1:9092"):
            await client.ask(1, ListGroupsRequest())
        await world.start(1)
        await client.ask_any(ListGroupsRequest())
        await client.refresh()
        await client.ask(1, ListGroupsRequest())

    run(world, test)


def test_another_node_is_asked_after_a_disconnect() -> None:
    world = ScriptedCluster(node_ids=(1, 2, 3))
    list_groups(world)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        for node_id in (1, 2):
            world.kill(node_id)
            answer = await client.ask_any(ListGroupsRequest())
            assert answer.groups[0].group_id != f"of-node-{node_id}"

    run(world, test)


def test_a_moved_leader_is_found_after_its_node_died() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(leader=1, epoch=1)}

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])
        await client.connect(1)
        world.topics["orders"][0] = Led(leader=2, epoch=2)
        world.kill(1)
        await asyncio.sleep(3)  # no caller asks: the lost connection is reason enough
        assert client.cluster.leader_of(ORDERS) == Leader(2, 2)

    run(world, test)


def test_no_broker_at_all_names_each_address_and_why() -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.NoBrokersAvailable) as raised:
            await client.refresh(deadline_ms=client.deadline(2000))
        assert set(raised.value.attempts) == {"nowhere:1", "nobody:2"}
        assert all("no listener" in why for why in raised.value.attempts.values())

    run(world, test, bootstrap="nowhere:1,nobody:2")


def test_a_bootstrap_server_that_never_responds_is_named() -> None:
    world = ScriptedCluster()
    world.answer(ApiVersionsRequest, lambda request, node: NOTHING)

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.NoBrokersAvailable, match="node1:9092: no response within 2000 ms"):
            await client.ask_any(ListGroupsRequest(), deadline_ms=client.deadline(2000))

    run(world, test)


def test_a_broker_without_metadata_is_asked_again() -> None:
    world = ScriptedCluster()
    empty = MetadataResponse(brokers=[], controller_id=-1, topics=[])
    world.answer_in_turn(MetadataRequest, empty, empty)

    async def test(client: ClusterClient) -> None:
        assert set((await client.refresh()).nodes) == {1}

    run(world, test)


def test_metadata_without_brokers_is_ignored() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])
        seen: list[Cluster] = []
        client.on_update(seen.append)
        world.answer_in_turn(MetadataRequest, MetadataResponse(brokers=[], controller_id=-1, topics=[]))
        await client.refresh()
        assert all(set(each.nodes) == {1} for each in seen)

    run(world, test)


def test_one_live_bootstrap_server_is_enough() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}

    async def test(client: ClusterClient) -> None:
        await client.topics(["orders"])

    run(world, test, bootstrap="nowhere:1,nobody:2,node1:9092")


def test_a_bootstrap_connection_is_kept_for_its_node() -> None:
    world = ScriptedCluster()
    list_groups(world)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.ask(1, ListGroupsRequest())
        assert world.nodes[1].connections == 1

    run(world, test)


def test_a_bootstrap_connection_of_no_node_is_closed() -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        world.kill(1)
        await world.start(1, also_as="front")
        await client.refresh()
        await asyncio.sleep(1)
        assert world.nodes[1].streams == []

    run(world, test, bootstrap="front:9092")


def test_a_cluster_that_moved_is_found_by_its_bootstrap_servers() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(leader=2, epoch=9)}

    async def test(client: ClusterClient) -> None:
        world.kill(1)
        await world.start(1, also_as="front")
        await client.topics(["orders"])
        world.kill(1)
        world.kill(2)
        world.nodes = {7: ScriptedNode(7, "node7", 9092)}
        world.topics["orders"] = {0: Led(leader=7, epoch=0)}
        await world.start(7, also_as="front")
        cluster = await client.refresh()
        assert set(cluster.nodes) == {7}
        assert cluster.leader_of(ORDERS) == Leader(7, 0), "what another cluster said does not count"

    run(world, test, bootstrap="front:9092")


def test_without_recovery_only_known_nodes_are_asked() -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        world.kill(1)
        await world.start(1, also_as="front")
        await client.refresh()
        world.kill(1)
        world.nodes[1].host = "moved"
        await world.start(1, also_as="front")
        with pytest.raises(errors.TimedOut):
            await client.refresh(deadline_ms=client.deadline(30_000))

    run(world, test, bootstrap="front:9092", metadata_recovery_strategy="none")


def test_a_broker_may_request_a_rebootstrap() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    required = MetadataResponse(
        brokers=[], controller_id=-1, topics=[], error_code=ErrorCode.REBOOTSTRAP_REQUIRED
    )

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.connect(2)
        world.answer_in_turn(MetadataRequest, required)
        before = world.nodes[1].connections
        await client.refresh()
        assert world.nodes[1].connections == before + 1

    run(world, test, bootstrap="node1:9092")


# -- late and missing responses


def test_a_request_without_a_response_in_time_closes_the_connection() -> None:
    world = ScriptedCluster()
    world.answer(ListGroupsRequest, lambda request, node: NOTHING)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        behind = asyncio.create_task(client.ask(1, ApiVersionsRequest(), timeout_ms=90_000))
        with pytest.raises(errors.TimedOut, match="ListGroups within 5000 ms"):
            await client.ask(1, ListGroupsRequest(), timeout_ms=5000)
        assert not client.is_ready(1)
        await behind

    run(world, test)


def test_requests_after_a_late_response_fail_with_it() -> None:
    world = ScriptedCluster()
    never: asyncio.Future[Any] = world.loop.create_future()
    world.answer(ListGroupsRequest, lambda request, node: never)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.connect(1)
        first = client.send(1, ListGroupsRequest(), timeout_ms=5000)
        behind = client.send(1, ListGroupsRequest(), timeout_ms=60_000)
        with pytest.raises(errors.TimedOut):
            await first
        with pytest.raises(errors.Disconnected, match="closed because"):
            await behind

    run(world, test)


def test_responses_come_in_the_order_of_requests() -> None:
    world = ScriptedCluster()
    numbers = iter(range(100))
    world.answer(
        ListGroupsRequest,
        lambda request, node: ListGroupsResponse(
            groups=[ListedGroup(group_id=str(next(numbers)), protocol_type="")]
        ),
    )

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.connect(1)
        sent = [client.send(1, ListGroupsRequest()) for _ in range(100)]
        assert client.in_flight(1) == 100
        answers = await asyncio.gather(*sent)
        assert [int(each.groups[0].group_id) for each in answers] == list(range(100))
        assert client.in_flight(1) == 0

    run(world, test)


def test_a_caller_that_gives_up_does_not_disturb_the_others() -> None:
    world = ScriptedCluster()
    list_groups(world)

    async def test(client: ClusterClient) -> None:
        world.kill(1)
        await world.start(1, also_as="front")
        await client.refresh()
        first = asyncio.create_task(client.ask(1, ListGroupsRequest()))
        second = asyncio.create_task(client.ask(1, ListGroupsRequest()))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()
        assert world.nodes[1].connections == 2, "that to the bootstrap server, and one for both"

    run(world, test, bootstrap="front:9092")


def test_throttling_is_respected() -> None:
    world = ScriptedCluster()
    world.answer_in_turn(ListGroupsRequest, ListGroupsResponse(throttle_time_ms=3000, groups=[]))
    list_groups_after = ListGroupsResponse(groups=[])

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.ask(1, ListGroupsRequest())
        assert not client.is_ready(1)
        world.answer(ListGroupsRequest, lambda request, node: list_groups_after)
        began_ms = client.now_ms()
        await client.ask(1, ListGroupsRequest())
        assert client.now_ms() - began_ms >= 2990

    run(world, test)


def test_an_idle_connection_is_closed_and_reopened() -> None:
    world = ScriptedCluster()
    list_groups(world)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.ask(1, ListGroupsRequest())
        await asyncio.sleep(31)
        assert not client.is_ready(1)
        assert world.nodes[1].streams == []
        await client.ask(1, ListGroupsRequest())

    run(world, test, connections_max_idle_ms=30_000)


def test_a_connection_with_a_request_in_flight_is_not_idle() -> None:
    world = ScriptedCluster()

    async def late() -> ListGroupsResponse:
        await asyncio.sleep(100)
        return ListGroupsResponse(groups=[])

    world.answer(ListGroupsRequest, lambda request, node: late())

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.ask(1, ListGroupsRequest(), timeout_ms=200_000)

    run(world, test, connections_max_idle_ms=30_000)


def test_reconnects_back_off() -> None:
    world = ScriptedCluster()
    attempts: list[int] = []

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        world.kill(1)
        await asyncio.sleep(1)
        until_ms = client.deadline(60_000)
        while client.now_ms() < until_ms:
            with pytest.raises(errors.Disconnected):
                await client.connect(1)
            attempts.append(client.now_ms())
        assert 55 <= len(attempts) <= 90, "about one a second"

    run(world, test, metadata_recovery_strategy="none")


# -- controller and coordinators


def test_a_moved_controller_is_found_again() -> None:
    world = ScriptedCluster(node_ids=(1, 2))

    def create(request: CreateTopicsRequest, node: ScriptedNode) -> CreateTopicsResponse:
        from penstock.protocol.messages.create_topics import CreatableTopicResult

        code = ErrorCode.NONE if node.id == 2 else ErrorCode.NOT_CONTROLLER
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", error_code=code, configs=[])])

    world.answer(CreateTopicsRequest, create)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        world.controller_id = 2
        response = await client.ask_controller(CreateTopicsRequest(topics=[]))
        assert response.topics[0].error_code == ErrorCode.NONE
        assert len(world.nodes[1].asked_for(CreateTopicsRequest)) == 1

    run(world, test)


def test_the_error_of_a_controllers_disk_is_quoted_in_the_timeout() -> None:
    world = ScriptedCluster()

    def create(request: CreateTopicsRequest, node: ScriptedNode) -> CreateTopicsResponse:
        from penstock.protocol.messages.create_topics import CreatableTopicResult

        failed = CreatableTopicResult(
            name="orders",
            error_code=ErrorCode.NOT_CONTROLLER,
            error_message="The metadata log of node 1 failed: No space left on device",
            configs=[],
        )
        return CreateTopicsResponse(topics=[failed])

    world.answer(CreateTopicsRequest, create)

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.TimedOut, match="metadata log of node 1 failed: No space left on device"):
            await client.ask_controller(CreateTopicsRequest(topics=[]), deadline_ms=client.now_ms() + 3000)

    run(world, test)


def test_a_dead_controller_is_found_elsewhere() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.answer(CreateTopicsRequest, lambda request, node: CreateTopicsResponse(topics=[]))

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        world.kill(1)
        world.controller_id = 2
        await client.ask_controller(CreateTopicsRequest(topics=[]))
        assert len(world.nodes[2].asked_for(CreateTopicsRequest)) == 1

    run(world, test)


def answer_delete_groups(world: ScriptedCluster) -> None:
    """Only the coordinator knows the group."""

    def delete(request: DeleteGroupsRequest, node: ScriptedNode) -> DeleteGroupsResponse:
        codes = {
            name: ErrorCode.NONE if world.coordinators.get(name) == node.id else ErrorCode.NOT_COORDINATOR
            for name in request.groups_names
        }
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=name, error_code=code) for name, code in codes.items()]
        )

    world.answer(DeleteGroupsRequest, delete)


def test_a_coordinator_is_looked_up_once_and_has_its_own_connection() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.coordinators["readers"] = 2
    answer_delete_groups(world)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.connect(2)
        node_id = await client.coordinator(GROUP, "readers")
        assert (node := client.node(node_id)) is not None
        assert node.id == 2
        for _ in range(2):
            await client.ask_coordinator(GROUP, "readers", DeleteGroupsRequest(groups_names=["readers"]))
        finds = [each for node in world.nodes.values() for each in node.asked_for(FindCoordinatorRequest)]
        assert len(finds) == 1
        assert world.nodes[2].connections == 2

    run(world, test)


def test_a_moved_coordinator_is_found_again() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.coordinators["readers"] = 1
    answer_delete_groups(world)

    async def test(client: ClusterClient) -> None:
        await client.coordinator(GROUP, "readers")
        world.coordinators["readers"] = 2
        response = await client.ask_coordinator(
            GROUP, "readers", DeleteGroupsRequest(groups_names=["readers"])
        )
        assert response.results[0].error_code == ErrorCode.NONE

    run(world, test)


def test_a_dead_coordinator_is_found_elsewhere() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.coordinators["readers"] = 1
    answer_delete_groups(world)

    async def test(client: ClusterClient) -> None:
        await client.ask_coordinator(GROUP, "readers", DeleteGroupsRequest(groups_names=["readers"]))
        world.kill(1)
        world.coordinators["readers"] = 2
        await client.ask_coordinator(GROUP, "readers", DeleteGroupsRequest(groups_names=["readers"]))

    run(world, test)


def test_a_missing_coordinator_is_waited_for() -> None:
    world = ScriptedCluster()
    world.coordinators["readers"] = ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def test(client: ClusterClient) -> None:
        waiting = asyncio.create_task(client.coordinator(GROUP, "readers"))
        await asyncio.sleep(3)
        world.coordinators["readers"] = 1
        await waiting

    run(world, test)


def test_a_loading_coordinator_is_retried_without_a_lookup() -> None:
    world = ScriptedCluster()
    loading = DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id="readers", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    )
    world.coordinators["readers"] = 1
    answer_delete_groups(world)
    world.answer_in_turn(DeleteGroupsRequest, loading, loading)

    async def test(client: ClusterClient) -> None:
        await client.ask_coordinator(GROUP, "readers", DeleteGroupsRequest(groups_names=["readers"]))
        assert len(world.nodes[1].asked_for(FindCoordinatorRequest)) == 1

    run(world, test)


def test_a_coordinator_that_never_appears_is_a_timeout_with_a_reason() -> None:
    world = ScriptedCluster()
    world.coordinators["readers"] = ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.TimedOut, match="COORDINATOR_NOT_AVAILABLE") as raised:
            await client.coordinator(GROUP, "readers", deadline_ms=client.deadline(5000))
        assert isinstance(raised.value.__cause__, errors.CoordinatorNotAvailable)

    run(world, test)


def test_an_unauthorized_group_is_an_error_at_once() -> None:
    world = ScriptedCluster()
    world.coordinators["readers"] = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.GroupAuthorizationFailed, match="readers"):
            await client.coordinator(GROUP, "readers")

    run(world, test)


@pytest.mark.parametrize(("last_version", "requests"), [(6, 1), (3, 3), (0, 3)])
def test_many_coordinators_are_found_with_old_and_new_brokers(last_version: int, requests: int) -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.versions[ApiKey.FIND_COORDINATOR] = (0, last_version)
    world.coordinators = {"a": 1, "b": 2, "c": 1}

    async def test(client: ClusterClient) -> None:
        found = await client.coordinators(GROUP, ["a", "b", "c"])
        assert [getattr(client.node(found[key]), "id", None) for key in "abc"] == [1, 2, 1]
        finds = [each for node in world.nodes.values() for each in node.asked_for(FindCoordinatorRequest)]
        assert len(finds) == requests

    run(world, test)


# -- versions


@pytest.mark.parametrize("last_version", [0, 1, 2, 3])
def test_a_broker_with_only_old_api_versions_is_supported(last_version: int) -> None:
    world = ScriptedCluster()
    world.versions[ApiKey.API_VERSIONS] = (0, last_version)

    async def test(client: ClusterClient) -> None:
        await client.refresh()

    run(world, test)


def test_an_old_brokers_metadata_is_supported() -> None:
    world = ScriptedCluster()
    world.versions[ApiKey.METADATA] = (0, 7)  # Kafka 2.1
    world.topics["orders"] = {0: Led(leader=1, epoch=4)}

    async def test(client: ClusterClient) -> None:
        assert (await client.topics(["orders"])).leader_of(ORDERS) == Leader(1, 4)

    run(world, test)


def test_an_unsupported_request_is_rejected_with_a_message() -> None:
    world = ScriptedCluster()
    del world.versions[ApiKey.LIST_GROUPS]

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.UnsupportedVersion, match="ListGroups"):
            await client.ask_any(ListGroupsRequest())

    run(world, test)


def test_a_field_that_the_brokers_version_lacks_is_rejected_with_a_message() -> None:
    world = ScriptedCluster()
    world.versions[ApiKey.LIST_GROUPS] = (0, 3)

    async def test(client: ClusterClient) -> None:
        with pytest.raises(errors.UnsupportedVersion, match="ListGroups only up to version 3"):
            await client.ask_any(ListGroupsRequest(states_filter=["Stable"]))

    run(world, test)


# -- closing


def test_a_closed_client_rejects_everything() -> None:
    world = ScriptedCluster()

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        await client.close()
        with pytest.raises(errors.ClientClosed):
            await client.refresh()
        with pytest.raises(errors.ClientClosed):
            await client.topics(["orders"])
        with pytest.raises(errors.ClientClosed):
            await client.ask_any(ListGroupsRequest())
        with pytest.raises(errors.ClientClosed):
            await client.ask(1, ListGroupsRequest())
        with pytest.raises(errors.PenstockError):
            client.send(1, ListGroupsRequest())

    run(world, test)


def test_requests_in_flight_fail_when_the_client_is_closed() -> None:
    world = ScriptedCluster()
    world.answer(ListGroupsRequest, lambda request, node: NOTHING)

    async def test(client: ClusterClient) -> None:
        await client.refresh()
        asking = asyncio.create_task(client.ask(1, ListGroupsRequest()))
        waiting = asyncio.create_task(client.topics(["orders"]))
        await asyncio.sleep(1)
        await client.close()
        with pytest.raises(errors.Disconnected):
            await asking
        with pytest.raises(errors.ClientClosed):
            await waiting

    run(world, test)


def test_a_client_closed_while_it_connects_leaves_nothing() -> None:
    world = ScriptedCluster()
    world.answer(ApiVersionsRequest, lambda request, node: NOTHING)

    async def test(client: ClusterClient) -> None:
        connecting = asyncio.create_task(client.refresh())
        await asyncio.sleep(0.001)
        await client.close()
        with pytest.raises(errors.ClientClosed):
            await connecting

    run(world, test)


def test_an_unused_client_can_be_closed() -> None:
    async def test(client: ClusterClient) -> None:
        pass

    run(ScriptedCluster(), test)


def test_topic_ids_are_known() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(leader=1)}
    world.topic_ids["orders"] = Uuid(b"i" * 16)

    async def test(client: ClusterClient) -> None:
        cluster = await client.topics(["orders"])
        assert cluster.topics["orders"].id == b"i" * 16
        assert cluster.topics_by_id[Uuid(b"i" * 16)].name == "orders"

    run(world, test)
