"""What `to_topics` asks Spark to write for each batch; without a session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from penstock.spark import finish_write
from penstock.spark.errors import BadOption
from penstock.spark.sink.cleanup import TransactionCleanup
from penstock.spark.sink.decision import SinkStopped
from penstock.spark.sink.foreach_batch import OPTION, StreamBatch, to_topics

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "topic": "counts"}
RUN = "53ea38de-6dd8-412c-aa97-d7bf179ba6b1"


@pytest.fixture(autouse=True)
def cleaner(monkeypatch: pytest.MonkeyPatch) -> TransactionCleanup:
    cleaner = TransactionCleanup()
    monkeypatch.setattr("penstock.spark.sink.cleanup.CLEANUP", cleaner)
    return cleaner


class Batch:
    """As much of a DataFrame as needed: a writer that records its options, and the properties of its thread."""

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


def reported(**given: str) -> dict[str, str]:
    batch: Any = Batch()
    to_topics(GIVEN | given)(batch, 7)
    options: dict[str, str] = batch.options_told
    return options


def test_a_batch_is_written_under_its_batch_id() -> None:
    assert StreamBatch.unpack(reported()[OPTION]) == StreamBatch("query", RUN, 7)


def test_the_cleanup_knows_the_exactly_once_run(cleaner: TransactionCleanup) -> None:
    reported(guarantee="at-least-once")
    assert cleaner.runs == set()

    reported()

    assert cleaner.runs == {RUN}


@pytest.mark.parametrize("spelt", [{"guarantee": "at-least-once"}, {"Guarantee": "At-Least-Once"}])
def test_a_given_guarantee_is_kept(spelt: dict[str, str]) -> None:
    options = reported(**spelt)

    assert OPTION not in options
    assert {name: value for name, value in options.items() if name.lower() == "guarantee"} == {
        "guarantee": "at-least-once"
    }


def test_the_guarantee_is_case_insensitive() -> None:
    assert OPTION in reported(guarantee="Exactly-Once")


def test_a_bad_option_is_rejected_before_the_query_starts() -> None:
    with pytest.raises(BadOption, match="unknown option topics; did you mean topic"):
        to_topics({**GIVEN, "topics": "counts"})


@pytest.mark.parametrize(("query", "group"), [("query", "nightly"), ("query", None), (None, RUN)])
def test_a_users_job_group_is_not_taken_for_the_run(query: str | None, group: str | None) -> None:
    """It was, and a batch that was replayed after a restart was always rejected, as written twice in one run."""
    batch: Any = Batch(query, group)

    with pytest.raises(BadOption, match="with the job group that Spark has set"):
        to_topics(GIVEN)(batch, 7)
    with pytest.raises(BadOption, match="the run of the query"):
        to_topics(GIVEN, name="counts")(batch, 7)


def test_a_function_that_ignores_a_failed_batch_cannot_continue() -> None:
    """The decision for that batch was aborted with the next batch that failed."""
    failing: Any = Batch("swallowing")
    failing.error = ConnectionError("no answer")
    with pytest.raises(ConnectionError):
        to_topics(GIVEN)(failing, 7)

    later: Any = Batch("swallowing")
    with pytest.raises(SinkStopped, match="ignored the error: let it raise"):
        to_topics(GIVEN)(later, 8)

    other_run: Any = Batch("swallowing", "7a1e3c0a-0000-4000-8000-000000000000")
    to_topics(GIVEN)(other_run, 8)


@pytest.mark.parametrize("options", ["abc", ["abc"], None])
def test_options_must_be_a_dict(options: Any) -> None:
    with pytest.raises(BadOption, match="options must be a dict of names and values"):
        to_topics(options)
    with pytest.raises(BadOption, match="options must be a dict of names and values"):
        finish_write(options, "daily")
