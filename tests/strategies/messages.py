"""Hypothesis strategies for any declared message in any version."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from penstock.protocol.errors import ErrorCode
from penstock.protocol.plan import Array, Blob, Fixed, Nested, Plan, Shape, Text
from penstock.protocol.types import WireType

NUMBERS: dict[WireType, st.SearchStrategy[Any]] = {
    WireType.BOOL: st.booleans(),
    WireType.INT8: st.integers(-(2**7), 2**7 - 1),
    WireType.INT16: st.integers(-(2**15), 2**15 - 1),
    WireType.INT32: st.integers(-(2**31), 2**31 - 1),
    WireType.INT64: st.integers(-(2**63), 2**63 - 1),
    WireType.UINT16: st.integers(0, 2**16 - 1),
    WireType.UINT32: st.integers(0, 2**32 - 1),
    WireType.FLOAT64: st.floats(allow_nan=False),
    WireType.UUID: st.binary(min_size=16, max_size=16),
    WireType.ERROR_CODE: st.sampled_from(ErrorCode),
}
# Mostly short, sometimes beyond the 127 bytes up to which a compact length takes one byte.
LONGER_BYTES = st.sampled_from([126, 127, 128, 300])
TEXTS = st.text(max_size=8) | LONGER_BYTES.map(lambda size: "x" * size)
BLOBS = st.binary(max_size=8) | LONGER_BYTES.map(bytes)


def messages_of(plan: Plan) -> st.SearchStrategy[Any]:
    """Messages that the plan's version can encode: fields that it lacks have their default."""
    fields = {step.name: values_of(step.shape) for step in plan.steps}
    for step in plan.tagged:
        fields[step.name] = st.builds(step.options.make_default) | values_of(step.shape)
    return st.builds(plan.cls, **fields)


def values_of(shape: Shape) -> st.SearchStrategy[Any]:
    match shape:
        case Fixed(type_):
            return NUMBERS[type_]
        case Text(_, nullable):
            strategy: st.SearchStrategy[Any] = TEXTS
        case Blob(_, nullable, _):
            strategy = BLOBS
        case Array(_, nullable, element):
            strategy = st.lists(values_of(element), max_size=2)
        case Nested(plan, nullable):
            strategy = messages_of(plan)
    return st.none() | strategy if nullable else strategy
