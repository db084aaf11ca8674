from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    encode_request_header,
    encode_response_header,
    read_request_header,
    read_response_header,
    skip_tagged_fields,
)


@pytest.mark.parametrize("client_id", [None, "", "client-ä"])
@pytest.mark.parametrize(
    ("key", "version", "header_version"),
    [
        (ApiKey.PRODUCE, 8, 1),
        (ApiKey.PRODUCE, 9, 2),
        (ApiKey.API_VERSIONS, 99, 2),
        (ApiKey.SASL_HANDSHAKE, 1, 1),
    ],
)
def test_the_fast_path_and_the_codec_agree_on_requests(
    key: ApiKey, version: int, header_version: int, client_id: str | None
) -> None:
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=77, client_id=client_id
    )
    data = codec(RequestHeader, header_version).encode(header)

    assert api(key).request_header_version(version) == header_version
    assert encode_request_header(key, version, 77, client_id) == data
    expected_id = client_id if header_version else None
    read = read_request_header(memoryview(b"xy" + data + b"body"), 2)
    assert read == (key, version, 77, expected_id, 2 + len(data))


@pytest.mark.parametrize(
    ("key", "version", "header_version"),
    [
        (ApiKey.PRODUCE, 8, 0),
        (ApiKey.PRODUCE, 9, 1),
        (ApiKey.API_VERSIONS, 0, 0),
        (ApiKey.API_VERSIONS, 4, 0),
        (ApiKey.OFFSET_DELETE, 0, 0),
    ],
)
def test_the_fast_path_and_the_codec_agree_on_responses(
    key: ApiKey, version: int, header_version: int
) -> None:
    data = codec(ResponseHeader, header_version).encode(ResponseHeader(correlation_id=-5))

    assert api(key).response_header_version(version) == header_version
    assert encode_response_header(key, version, -5) == data
    assert read_response_header(memoryview(data + b"body"), key, version) == (-5, len(data))


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    data = memoryview(bytes.fromhex("0000 0009 00000001 ffff 01 05 02 abcd") + b"body")

    assert read_request_header(data) == (0, 9, 1, None, 15)
    assert skip_tagged_fields(data, 10) == 15
    assert skip_tagged_fields(memoryview(b"\x00"), 0) == 1


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("0000", "inside its header"),
        ("0000 0009 00000001 0005 61", "past the end of the request"),
        ("0000 0009 00000001 0001 ff 00", "not UTF-8"),
        ("0000 0009 00000001 ffff", "cut off"),
        ("0000 0009 00000001 ffff 01 05 02 ab", "does not fit"),
        ("7fff 0000 00000001 ffff", "no API has key 32767"),
        ("ffff 0000 00000001 ffff", "no API has key -1"),
    ],
)
def test_a_broken_request_header_is_malformed(data: str, complaint: str) -> None:
    with pytest.raises(MalformedMessage, match=complaint):
        read_request_header(memoryview(bytes.fromhex(data)))


def test_a_broken_response_header_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        read_response_header(memoryview(b"\x00\x00"), ApiKey.PRODUCE, 8)
    with pytest.raises(MalformedMessage):
        read_response_header(memoryview(b"\x00\x00\x00\x01"), ApiKey.PRODUCE, 9)


@given(st.binary(max_size=40))
def test_random_bytes_are_a_header_or_malformed(data: bytes) -> None:
    try:
        *_, position = read_request_header(memoryview(data))
    except MalformedMessage:
        return
    assert 8 <= position <= len(data)
