"""What AlterConfigs and IncrementalAlterConfigs share: checks of the request, and who takes care of which
resource.

Levels of loggers are set here, because they belong to this process; everything else is the controller's to
decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from penstock.broker import log_levels
from penstock.broker.broker import Broker
from penstock.config.alter import Change, Operation
from penstock.controller.configs import Alteration
from penstock.metadata.errors import Refused
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode

KEPT_BY_CONTROLLER = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
)


class Wanted(NamedTuple):
    """One resource of a request, as it came."""

    type: int
    name: str
    changes: Sequence[tuple[str, int, str | None]]
    """Name, operation and value of each setting."""
    is_replacement: bool


async def alter(
    broker: Broker, wanted: Sequence[Wanted], *, validate_only: bool, requested_by: str
) -> list[Refused | None]:
    """For each resource, in order, why it was refused, or None where it was altered."""
    counts = Counter((each.type, each.name) for each in wanted)
    refusals: list[Refused | None] = [None] * len(wanted)
    for_controller: dict[int, Alteration] = {}
    for index, each in enumerate(wanted):
        try:
            if counts[each.type, each.name] > 1:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    "the request names a resource twice; put all of its changes together",
                )
            changes = _read_changes(each)
            resource = ConfigResource(ResourceType.of(each.type), each.name)
            if resource.type in KEPT_BY_CONTROLLER:
                for_controller[index] = Alteration(resource, changes, each.is_replacement)
            elif resource.type is ResourceType.BROKER_LOGGER and not each.is_replacement:
                _alter_log_levels(
                    broker, each.name, changes, validate_only=validate_only, requested_by=requested_by
                )
            else:
                raise Refused(ErrorCode.INVALID_REQUEST, f"unknown resource type {each.type}")
        except Refused as refused:
            refusals[index] = refused
    if for_controller:
        decided = await _ask_controller(
            broker, list(for_controller.values()), validate_only=validate_only, requested_by=requested_by
        )
        for index, refusal in zip(for_controller, decided, strict=True):
            refusals[index] = refusal
    return refusals


async def _ask_controller(
    broker: Broker, alterations: list[Alteration], *, validate_only: bool, requested_by: str
) -> list[Refused | None]:
    try:
        return await broker.controller.alter_configs(
            alterations, validate_only=validate_only, requested_by=requested_by
        )
    except Refused as refused:
        return [refused] * len(alterations)


def _read_changes(wanted: Wanted) -> list[Change]:
    names = [name for name, _, _ in wanted.changes]
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "the request names a setting twice")
    changes = []
    for name, number, value in wanted.changes:
        try:
            operation = Operation(number)
        except ValueError as exc:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"unknown operation {number} on the setting {name}"
            ) from exc
        if value is None and operation is not Operation.DELETE:
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"the setting {name} has a null value; use DELETE to remove it"
            )
        changes.append(Change(name, operation, None if operation is Operation.DELETE else value))
    return changes


def _alter_log_levels(
    broker: Broker, name: str, changes: list[Change], *, validate_only: bool, requested_by: str
) -> None:
    check_own_node(broker, name)
    log_levels.check_changes(changes)
    if not validate_only:
        log_levels.apply_changes(changes, requested_by=requested_by)


def check_own_node(broker: Broker, name: str) -> None:
    """Refuse a resource that only another node can speak of."""
    if name != str(broker.node_id):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"unexpected broker id {name!r}: this broker is {broker.node_id}",
        )
