"""The part that AlterConfigs and IncrementalAlterConfigs share, on brokers and on controllers.

A broker applies the log levels of its own process, checks its own settings, and forwards the rest (`alter_on_broker`).
A controller decides about the rest (`alter_on_controller`). It applies log levels too, because clients may ask it
directly (KIP-919).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.broker import log_levels
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.controller_server import ControllerServer
from penstock.config.alter import Change, Operation, alter_broker
from penstock.config.errors import BadSetting
from penstock.controller.configs import Alteration
from penstock.metadata.errors import Refused
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_configs, incremental_alter_configs

Request = alter_configs.AlterConfigsRequest | incremental_alter_configs.IncrementalAlterConfigsRequest

KEPT_BY_CONTROLLER = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
)


class _Wanted(NamedTuple):
    """The changes that a request asks for on one resource."""

    resource: ConfigResource
    changes: list[Change]
    is_replacement: bool


async def alter_on_broker(broker: Broker, request: Request, context: RequestContext) -> list[Any]:
    """One result per resource, in order."""
    results: list[Any] = [None] * len(request.resources)
    forwarded: list[int] = []
    for index, read in enumerate(_read(request)):
        try:
            if isinstance(read, Refused):
                raise read
            if read.resource.type is ResourceType.BROKER_LOGGER:
                _alter_log_levels(broker.node_id, read, request, context)
                results[index] = _result(request, index, None)
                continue
            if read.resource.type is ResourceType.BROKER:
                _check_broker_settings(broker, read)
            forwarded.append(index)
        except Refused as refused:
            results[index] = _result(request, index, refused)
    if forwarded:
        rest: Any = dataclasses.replace(request)
        rest.resources = [request.resources[index] for index in forwarded]
        response = await broker.channel.forward(rest, context)
        for index, result in zip(forwarded, response.responses, strict=True):
            results[index] = result
    return results


async def alter_on_controller(
    server: ControllerServer, request: Request, context: RequestContext
) -> list[Any]:
    """One result per resource, in order. Raises `Refused` if this is not the active controller."""
    refusals: list[Refused | None] = [None] * len(request.resources)
    alterations: dict[int, Alteration] = {}
    for index, read in enumerate(_read(request)):
        if isinstance(read, Refused):
            refusals[index] = read
        elif read.resource.type is ResourceType.BROKER_LOGGER:
            try:
                _alter_log_levels(server.node_id, read, request, context)
            except Refused as refused:
                refusals[index] = refused
        else:
            alterations[index] = Alteration(read.resource, read.changes, read.is_replacement)
    if alterations:
        decided = await server.controller.alter_configs(
            list(alterations.values()),
            validate_only=request.validate_only,
            requested_by=context.requester(),
        )
        for index, refusal in zip(alterations, decided, strict=True):
            refusals[index] = refusal
    return [_result(request, index, refused) for index, refused in enumerate(refusals)]


def refuse_all(request: Request, refused: Refused) -> list[Any]:
    return [_result(request, index, refused) for index in range(len(request.resources))]


def check_own_node(node_id: int, name: str) -> None:
    """Refuse a resource that belongs to another broker."""
    if name != str(node_id):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"unexpected broker id {name!r}: this is broker {node_id}; send the request to that broker",
        )


def _result(request: Request, index: int, refused: Refused | None) -> Any:
    resource = request.resources[index]
    make: type[Any] = (
        alter_configs.AlterConfigsResourceResponse
        if isinstance(request, alter_configs.AlterConfigsRequest)
        else incremental_alter_configs.AlterConfigsResourceResponse
    )
    return make(
        error_code=refused.error if refused else ErrorCode.NONE,
        error_message=refused.message if refused else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _read(request: Request) -> list[_Wanted | Refused]:
    """For each resource, in order: its changes, or why they are refused."""
    is_replacement = isinstance(request, alter_configs.AlterConfigsRequest)
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    found: list[_Wanted | Refused] = []
    for each in request.resources:
        try:
            name = each.resource_name
            if counts[each.resource_type, name] > 1:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"the request names the resource {name!r} twice; name it once, with all of its changes",
                )
            changes = _read_changes(
                name,
                [
                    (config.name, getattr(config, "config_operation", Operation.SET), config.value)
                    for config in each.configs
                ],
            )
            resource = ConfigResource(ResourceType.of(each.resource_type), name)
            if resource.type not in KEPT_BY_CONTROLLER and (
                resource.type is not ResourceType.BROKER_LOGGER or is_replacement
            ):
                raise Refused(ErrorCode.INVALID_REQUEST, f"unknown resource type {each.resource_type}")
            found.append(_Wanted(resource, changes, is_replacement))
        except Refused as refused:
            found.append(refused)
    return found


def _read_changes(resource: str, wanted: Sequence[tuple[str, int, str | None]]) -> list[Change]:
    names = [name for name, _, _ in wanted]
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, f"the request names a setting of {resource!r} twice")
    changes = []
    for name, number, value in wanted:
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


def _check_broker_settings(broker: Broker, wanted: _Wanted) -> None:
    """Only the broker itself knows its file, which its dynamic settings override, so the controller cannot check
    them."""
    if wanted.resource.name:
        check_own_node(broker.node_id, wanted.resource.name)
        if not wanted.is_replacement:
            try:
                alter_broker(broker.settings, wanted.changes)
            except BadSetting as bad:
                raise Refused(ErrorCode.INVALID_REQUEST, str(bad)) from bad


def _alter_log_levels(node_id: int, wanted: _Wanted, request: Request, context: RequestContext) -> None:
    check_own_node(node_id, wanted.resource.name)
    log_levels.check_changes(wanted.changes)
    if not request.validate_only:
        log_levels.apply_changes(wanted.changes, requested_by=context.requester())
