"""Builds a response that reports one error for everything in a request, for any API. Fault injection uses it.

Nothing here is specific to an API. The response's plan shows where error codes are; the lists that contain them
repeat those of the request: three partitions in the request, the same three in the response. All other fields are
empty, null or -1, as in a real broker's error response.
"""

from __future__ import annotations

from typing import Any

from penstock.protocol.apis import ApiKey
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.plan import Array, Blob, Fixed, Nested, Plan, Shape, Step, Text, plan_message
from penstock.protocol.types import ZERO_UUID, WireType

# Names that requests and responses use for the same thing.
SYNONYMS = (
    ("name", "topic", "topic_name"),
    ("index", "partition", "partition_index", "partition_id"),
    ("key", "coordinator_key"),
    ("group_id", "group"),
)
ERROR_FIELDS = ("error_code", "partition_error_code")


def make_error_response(request: Any, response_class: type[Any], version: int, code: ErrorCode) -> Any:
    """The response with `code` for everything that the request names. ValueError if the response has no error
    field."""
    plan = plan_message(response_class, version)
    if not _has_errors(plan):
        raise ValueError(f"{response_class.__name__} version {version} has no error code")
    response = _build(plan, request, code)
    if declaration_of(response_class).key == ApiKey.FETCH:
        response.error_code = ErrorCode.NONE  # this one would be about the fetch session
    return response


def set_topic_errors(response: Any, code: ErrorCode) -> None:
    """Set `code` for every topic of a Metadata response; the client still needs the brokers in it."""
    for topic in response.topics:
        topic.error_code = code
        topic.partitions = []


def _build(plan: Plan, source: Any, code: ErrorCode) -> Any:
    values = {step.name: _value(step, source, code) for step in (*plan.steps, *plan.tagged)}
    values |= {name: options.make_default() for name, options in plan.absent.items()}
    return plan.cls(**values)


def _value(step: Step, source: Any, code: ErrorCode) -> Any:
    if step.name in ERROR_FIELDS:
        return code
    match step.shape:
        case Array(_, _, Nested(plan, _)) if _has_errors(plan):
            return [_build(plan, each, code) for each in _list_of(source, step.name)]
        case Nested(plan, False):
            return _build(plan, source, code) if _has_errors(plan) else plan.cls()
        case shape:
            found = _find(source, step.name, shape)
            if found is not None:
                return found
            return step.options.make_default() if step.options.has_default else _empty(shape)


def _has_errors(plan: Plan) -> bool:
    for step in (*plan.steps, *plan.tagged):
        if step.name in ERROR_FIELDS:
            return True
        match step.shape:
            case Array(_, _, Nested(inner, _)) | Nested(inner, _) if _has_errors(inner):
                return True
    return False


def _list_of(source: Any, name: str) -> list[Any]:
    """The list of the request that the response repeats: the one with the same name, else the first that is not
    empty."""
    named = getattr(source, name, None)
    if isinstance(named, list):
        return named
    fields = getattr(type(source), "__declaration__", None)
    lists = [getattr(source, each) for each in fields.fields] if fields else []
    lists = [each for each in lists if isinstance(each, list)]
    return next((each for each in lists if each), [])


def _find(source: Any, name: str, shape: Shape) -> Any:
    """The request's field of this name or a synonym. A plain number or string stands for itself."""
    if not isinstance(shape, Fixed | Text):
        return None
    wanted = (str,) if isinstance(shape, Text) else (int, bytes)
    if isinstance(source, (int, str, bytes)):
        return source if isinstance(source, wanted) and _is_identity(name, shape, source) else None
    names = next((group for group in SYNONYMS if name in group), (name,))
    for each in (name, *names):
        found = getattr(source, each, None)
        if isinstance(found, wanted):
            return found
    return None


def _is_identity(name: str, shape: Shape, source: object) -> bool:
    """Whether the field can name an element of a list of plain values, such as a topic name or a partition index."""
    is_named = any(name in group for group in SYNONYMS) or name.endswith(("_id", "_name"))
    is_uuid = shape == Fixed(WireType.UUID)
    return is_named and is_uuid == isinstance(source, bytes)


def _empty(shape: Shape) -> Any:
    match shape:
        case Array(_, nullable, _):
            return None if nullable else []
        case Text(_, nullable):
            return None if nullable else ""
        case Blob(_, nullable, _):
            return None if nullable else b""
        case Nested(_, _):
            return None
        case Fixed(WireType.BOOL):
            return False
        case Fixed(WireType.UUID):
            return ZERO_UUID
        case Fixed(WireType.ERROR_CODE):
            return ErrorCode.NONE
        case Fixed(WireType.UINT16 | WireType.UINT32 | WireType.FLOAT64):
            return 0
        case Fixed(_):
            return -1
