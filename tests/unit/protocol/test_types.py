from __future__ import annotations

import random

import pytest

from penstock.protocol.types import METADATA_TOPIC_ID, ZERO_UUID, Uuid, parse_uuid, random_uuid, uuid_text


def test_the_text_of_an_id_is_kafkas() -> None:
    # From org.apache.kafka.common.Uuid, whose constructor takes the two halves as numbers.
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(Uuid(bytes.fromhex("fbfffefdfcfbfaf9f8f7f6f5f4f3f2f1"))) == "-__-_fz7-vn49_b19PPy8Q"


def test_the_text_of_an_id_is_parsed() -> None:
    rng = random.Random(1)
    for _ in range(100):
        uuid = random_uuid(rng)
        assert parse_uuid(uuid_text(uuid)) == uuid


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAA", "../AAAAAAAAAAAAAAAAAAA", "ä" * 22])
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        parse_uuid(text)


def test_a_random_id_is_version_4_and_never_looks_like_an_option() -> None:
    rng = random.Random(2)
    ids = [random_uuid(rng) for _ in range(500)]

    assert len(set(ids)) == 500
    assert all(uuid[6] >> 4 == 4 and uuid[8] >> 6 == 0b10 for uuid in ids)
    assert not any(uuid_text(uuid).startswith("-") for uuid in ids)
