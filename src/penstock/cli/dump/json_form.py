"""Messages as JSON, as Kafka's own tools print them.

Names are in camel case, in the order of the declaration; bytes are base64; ids have Kafka's notation. A tagged field is
omitted if it has its default. Fields that the version does not have are omitted.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from penstock.protocol.declare import declaration_of
from penstock.protocol.plan import Array, Blob, Fixed, Nested, Plan, Shape, plan_message
from penstock.protocol.types import WireType, uuid_text

PlainValue = dict[str, "PlainValue"] | list["PlainValue"] | str | int | float | bool | None
PlainMessage = dict[str, PlainValue]


def to_plain(message: Any, version: int) -> PlainMessage:
    """A message of this version as dicts, lists and plain values."""
    return _struct(message, plan_message(type(message), version))


def compact_json(value: object) -> str:
    """JSON without blanks and without escaped characters, as Kafka's tools write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _struct(message: Any, plan: Plan) -> PlainMessage:
    steps = {step.name: step for step in plan.steps}
    tagged = {step.name: step for step in plan.tagged}
    plain: PlainMessage = {}
    for name in declaration_of(plan.cls).fields:
        value = getattr(message, name)
        if name in steps:
            plain[camel_case(name)] = _value(value, steps[name].shape)
        elif name in tagged and value != tagged[name].options.make_default():
            plain[camel_case(name)] = _value(value, tagged[name].shape)
    return plain


def _value(value: Any, shape: Shape) -> PlainValue:
    if value is None:
        return None
    if isinstance(shape, Array):
        return [_value(part, shape.element) for part in value]
    if isinstance(shape, Nested):
        return _struct(value, shape.plan)
    if isinstance(shape, Blob):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(shape, Fixed) and shape.type is WireType.UUID:
        return uuid_text(value)
    if isinstance(value, (bool, str, float)):
        return value
    return int(value)
