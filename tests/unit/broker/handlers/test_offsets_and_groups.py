"""Responses of offset and group handlers if the coordinator is elsewhere, loading or closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.datapath import Cluster, make_context
from harness.offsets import (
    OffsetHarness,
    commit,
    commit_request,
    delete_request,
    fetch_request,
    fetched_offsets,
    stored,
)
from harness.offsets import errors_of as commit_errors
from penstock.broker.handlers import (
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.result import CoordinatorResult
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.offset_commit import OffsetCommitResponse
from penstock.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

PARTITIONS = 50


class Coordinator:
    """One shard for all groups, which can refuse requests or delay them."""

    def __init__(self) -> None:
        self.harness = OffsetHarness()
        self.refuses: ErrorCode | None = None
        self.waiting: list[tuple[asyncio.Future[Any], Any]] | None = None
        """A list: writes are answered when the test says so."""
        self.is_loading = False
        self.has_topic = True
        self.writes = 0
        self.offsets_at_once = 1_000

    def write(self, group_id: str, decide: Callable[[Any], CoordinatorResult[Any]]) -> Any:
        self._refuse()
        outcome = decide(self._shard)
        counts = [len(each.value) if isinstance(each.value, list) else 1 for each in outcome.records]
        if sum(counts) > self.offsets_at_once:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.writes += 1
        response = self.harness.answer(outcome)
        if self.waiting is None:
            return response
        self.waiting.append((asyncio.get_running_loop().create_future(), response))
        return self.waiting[-1][0]

    def read(self, group_id: str, question: Callable[[Any], Any]) -> Any:
        self._refuse()
        return question(self._shard)

    def shards(self) -> Iterator[Any]:
        yield self._shard

    def partition_of(self, group_id: str) -> int:
        if not self.has_topic:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_of(group_id, PARTITIONS)

    def commit(self) -> None:
        for future, response in self.waiting or ():
            future.set_result(response)

    def lose(self, error: ErrorCode) -> None:
        for future, _ in self.waiting or ():
            future.set_exception(Refused(error))

    @property
    def _shard(self) -> SimpleNamespace:
        return SimpleNamespace(offsets=self.harness.offsets, administration=self.harness.administration)

    def _refuse(self) -> None:
        if self.refuses is not None:
            raise Refused(self.refuses)


@pytest.fixture
def groups() -> Coordinator:
    return Coordinator()


@pytest.fixture
def broker(groups: Coordinator) -> Any:
    cluster: Cluster = groups.harness.cluster
    return SimpleNamespace(groups=groups, metadata=cluster.metadata)


async def finished(response: Any) -> Any:
    return await response if isinstance(response, Awaitable) else response


# -- OffsetCommit


async def test_a_commit_that_is_committed_at_once_gets_its_response_at_once(broker: Any) -> None:
    response = offset_commit.handle(broker, commit_request({"orders": {0: 7}}), make_context(9))

    assert isinstance(response, OffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code is ErrorCode.NONE


async def test_a_commit_waits_for_its_records(broker: Any, groups: Coordinator) -> None:
    groups.waiting = []
    answer = offset_commit.handle(broker, commit_request({"orders": {0: 7}}), make_context(9))
    assert isinstance(answer, Awaitable)

    groups.commit()

    response = await answer
    assert response.topics[0].partitions[0].error_code is ErrorCode.NONE


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_commit_that_cannot_be_is_refused_for_each_partition_that_exists(
    broker: Any, groups: Coordinator, is_late: bool
) -> None:
    request = commit_request({"orders": {0: 7, 9: 7}, "nowhere": {0: 7}})
    if is_late:
        groups.waiting = []
        answer = offset_commit.handle(broker, request, make_context(9))
        groups.lose(ErrorCode.NOT_COORDINATOR)
    else:
        groups.refuses = ErrorCode.NOT_COORDINATOR
        answer = offset_commit.handle(broker, request, make_context(9))

    response = await finished(answer)

    assert [each.error_code for topic in response.topics for each in topic.partitions] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_commits_that_came_together_are_one_write(broker: Any, groups: Coordinator) -> None:
    requests = [commit_request({"orders": {0: 7}}), commit_request({"orders": {0: 8, 9: 8}})]

    responses = offset_commit.handle_run(broker, requests, make_context(9))

    assert isinstance(responses, list)
    assert [commit_errors(response) for response in responses] == [
        [ErrorCode.NONE],
        [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    assert groups.writes == 1
    assert stored(groups.harness) == {("orders", 0): 8}


async def test_commits_that_came_together_wait_together(broker: Any, groups: Coordinator) -> None:
    requests = [commit_request({"orders": {0: 7}}), commit_request({"orders": {1: 8}})]
    groups.waiting = []
    committed = offset_commit.handle_run(broker, requests, make_context(9))
    groups.commit()
    assert [commit_errors(response) for response in await finished(committed)] == [[ErrorCode.NONE]] * 2

    groups.waiting = []
    lost = offset_commit.handle_run(broker, requests, make_context(9))
    groups.lose(ErrorCode.NOT_COORDINATOR)
    assert [commit_errors(response) for response in await finished(lost)] == [[ErrorCode.NOT_COORDINATOR]] * 2


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_commits_that_are_too_large_together_are_written_one_by_one(
    broker: Any, groups: Coordinator, is_waiting: bool
) -> None:
    requests = [commit_request({"orders": {0: 7, 1: 7, 2: 7}}), commit_request({"orders": {1: 8}})]
    groups.offsets_at_once = 2
    groups.waiting = [] if is_waiting else None

    answers = offset_commit.handle_run(broker, requests, make_context(9))
    groups.commit()

    responses = await finished(answers)
    assert [commit_errors(response) for response in responses] == [
        [ErrorCode.UNKNOWN_SERVER_ERROR] * 3,
        [ErrorCode.NONE],
    ]
    assert stored(groups.harness) == {("orders", 1): 8}


# -- OffsetFetch


def old_fetch(require_stable: bool = False) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        group_id="readers",
        topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])],
        require_stable=require_stable,
    )


async def test_an_error_is_in_each_partition_before_version_2(broker: Any, groups: Coordinator) -> None:
    groups.refuses = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    old = await finished(offset_fetch.handle(broker, old_fetch(), make_context(1)))
    newer = await finished(offset_fetch.handle(broker, old_fetch(), make_context(2)))

    assert [each.error_code for each in old.topics[0].partitions] == [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ] * 2
    assert (newer.error_code, newer.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


async def test_consumers_get_the_error_that_makes_them_find_the_coordinator_again(
    broker: Any, groups: Coordinator
) -> None:
    """COORDINATOR_NOT_AVAILABLE is fatal to them here."""
    groups.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE

    response = await finished(offset_fetch.handle(broker, old_fetch(), make_context(7)))

    assert response.error_code is ErrorCode.NOT_COORDINATOR


async def test_stable_offsets_wait_for_pending_writes(broker: Any, groups: Coordinator) -> None:
    commit(groups.harness, {"orders": {0: 7}})
    groups.waiting = []
    request = OffsetFetchRequest(groups=[fetch_request(), fetch_request(group="none")], require_stable=True)
    answer = offset_fetch.handle(broker, request, make_context(9))
    assert isinstance(answer, Awaitable)

    groups.commit()

    response = await answer
    assert isinstance(response, OffsetFetchResponse)
    assert [list(fetched_offsets(group)) for group in response.groups] == [[("orders", 0)], []]


async def test_stable_offsets_that_will_not_be_are_refused(broker: Any, groups: Coordinator) -> None:
    groups.waiting = []
    request = OffsetFetchRequest(groups=[fetch_request()], require_stable=True)
    answer = offset_fetch.handle(broker, request, make_context(9))

    groups.lose(ErrorCode.NOT_COORDINATOR)

    response = await finished(answer)
    assert response.groups[0].error_code is ErrorCode.NOT_COORDINATOR
    assert response.groups[0].group_id == "readers"


# -- OffsetDelete


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (delete_request({"orders": [0]}), ErrorCode.GROUP_ID_NOT_FOUND),
        (delete_request({"orders": [0]}, group=""), ErrorCode.INVALID_GROUP_ID),
    ],
)
async def test_a_deletion_is_refused_as_a_whole(
    broker: Any, request_: OffsetDeleteRequest, error: ErrorCode
) -> None:
    response = await finished(offset_delete.handle(broker, request_, make_context(0)))

    assert response == OffsetDeleteResponse(error_code=error, topics=[])


# -- ListGroups, DescribeGroups, DeleteGroups


async def test_no_list_is_better_than_half_a_list(broker: Any, groups: Coordinator) -> None:
    commit(groups.harness, {"orders": {0: 7}})
    groups.is_loading = True

    response = list_groups.handle(broker, ListGroupsRequest(), make_context(5))

    assert (response.error_code, response.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


async def test_a_group_of_another_coordinator_is_not_described(broker: Any, groups: Coordinator) -> None:
    groups.refuses = ErrorCode.NOT_COORDINATOR
    request = DescribeGroupsRequest(groups=["a", "b"], include_authorized_operations=True)

    response = describe_groups.handle(broker, request, make_context(6))

    assert [(each.group_id, each.error_code, each.group_state) for each in response.groups] == [
        ("a", ErrorCode.NOT_COORDINATOR, ""),
        ("b", ErrorCode.NOT_COORDINATOR, ""),
    ]
    assert {each.authorized_operations for each in response.groups} == {-(2**31)}


def errors_of(response: DeleteGroupsResponse) -> dict[str, ErrorCode]:
    return {result.group_id: result.error_code for result in response.results}


async def test_groups_of_one_shard_are_deleted_in_one_write(broker: Any, groups: Coordinator) -> None:
    names = [f"group-{number}" for number in range(PARTITIONS * 2)]
    for name in names:
        commit(groups.harness, {"orders": {0: 7}}, group=name)

    response = await delete_groups.handle(
        broker, DeleteGroupsRequest(groups_names=names + names), make_context(2)
    )

    assert errors_of(response) == dict.fromkeys(names, ErrorCode.NONE)
    assert len(response.results) == len(names)
    assert groups.writes == len({partition_of(name, PARTITIONS) for name in names})


async def test_deletions_that_cannot_be_are_refused_for_each_group(broker: Any, groups: Coordinator) -> None:
    request = DeleteGroupsRequest(groups_names=["a", "b"])

    groups.refuses = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    loading = await delete_groups.handle(broker, request, make_context(2))
    groups.refuses, groups.has_topic = None, False
    without = await delete_groups.handle(broker, request, make_context(2))
    groups.has_topic, groups.waiting = True, []
    lost = asyncio.ensure_future(delete_groups.handle(broker, request, make_context(2)))
    await asyncio.sleep(0)
    groups.lose(ErrorCode.NOT_COORDINATOR)

    assert set(errors_of(loading).values()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert set(errors_of(without).values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert errors_of(await lost) == dict.fromkeys(["a", "b"], ErrorCode.NOT_COORDINATOR)
