"""TopologyTest: sending, reading, and helpful errors."""

from __future__ import annotations

import pytest

from penstock.client.errors import DeserializationFailed, IllegalState, SerializationFailed
from penstock.streams import App, Builder, Record, TopologyError
from penstock.testing import TopologyTest


def word_count() -> Builder:
    app = App("word-count", brokers="localhost:9092")
    words = app.stream("lines", value=str).flat_map(str.split)
    words.group_by_value().count(name="counts").to("word-counts")
    return app


def test_word_count_needs_no_broker() -> None:
    with TopologyTest(word_count()) as test:
        test.input("lines").send("hello world", timestamp_ms=5)
        test.input("lines").send("hello moon")

        assert test.output("word-counts").to_dict() == {"hello": 2, "world": 1, "moon": 1}
        assert test.table("counts").get("hello") == 2
        assert test.table("counts").get("mars") is None
        assert test.output("word-counts").read_one() == Record("hello", 1, 5)
        assert test.output("word-counts").read_key_values() == [("world", 1), ("hello", 2), ("moon", 1)]
        assert test.output("word-counts").read() == []
        assert test.output("word-counts").is_empty()
        with pytest.raises(LookupError, match="no unread records in word-counts"):
            test.output("word-counts").read_one()


def test_unknown_topics_and_tables_are_rejected_with_the_known_ones() -> None:
    test = TopologyTest(word_count())

    with pytest.raises(TopologyError, match="does not read word-counts; it reads lines"):
        test.input("word-counts")
    with pytest.raises(TopologyError, match="does not write lines; it writes word-counts"):
        test.output("lines")
    with pytest.raises(TopologyError, match="no table is called words; tables: counts"):
        test.table("words")
    with pytest.raises(TopologyError, match="no store is called words; stores: none"):
        test.store("words")


def test_a_value_of_the_wrong_type_is_rejected() -> None:
    test = TopologyTest(word_count())

    with pytest.raises(SerializationFailed, match="lines"):
        test.input("lines").send(5)
    with pytest.raises(DeserializationFailed, match="lines"):
        test.input("lines", key=bytes, value=bytes).send(b"\xff")


def test_an_error_in_a_function_names_the_node_and_record() -> None:
    app = Builder()
    app.stream("in", value=int).map_values(lambda number: 1 // number, value=int, name="invert").to("out")
    test = TopologyTest(app)
    test.input("in").send(1)

    with pytest.raises(ZeroDivisionError) as failure:
        test.input("in").send(0, key=b"k")

    assert failure.value.__notes__ == [
        "of a record with the key b'k'",
        "in the node invert",
        "while processing in-0 at offset 1",
    ]


def test_topics_chosen_by_a_function_can_be_read() -> None:
    app = Builder()
    app.stream("in", value=str).to(lambda value: f"to-{value}")
    test = TopologyTest(app)
    test.input("in").send_all(["a", "b"])

    assert test.output("to-a").read_values() == ["a"]
    assert test.output("to-c").read_values() == []


def test_values_without_a_type_are_the_programs_own_objects() -> None:
    app = Builder()
    app.stream("in", value=str).map(lambda value: {"value": value}).to("out")
    test = TopologyTest(app)
    test.input("in").send("a")

    assert test.output("out").read_values() == [{"value": "a"}]
    test.input("in").send("b")
    assert test.output("out", key=bytes, value=str).read_values() == ['{"value":"b"}']


def test_records_get_the_wall_clock_as_timestamp() -> None:
    app = Builder()
    app.stream("in", value=str).to("out")
    test = TopologyTest(app, start_ms=1000)
    test.input("in").send("a")
    test.advance(2.5)
    test.input("in").send("b")

    assert [record.timestamp_ms for record in test.output("out").read()] == [1000, 3500]


def test_sending_after_close_fails() -> None:
    with TopologyTest(word_count()) as test:
        pass

    with pytest.raises(IllegalState, match="closed"):
        test.input("lines").send("a")


def test_tables_drop_deleted_keys_from_the_topic() -> None:
    app = Builder()
    app.table("in", key=str, value=str).to("out")
    test = TopologyTest(app)
    test.input("in").send_pairs([("a", "1"), ("b", "2"), ("a", None)])

    assert test.output("out").to_dict() == {"b": "2"}
    assert test.output("out").read_key_values() == [("a", "1"), ("b", "2"), ("a", None)]


@pytest.mark.parametrize("kind", ["stream", "table"])
def test_a_record_without_a_timestamp_is_rejected_and_not_dropped(kind: str) -> None:
    app = Builder()
    if kind == "stream":
        app.stream("in", key=str, value=str).to("out")
    else:
        app.table("in", key=str, value=str).to("out")
    test = TopologyTest(app)

    with pytest.raises(ValueError, match=r"timestamp -1 ms.*timestamp=") as failure:
        test.input("in").send("x", key="k", timestamp_ms=-1)

    assert "while processing in-0 at offset 0" in failure.value.__notes__


def test_a_record_without_a_timestamp_from_the_programs_extractor_is_skipped() -> None:
    app = Builder()
    app.stream("in", value=str, timestamp=int).to("out")
    test = TopologyTest(app)
    for value in ("5", "-1", "7"):
        test.input("in").send(value, timestamp_ms=-1)

    assert [record.timestamp_ms for record in test.output("out").read()] == [5, 7]


def test_a_topology_that_feeds_itself_may_terminate() -> None:
    app = Builder()
    app.stream("numbers", value=int).map_values(lambda n: n - 1).filter(bool).to("numbers")
    test = TopologyTest(app)
    test.input("numbers").send(1000)

    assert len(test.output("numbers").read()) == 999


def test_an_endless_topology_is_reported() -> None:
    app = Builder()
    app.stream("a", value=str).to("b")
    app.stream("b", value=str).to("a")
    app.stream("c", value=str).to("d")
    test = TopologyTest(app)

    with pytest.raises(IllegalState, match=r"reads its own output.*more than 100,000 .*(a, b|b, a)\b"):
        test.input("a").send("x")

    test.input("c").send("x")
    assert test.output("d").read_values() == ["x"]
