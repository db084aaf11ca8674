from __future__ import annotations

from penstock.protocol.errors import ErrorCode


def test_codes_are_those_of_kafka_without_a_gap() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_every_code_has_its_own_message() -> None:
    messages = [code.message for code in ErrorCode]

    assert all(messages)
    assert len(set(messages)) == len(messages)


def test_transient_errors_are_retriable_and_permanent_ones_are_not() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.is_retriable
    assert ErrorCode.SHARE_SESSION_LIMIT_REACHED.is_retriable
    assert not ErrorCode.NONE.is_retriable
    assert not ErrorCode.TOPIC_AUTHORIZATION_FAILED.is_retriable
    assert sum(code.is_retriable for code in ErrorCode) == 32, "as many as Kafka 4.3 counts"


def test_an_unknown_code_is_an_unknown_server_error() -> None:
    assert ErrorCode.of(1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
