"""Random messages that a version can carry, made from one seed.

About every third value is an edge case: null, empty, the default (which a tagged field leaves out), the smallest or
the largest number. The same seed makes the same message, so a failing test need only name its seed.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.plan import Array, Blob, Fixed, Nested, Plan, Shape, Text, plan_message
from penstock.protocol.types import ZERO_UUID, WireType

TEXTS = ("", "a", "topic-1", "group.of.members", "Grüße, 世界", "\N{GRINNING FACE}", "x" * 200)
"""Longer than 127 bytes takes a compact length of two bytes."""

LENGTHS = (0, 1, 1, 2, 2, 3)


def sample(
    cls: type[Any], version: int, seed: object, *, least: int = -(2**63), greatest: int = 2**63 - 1
) -> Any:
    """A message that `version` can carry without loss, with no number below `least` or above `greatest`."""
    sampler = _Sampler(random.Random(f"{cls.__name__} {version} {seed}"), least, greatest)
    return sampler.struct(plan_message(cls, version))


@dataclass(frozen=True, slots=True)
class _Sampler:
    rng: random.Random
    least: int
    greatest: int

    def struct(self, plan: Plan) -> Any:
        values = {step.name: self.value(step.shape) for step in plan.steps}
        values |= {step.name: self.value(step.shape) for step in plan.tagged if self.rng.random() < 0.7}
        return plan.cls(**values)

    def value(self, shape: Shape) -> Any:
        rng = self.rng
        if not isinstance(shape, Fixed) and shape.nullable and rng.random() < 0.2:
            return None
        match shape:
            case Fixed():
                return self.fixed(shape)
            case Text():
                return rng.choice(TEXTS)
            case Blob():
                return rng.randbytes(rng.choice((0, 1, 3, 200)))
            case Array():
                return [self.value(shape.element) for _ in range(rng.choice(LENGTHS))]
            case Nested():
                return self.struct(shape.plan)

    def fixed(self, shape: Fixed) -> Any:
        rng = self.rng
        match shape.type:
            case WireType.BOOL:
                return rng.random() < 0.5
            case WireType.UUID:
                return rng.choice((ZERO_UUID, rng.randbytes(16)))
            case WireType.FLOAT64:
                return rng.choice((0.0, 1.5, -1e300, rng.random()))
            case WireType.ERROR_CODE:
                return rng.choice(list(ErrorCode))
        values = 1 << 8 * struct.calcsize(">" + shape.code)
        lowest, highest = (0, values - 1) if shape.code.isupper() else (-values // 2, values // 2 - 1)
        lowest, highest = max(lowest, self.least), min(highest, self.greatest)
        return rng.choice((lowest, highest, 0, 1, rng.randint(lowest, highest), rng.randint(0, 127)))
