"""What a command advises, where it knows better than the error."""

from __future__ import annotations

import pytest

from penstock.cli.failures import describe
from penstock.cli.suggestions import add_topic_suggestions, sentence
from penstock.client import errors
from penstock.client.admin.configs import ConfigResource, ResourceType
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed, PenstockError, UnknownTopicOrPartition

NAMES = ["orders", "payments"]


def told(problem: PenstockError) -> str:
    add_topic_suggestions(problem, lambda: NAMES)
    words = describe(problem)
    assert words is not None
    return words


@pytest.mark.parametrize(
    "about", ["oders", TopicPartition("oders", 0), ConfigResource(ResourceType.TOPIC, "oders")], ids=str
)
def test_an_unknown_topic_suggests_a_close_name_and_not_to_create_it(about: object) -> None:
    words = told(UnknownTopicOrPartition(about=about))

    assert "did you mean orders?" in words
    assert "create" not in words


def test_a_topic_without_a_close_name_says_where_to_look() -> None:
    words = told(UnknownTopicOrPartition(about="xyz"))

    assert "did you mean" not in words
    assert "`penstock topics list` lists all topics" in words


def test_a_partition_of_a_topic_that_exists_is_told_apart() -> None:
    assert "`penstock topics describe orders`" in told(
        UnknownTopicOrPartition(about=TopicPartition("orders", 9))
    )


def test_each_of_several_unknown_topics_has_its_own_suggestion() -> None:
    failures = {name: UnknownTopicOrPartition(about=name) for name in ("oders", "payment")}

    words = told(ItemsFailed.of("delete topics", failures, {}))

    assert (
        words.index("did you mean orders?") < words.index("payment:") < words.index("did you mean payments?")
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
        ("DescribeAcls", "has no ACLs"),
        ("DescribeUserScramCredentials", "has no users with SCRAM passwords"),
        ("DescribeClientQuotas", "has no client quotas"),
    ],
)
def test_an_api_that_a_broker_lacks_is_named_with_what_it_is_for(api: str, subject: str) -> None:
    words = describe(errors.UnsupportedVersion(f"localhost:9092 does not serve {api}"))

    assert words is not None
    assert f"does not serve {api}" in words
    assert subject in words
    assert "too old" not in words


def test_a_version_that_does_not_fit_keeps_its_own_advice() -> None:
    words = describe(errors.UnsupportedVersion("localhost:9092 serves no version of Fetch that we know"))

    assert words is not None
    assert "too old" in words
