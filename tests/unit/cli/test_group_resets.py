"""Plans to reset offsets: partitions that get another offset than requested are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from penstock.cli.group_resets import Deviation, Plan, Target, plan_reset
from penstock.client.admin.group_offsets import GroupOffset
from penstock.client.admin.lag import LagAdmin
from penstock.client.admin.offsets import ListedOffset
from penstock.client.cluster import TopicPartition
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

FULL = TopicPartition("orders", 0)
EMPTY = TopicPartition("orders", 1)


class Admin:
    """Partition 0 has the records 10 to 99, all of them old; partition 1 has none."""

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, object]
    ) -> dict[TopicPartition, ListedOffset]:
        bounds = {FULL: (10, 100), EMPTY: (0, 0)}

        def offset_of(partition: TopicPartition, when: object) -> int:
            return {EARLIEST_TIMESTAMP: bounds[partition][0], LATEST_TIMESTAMP: bounds[partition][1]}.get(
                cast(int, when), -1
            )

        return {each: ListedOffset(offset=offset_of(each, when)) for each, when in wanted.items()}

    async def list_group_offsets(
        self, group_id: str, wanted: list[TopicPartition]
    ) -> dict[TopicPartition, GroupOffset]:
        return {each: GroupOffset(offset=50) for each in wanted}


def planned(partition: TopicPartition, target: Target) -> tuple[Plan, list[Deviation]]:
    result: list[Deviation] = []
    plan = asyncio.run(plan_reset(cast(LagAdmin, Admin()), "g", [partition], target, report=result.append))
    return plan, result


def test_a_partition_whose_records_are_all_older_is_not_called_empty() -> None:
    plan, (result,) = planned(FULL, Target(to_time_ms=1_000))

    assert plan == {FULL: 100}
    assert str(result) == "orders-0 has no record at or after that time; its new offset is its end, 100"


def test_an_empty_partition_is_called_empty() -> None:
    _, (result,) = planned(EMPTY, Target(to_time_ms=1_000))

    assert str(result) == "orders-1 is empty; its new offset is its end, 0"


@pytest.mark.parametrize(
    ("target", "offset", "message"),
    [
        (Target(to_offset=9999), 100, "orders-0 ends at offset 100; its new offset is that, not 9999"),
        (Target(shift_by=-1000), 10, "orders-0 begins at offset 10; its new offset is that, not -950"),
    ],
)
def test_an_offset_outside_of_the_log_is_not_clipped_silently(
    target: Target, offset: int, message: str
) -> None:
    plan, result = planned(FULL, target)

    assert plan == {FULL: offset}
    assert list(map(str, result)) == [message]


@pytest.mark.parametrize("target", [Target(to_offset=99), Target(shift_by=1), Target(to_current=True)])
def test_an_offset_within_the_log_is_not_reported(target: Target) -> None:
    _, result = planned(FULL, target)

    assert not result
