from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from penstock.protocol.declare import NEVER, Kind, declaration_of, field, request, response, struct
from penstock.protocol.types import Int32


@struct
class Leader:
    node_id: Int32 = -1


@request(key=900, versions=(1, 4), flexible=3)
class AskRequest:
    group_id: str
    leader: Leader = field(since=2, default=Leader())
    partitions: list[Int32] = field(since=2, default=[])
    note: str | None = None


@response(to=AskRequest)
class AskResponse:
    throttle_time_ms: Int32 = 0


def test_a_message_is_a_dataclass_with_keywords_and_slots() -> None:
    message = AskRequest(group_id="g")

    assert dataclasses.is_dataclass(message)
    assert dataclasses.replace(message, note="n") == AskRequest(group_id="g", note="n")
    assert repr(message) == "AskRequest(group_id='g', leader=Leader(node_id=-1), partitions=[], note=None)"
    assert not hasattr(message, "__dict__")
    positional: Any = AskRequest
    with pytest.raises(TypeError):
        positional("g")


def test_a_message_that_no_constructor_made_can_be_copied() -> None:
    @struct
    class Decoded:
        node_id: Int32

    decoded = object.__new__(Decoded)
    decoded.node_id = 3

    assert dataclasses.replace(decoded) == Decoded(node_id=3)
    assert [each.name for each in dataclasses.fields(decoded)] == ["node_id"]


def test_a_field_without_a_default_is_required() -> None:
    incomplete: Any = AskRequest
    with pytest.raises(TypeError, match="group_id"):
        incomplete(note="n")


def test_messages_do_not_share_lists_or_structs_of_defaults() -> None:
    first, second = AskRequest(group_id="g"), AskRequest(group_id="g")

    first.partitions.append(1)
    first.leader.node_id = 7

    assert second.partitions == []
    assert second.leader.node_id == -1


def test_messages_of_different_classes_are_never_equal() -> None:
    assert Leader(node_id=1) != AskResponse(throttle_time_ms=1)
    assert Leader(node_id=1) != 1


def test_a_response_has_the_versions_of_its_request() -> None:
    asked, answered = declaration_of(AskRequest), declaration_of(AskResponse)

    assert asked.kind is Kind.REQUEST
    assert answered.kind is Kind.RESPONSE
    assert answered.key == asked.key == 900
    assert list(answered.versions) == list(asked.versions) == [1, 2, 3, 4]
    assert [answered.is_flexible(version) for version in (2, 3)] == [False, True]


def test_a_tagged_field_is_tagged_from_its_first_version_on_by_default() -> None:
    reported: Any = field(since=3, default=0, tag=0, tagged_since=5)
    untold: Any = field(since=3, default=0, tag=0)

    assert reported.tagged_since == 5
    assert untold.tagged_since == 3


@pytest.mark.parametrize("options", [{"since": 1}, {"until": 3}, {"tag": 0}])
def test_a_field_that_some_versions_lack_needs_a_default(options: Any) -> None:
    with pytest.raises(TypeError, match="needs a default"):
        field(**options)


@pytest.mark.parametrize("default", [[1], Leader(node_id=5)])
def test_a_default_that_would_be_shared_is_refused(default: object) -> None:
    with pytest.raises(TypeError, match="default of a list or struct"):
        field(default=default)


def test_versions_must_form_a_range() -> None:
    with pytest.raises(TypeError, match="do not form a range"):

        @request(key=901, versions=(2, 1), flexible=NEVER)
        class Backwards:
            pass


def test_an_undeclared_class_has_no_declaration() -> None:
    with pytest.raises(TypeError, match="not a declared message"):
        declaration_of(int)
