"""Which names a topic may have."""

from __future__ import annotations

import pytest

from penstock.metadata.errors import Refused
from penstock.metadata.names import check_topic_name, is_internal, unified_name
from penstock.protocol.errors import ErrorCode


@pytest.mark.parametrize("name", ["a", "orders", "A.b_c-9", "...", "__consumer_offsets", "x" * 249])
def test_a_valid_name_is_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a b", "orders\n", "orders\0", "ö", "x" * 250, "a:b", "\u0661"]
)
def test_a_name_that_could_leave_the_folder_or_a_metric_is_refused(name: str) -> None:
    with pytest.raises(Refused) as refused:
        check_topic_name(name)

    assert refused.value.error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.value.message.startswith("Topic name is invalid: ")


def test_names_that_look_alike_as_a_metric_share_a_unified_name() -> None:
    assert unified_name("a.b_c") == unified_name("a_b.c") == "a_b_c"
    assert unified_name("a-b") is None


def test_the_topics_of_the_coordinators_are_internal() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("__cluster_metadata")
    assert not is_internal("orders")
