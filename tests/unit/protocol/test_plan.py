from __future__ import annotations

import pytest

from penstock.protocol.declare import NEVER, field, message, struct
from penstock.protocol.plan import Array, Blob, Fixed, Nested, Text, plan_message
from penstock.protocol.types import Int8, Int32, Int64, Records, Uuid, WireType


@struct
class Part:
    number: Int32
    text: str = field(since=2, default="")


@message(versions=(0, 3), flexible=2)
class Sample:
    old: Int32 = field(until=1, default=0)
    text: str | None = field(default=None, nullable_since=1)
    stiff: str = field(default="", flexible_since=NEVER)
    parts: list[Part] | None
    records: Records | None
    blob: bytes
    late: Int64 = field(since=1, default=5, tag=1, tagged_since=3)
    early: Uuid = field(since=2, default=Uuid(bytes(16)), tag=0)


def shapes(version: int) -> dict[str, object]:
    return {step.name: step.shape for step in plan_message(Sample, version).steps}


def test_a_version_has_the_fields_of_its_range() -> None:
    assert list(shapes(0)) == ["old", "text", "stiff", "parts", "records", "blob"]
    assert list(shapes(1)) == ["old", "text", "stiff", "parts", "records", "blob", "late"]
    assert list(shapes(2)) == ["text", "stiff", "parts", "records", "blob", "late"]
    assert list(plan_message(Sample, 0).absent) == ["late", "early"]


def test_tagged_fields_stand_apart_in_the_order_of_their_tags() -> None:
    plan = plan_message(Sample, 3)

    assert [step.name for step in plan.tagged] == ["early", "late"]
    assert "late" not in [step.name for step in plan.steps]


def test_null_is_allowed_from_the_declared_version_on() -> None:
    assert shapes(0)["text"] == Text(compact=False, nullable=False)
    assert shapes(1)["text"] == Text(compact=False, nullable=True)


def test_lengths_are_compact_in_flexible_versions_unless_a_field_opts_out() -> None:
    assert shapes(1)["blob"] == Blob(compact=False, nullable=False, is_records=False)
    assert shapes(2)["blob"] == Blob(compact=True, nullable=False, is_records=False)
    assert shapes(2)["records"] == Blob(compact=True, nullable=True, is_records=True)
    assert shapes(2)["stiff"] == Text(compact=False, nullable=False)


def test_structs_follow_the_version_of_their_message() -> None:
    old, new = shapes(1)["parts"], shapes(2)["parts"]

    assert isinstance(old, Array)
    assert isinstance(new, Array)
    assert isinstance(old.element, Nested)
    assert isinstance(new.element, Nested)
    assert [step.name for step in old.element.plan.steps] == ["number"]
    assert [step.name for step in new.element.plan.steps] == ["number", "text"]
    assert not old.element.plan.is_flexible
    assert new.element.plan.is_flexible


def test_the_minimum_size_is_computed() -> None:
    # old 4, text 2, stiff 2, parts 4, records 4, blob 4
    assert plan_message(Sample, 0).minimum_bytes == 20
    # text 1, stiff 2, parts 1, records 1, blob 1, tags 1
    assert plan_message(Sample, 3).minimum_bytes == 7
    assert Fixed(WireType.UUID).minimum_bytes == 16
    assert Fixed(WireType.ERROR_CODE).minimum_bytes == 2


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="has versions 0 to 3, not 4"):
        plan_message(Sample, 4)
    with pytest.raises(TypeError, match="is a struct"):
        plan_message(Part, 0)


@message(versions=(0, 0))
class BareInt:
    number: int


@message(versions=(0, 0))
class NullNumber:
    number: Int8 | None


@message(versions=(0, 0))
class EitherWay:
    either: str | bytes


@message(versions=(0, 1), flexible=1)
class TaggedTooEarly:
    number: Int8 = field(default=0, tag=0)


@pytest.mark.parametrize(
    ("cls", "complaint"),
    [
        (BareInt, "BareInt.number: .* has no wire type"),
        (NullNumber, "NullNumber.number: .* cannot be null"),
        (EitherWay, "EitherWay.either: .* has no wire type"),
        (TaggedTooEarly, "version 0 has tagged fields but is not flexible"),
    ],
)
def test_a_declaration_without_a_wire_type_is_refused(cls: type, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        plan_message(cls, 0)
