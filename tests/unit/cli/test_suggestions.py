"""Advice of commands for errors."""

from __future__ import annotations

import pytest

from penstock.cli.failures import describe
from penstock.cli.suggestions import add_topic_suggestions, sentence
from penstock.client import errors
from penstock.client.admin.configs import ConfigResource, ResourceType
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed, PenstockError, UnknownTopicOrPartition

NAMES = ["orders", "payments"]


def reported(problem: PenstockError) -> str:
    add_topic_suggestions(problem, lambda: NAMES)
    message = describe(problem)
    assert message is not None
    return message


@pytest.mark.parametrize(
    "about", ["oders", TopicPartition("oders", 0), ConfigResource(ResourceType.TOPIC, "oders")], ids=str
)
def test_an_unknown_topic_suggests_a_close_name_and_not_to_create_it(about: object) -> None:
    message = reported(UnknownTopicOrPartition(about=about))

    assert "did you mean orders?" in message
    assert "create" not in message


def test_without_a_close_name_the_list_command_is_suggested() -> None:
    message = reported(UnknownTopicOrPartition(about="xyz"))

    assert "did you mean" not in message
    assert "`penstock topics list` lists all topics" in message


def test_a_missing_partition_of_an_existing_topic_suggests_describe() -> None:
    assert "`penstock topics describe orders`" in reported(
        UnknownTopicOrPartition(about=TopicPartition("orders", 9))
    )


def test_each_of_several_unknown_topics_has_its_own_suggestion() -> None:
    failures = {name: UnknownTopicOrPartition(about=name) for name in ("oders", "payment")}

    message = reported(ItemsFailed.of("delete topics", failures, {}))

    assert (
        message.index("did you mean orders?")
        < message.index("payment:")
        < message.index("did you mean payments?")
    )


def test_names_that_cannot_be_listed_do_not_hide_the_error() -> None:
    def fail() -> list[str]:
        raise errors.NoBrokersAvailable

    problem = UnknownTopicOrPartition(about="oders")
    add_topic_suggestions(problem, fail)

    assert sentence(problem).startswith("oders: ")


@pytest.mark.parametrize(
    ("api", "subject"),
    [
        ("DescribeAcls", "does not support ACLs"),
        ("DescribeUserScramCredentials", "does not support users with SCRAM passwords"),
        ("DescribeClientQuotas", "does not support client quotas"),
    ],
)
def test_an_unsupported_api_is_named_with_its_feature(api: str, subject: str) -> None:
    message = describe(errors.UnsupportedVersion(f"localhost:9092 does not serve {api}"))

    assert message is not None
    assert f"does not serve {api}" in message
    assert subject in message
    assert "too old" not in message


def test_a_version_that_does_not_fit_keeps_its_own_advice() -> None:
    message = describe(
        errors.UnsupportedVersion("localhost:9092 serves no version of Fetch that this client knows")
    )

    assert message is not None
    assert "too old" in message
