"""What `to_topics` asks Spark to write for each batch; without a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from penstock.spark.errors import BadOption
from penstock.spark.sink.each_batch import OPTION, StreamBatch, to_topics

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "topic": "counts"}


class Batch:
    """Of a DataFrame, what is asked of it: a writer that notes what it is told, and the properties of its thread."""

    def __init__(self) -> None:
        self.options_told: dict[str, str] = {}
        properties = {"sql.streaming.queryId": "query", "spark.jobGroup.id": "run"}
        self.sparkSession = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=properties.get))

    @property
    def write(self) -> Self:
        return self

    def format(self, name: str) -> Self:
        return self

    def mode(self, name: str) -> Self:
        return self

    def option(self, name: str, value: str) -> Self:
        self.options_told[name] = value
        return self

    def options(self, **given: str) -> Self:
        self.options_told |= given
        return self

    def save(self) -> None:
        pass


def told(**given: str) -> dict[str, str]:
    batch: Any = Batch()
    to_topics(GIVEN | given)(batch, 7)
    options: dict[str, str] = batch.options_told
    return options


def test_a_batch_is_written_under_the_number_of_its_batch() -> None:
    assert StreamBatch.unpack(told()[OPTION]) == StreamBatch("query", "run", 7)


@pytest.mark.parametrize("spelt", [{"guarantee": "at-least-once"}, {"Guarantee": "At-Least-Once"}])
def test_a_guarantee_that_is_said_is_kept(spelt: dict[str, str]) -> None:
    options = told(**spelt)

    assert OPTION not in options
    assert {name: value for name, value in options.items() if name.lower() == "guarantee"} == {
        "guarantee": "at-least-once"
    }


def test_exactly_once_in_other_letters_is_exactly_once() -> None:
    assert OPTION in told(guarantee="Exactly-Once")


def test_a_wrong_option_is_refused_before_the_query_starts() -> None:
    with pytest.raises(BadOption, match="there is no option topics; is topic meant"):
        to_topics({**GIVEN, "topics": "counts"})
