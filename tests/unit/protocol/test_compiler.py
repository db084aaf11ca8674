"""The compiled codecs agree with the interpreter, for every message and version, and on random bytes."""

from __future__ import annotations

import linecache
import traceback
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.catalogue import (
    declared_group_records,
    declared_messages,
    declared_records,
    declared_transaction_records,
)
from penstock.protocol import interpreter
from penstock.protocol.codec import Codec, codec
from penstock.protocol.compiler import decoder_source, encoder_source
from penstock.protocol.declare import Kind, declaration_of
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import ProduceRequest
from penstock.protocol.plan import Plan, plan_message
from penstock.protocol.primitives import join_parts
from strategies.messages import messages_of

MESSAGES = (
    declared_messages() | declared_records() | declared_group_records() | declared_transaction_records()
)
REQUESTS = {name: cls for name, cls in MESSAGES.items() if declaration_of(cls).kind is Kind.REQUEST}

HEAD = b"head"

few = settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", MESSAGES)
def test_compiled_and_interpreted_agree(name: str) -> None:
    for version in declaration_of(MESSAGES[name]).versions:
        assert_agreement(plan_message(MESSAGES[name], version), codec(MESSAGES[name], version))


def assert_agreement(plan: Plan, compiled: Codec[Any]) -> None:
    @few
    @given(messages_of(plan))
    def agree(message: Any) -> None:
        parts = interpreter.encode_parts(plan, message, HEAD)
        data = join_parts(parts)
        assert compiled.encode_parts(message, HEAD) == parts
        assert interpreter.decode(plan, data, len(HEAD)) == (message, len(data))
        assert compiled.decode(data, len(HEAD)) == (message, len(data))
        assert compiled.decode_bounded(data, len(HEAD), 1000) == (message, len(data))

    agree()


@pytest.mark.parametrize("name", REQUESTS)
def test_random_bytes_are_a_message_or_malformed(name: str) -> None:
    @many
    @given(st.sampled_from(declaration_of(REQUESTS[name]).versions), st.binary(max_size=64))
    def survive(version: int, data: bytes) -> None:
        assert_same_outcome(REQUESTS[name], version, data)

    survive()


@pytest.mark.parametrize("name", MESSAGES)
def test_a_damaged_message_is_another_message_or_malformed(name: str) -> None:
    """Cut it at every position, then change single bytes to huge or negative lengths."""
    cls = MESSAGES[name]

    @few
    @given(st.data())
    def survive(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(declaration_of(cls).versions))
        whole = codec(cls, version).encode(data.draw(messages_of(plan_message(cls, version))))
        for size in range(0, len(whole), max(1, len(whole) // 50)):
            with pytest.raises(MalformedMessage):
                codec(cls, version).decode(whole[:size])
        for _ in range(10 if whole else 0):
            damaged = bytearray(whole)
            damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(
                st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
            )
            assert_same_outcome(cls, version, bytes(damaged))

    survive()


def assert_same_outcome(cls: type[Any], version: int, data: bytes) -> None:
    """Both decoders return the same message, or both call it malformed."""
    try:
        expected = interpreter.decode(plan_message(cls, version), data)
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            codec(cls, version).decode(data)
        return
    decoded = codec(cls, version).decode(data)
    # By repr, because a float from random bytes may be NaN, which is not equal to itself.
    assert repr(decoded) == repr(expected) or decoded == expected


def test_neighbouring_fields_are_read_together() -> None:
    text = decoder_source(plan_message(ProduceRequest, 9)).text

    assert "produce_request.acks, produce_request.timeout_ms, count = unpack_hiB(data, position)" in text


def test_a_traceback_shows_the_compiled_lines() -> None:
    try:
        codec(HeartbeatRequest, 4).decode(b"\x09")
    except MalformedMessage as exc:
        shown = "".join(traceback.format_exception(exc))

    assert 'File "<penstock: decode HeartbeatRequest version 4>"' in shown
    assert "raise misfit('group_id', position)" in shown


def test_the_compiled_source_stays_available_to_debuggers() -> None:
    codec(HeartbeatRequest, 3).encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))

    shown = "".join(linecache.getlines("<penstock: encode HeartbeatRequest version 3>"))
    assert shown == encoder_source(plan_message(HeartbeatRequest, 3)).text


def test_a_large_message_may_have_at_most_room_elements() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=str(n)) for n in range(10)])
    for version in (1, 9):  # with counts of both kinds
        large = codec(MetadataRequest, version)
        data = large.encode(request)

        assert large.decode_bounded(data, 0, 10) == (request, len(data))
        with pytest.raises(MalformedMessage, match="more elements"):
            large.decode_bounded(data, 0, 9)


def test_elements_of_all_levels_and_tagged_fields_count_together() -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="a", partition_indexes=[1, 2, 3])] * 2)
    data = codec(DescribeProducersRequest, 0).encode(request)
    with_tags = data[:-1] + b"\x02\x05\x00\x06\x00"
    large = codec(DescribeProducersRequest, 0)

    assert large.decode_bounded(data, 0, 2 + 6) == (request, len(data))
    assert large.decode_bounded(with_tags, 0, 2 + 6 + 2) == (request, len(with_tags))
    for message, room in ((data, 7), (with_tags, 9)):
        with pytest.raises(MalformedMessage, match="more elements"):
            large.decode_bounded(message, 0, room)


@pytest.mark.parametrize("count", [b"\x80\x01", b"\xff\xff\xff\xff\x0f"])
def test_too_many_tagged_fields_are_malformed(count: bytes) -> None:
    data = codec(HeartbeatRequest, 4).encode(HeartbeatRequest(group_id="", generation_id=0, member_id=""))
    many = data[:-1] + count + b"\x00\x00" * 200

    assert_same_outcome(HeartbeatRequest, 4, many)
    with pytest.raises(MalformedMessage, match="too many"):
        codec(HeartbeatRequest, 4).decode(many)
