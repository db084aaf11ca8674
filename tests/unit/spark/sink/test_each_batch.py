"""What `to_topics` asks Spark to write for each batch; without a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from penstock.spark import finish_write
from penstock.spark.errors import BadOption
from penstock.spark.sink.decision import SinkStopped
from penstock.spark.sink.each_batch import OPTION, StreamBatch, to_topics
from penstock.spark.sink.retiring import Caretaker

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "topic": "counts"}
RUN = "53ea38de-6dd8-412c-aa97-d7bf179ba6b1"


@pytest.fixture(autouse=True)
def caretaker(monkeypatch: pytest.MonkeyPatch) -> Caretaker:
    caretaker = Caretaker()
    monkeypatch.setattr("penstock.spark.sink.retiring.CARETAKER", caretaker)
    return caretaker


class Batch:
    """Of a DataFrame, what is asked of it: a writer that notes what it is told, and the properties of its thread."""

    def __init__(self, query: str | None = "query", group: str | None = RUN) -> None:
        self.options_told: dict[str, str] = {}
        self.error: Exception | None = None
        properties = {"sql.streaming.queryId": query, "spark.jobGroup.id": group}
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
        if self.error is not None:
            raise self.error


def told(**given: str) -> dict[str, str]:
    batch: Any = Batch()
    to_topics(GIVEN | given)(batch, 7)
    options: dict[str, str] = batch.options_told
    return options


def test_a_batch_is_written_under_the_number_of_its_batch() -> None:
    assert StreamBatch.unpack(told()[OPTION]) == StreamBatch("query", RUN, 7)


def test_the_driver_knows_of_the_run_that_writes_exactly_once(caretaker: Caretaker) -> None:
    told(guarantee="at-least-once")
    assert caretaker.runs == set()

    told()

    assert caretaker.runs == {RUN}


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


@pytest.mark.parametrize(("query", "group"), [("query", "nightly"), ("query", None), (None, RUN)])
def test_a_job_group_of_the_users_own_is_not_taken_for_the_run(query: str | None, group: str | None) -> None:
    """It was, and a batch that was replayed after a restart was refused for ever, as written twice in one run."""
    batch: Any = Batch(query, group)

    with pytest.raises(BadOption, match="under the job group that Spark gave it"):
        to_topics(GIVEN)(batch, 7)
    with pytest.raises(BadOption, match="the run of the query"):
        to_topics(GIVEN, name="counts")(batch, 7)


def test_a_function_that_passes_over_a_failed_batch_gets_no_further() -> None:
    """What was decided of that batch was aborted with the next one that failed."""
    failing: Any = Batch("swallowing")
    failing.error = ConnectionError("no answer")
    with pytest.raises(ConnectionError):
        to_topics(GIVEN)(failing, 7)

    later: Any = Batch("swallowing")
    with pytest.raises(SinkStopped, match="passed over it: let the error out"):
        to_topics(GIVEN)(later, 8)

    other_run: Any = Batch("swallowing", "7a1e3c0a-0000-4000-8000-000000000000")
    to_topics(GIVEN)(other_run, 8)


@pytest.mark.parametrize("options", ["abc", ["abc"], None])
def test_options_are_a_dict(options: Any) -> None:
    with pytest.raises(BadOption, match="options is a dict of names and values"):
        to_topics(options)
    with pytest.raises(BadOption, match="options is a dict of names and values"):
        finish_write(options, "daily")
