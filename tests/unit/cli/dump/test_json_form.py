"""Messages in the JSON of Kafka's own tools."""

from __future__ import annotations

from penstock.cli.dump.json_form import camel_case, compact_json, to_plain
from penstock.protocol.declare import field, message, struct
from penstock.protocol.types import ZERO_UUID, Int32, Uuid


@struct
class Part:
    part_name: str


@message(versions=(0, 1), flexible=1)
class Sample:
    topic_id: Uuid
    data: bytes | None
    parts: list[Part]
    later: Int32 = field(since=1, default=5)
    remark: str = field(since=1, default="", tag=0)
    nested: Part | None = field(since=1, default=None, tag=1)


def sample(**more: object) -> Sample:
    return Sample(topic_id=ZERO_UUID, data=b"\xff", parts=[Part(part_name="p")], **more)  # type: ignore[arg-type]


def test_names_are_in_camel_case() -> None:
    assert [camel_case(name) for name in ("name", "topic_id", "k_raft_version")] == [
        "name",
        "topicId",
        "kRaftVersion",
    ]


def test_fields_that_the_version_lacks_are_left_out() -> None:
    assert compact_json(to_plain(sample(), 0)) == (
        '{"topicId":"AAAAAAAAAAAAAAAAAAAAAA","data":"/w==","parts":[{"partName":"p"}]}'
    )


def test_tagged_fields_are_there_where_they_are_not_the_default() -> None:
    assert "remark" not in to_plain(sample(), 1)
    shown = to_plain(sample(remark="r", nested=Part(part_name="n")), 1)
    assert (shown["later"], shown["remark"], shown["nested"]) == (5, "r", {"partName": "n"})
