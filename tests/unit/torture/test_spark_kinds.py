"""What the torture test of Spark queries notices: every fault that a kill could leave, made by hand."""

from __future__ import annotations

from random import Random

import pytest

from torture.spark_kinds import KINDS, PARTITION_COUNT, Counting, Joining, Once, Row, Sent, Updating

Topics = dict[str, list[Row]]


def rows(*texts: str) -> list[Row]:
    return [Row(None, text.encode()) for text in texts]


def counts(*updates: tuple[str, int]) -> list[Row]:
    return [Row(word.encode(), count.to_bytes(8, "big")) for word, count in updates]


class TestOnce:
    @pytest.mark.parametrize("name", ["stateless", "stateful"])
    def test_each_number_once_passes(self, name: str) -> None:
        kind = KINDS[name]
        assert isinstance(kind, Once)
        found = {f"{name}-in": rows("1", "2", "2"), f"{name}-out": rows("2", "1")}

        assert not kind.missing(found)
        assert not kind.wrong(found)

    def test_a_lost_duplicate_or_unknown_number_is_noticed(self) -> None:
        found = {"stateless-in": rows("1", "2"), "stateless-out": rows("2", "2", "3")}

        assert KINDS["stateless"].missing(found) == ["1 is missing"]
        assert KINDS["stateless"].wrong(found) == ["2 is there 2 times", "3 was never sent"]


class TestUpdating:
    def found(self, *updates: str) -> Topics:
        reported = [Row(update.partition(":")[0].encode(), update.encode()) for update in updates]
        return {"updating-in": rows("1", "1", "2"), "updating-out": reported}

    def test_counts_that_rise_to_the_number_sent_pass(self) -> None:
        for updates in (["1:1", "1:2", "2:1"], ["2:1", "1:2"]):
            assert not Updating().missing(self.found(*updates))
            assert not Updating().wrong(self.found(*updates))

    def test_the_last_count_of_each_number_must_be_there(self) -> None:
        assert Updating().missing(self.found("1:1")) == ["1:2 is missing", "2:1 is missing"]

    def test_a_repeated_falling_or_too_high_count_is_noticed(self) -> None:
        assert Updating().wrong(self.found("1:1", "1:1")) == ["1: 1 follows 1"]
        assert Updating().wrong(self.found("1:2", "1:1")) == ["1: 1 follows 2"]
        assert Updating().wrong(self.found("2:2")) == ["2 was sent 1 times and counted 2"]


class TestCounting:
    def found(self, output: list[Row], changelog: list[Row] | None = None) -> Topics:
        return {
            "counting-in": rows("a b", "a"),
            "counting-out": output,
            "counting-counts-changelog": output if changelog is None else changelog,
        }

    def test_counts_that_rise_to_the_number_sent_pass(self) -> None:
        found = self.found(counts(("a", 1), ("b", 1), ("a", 2)))

        assert not Counting().missing(found)
        assert not Counting().wrong(found)

    def test_a_count_that_was_not_reached_is_missing_in_output_and_changelog(self) -> None:
        found = self.found(counts(("a", 2), ("b", 1)), counts(("a", 1)))

        assert Counting().missing(found) == [
            "counting-counts-changelog: a was sent 2 times and counted 1",
            "counting-counts-changelog: b was sent 1 times and counted 0",
        ]

    def test_a_duplicate_update_is_noticed_even_if_the_last_one_is_right(self) -> None:
        found = self.found(counts(("a", 1), ("a", 1), ("a", 2), ("b", 1)))

        assert Counting().wrong(found) == ["a: 1 follows 1"]

    def test_a_count_above_the_number_sent_is_noticed(self) -> None:
        assert Counting().wrong(self.found(counts(("b", 2)))) == ["b was sent 1 times and counted 2"]

    def test_a_changelog_that_differs_from_the_output_is_noticed(self) -> None:
        found = self.found(counts(("a", 1), ("a", 2)), counts(("a", 2)))

        assert Counting().wrong(found) == ["a: the changelog differs from the output"]


class TestJoining:
    STEPS = 40

    def sent(self) -> Topics:
        """Everything that is sent, including the last records."""
        kind, rng = Joining(), Random(0)
        sent = [record for number in range(self.STEPS) for record in kind.feed(number, rng)]
        sent += [record for records in kind.last_records(self.STEPS) for record in records]
        return {topic: [_row(record) for record in sent if record.topic == topic] for topic in kind.inputs}

    def found(self, joined: dict[int, str], totals: list[Row] | None = None) -> Topics:
        made = [Row(str(number).encode(), text.encode()) for number, text in joined.items()]
        reported = self.totals(joined) if totals is None else totals
        output = {"joining-out": made, "joining-totals": reported, "joining-totals-changelog": reported}
        return self.sent() | output

    def totals(self, numbers: dict[int, str] | list[int]) -> list[Row]:
        sums: dict[int, tuple[int, int]] = {}
        reported = []
        for number in numbers:
            name = number % Joining.TOTALS
            count, total = sums.get(name, (0, 0))
            sums[name] = count + 1, total + number
            reported.append(Row(str(name).encode(), f"{count + 1}:{total + number}".encode()))
        return reported

    def right(self) -> dict[int, str]:
        lefts, rights = ({int(row.name) for row in rows} for rows in self.sent().values())
        return {number: f"{number}+{number if number in rights else None}" for number in lefts}

    def test_pairs_and_unmatched_records_pass(self) -> None:
        found = self.found(self.right())

        assert not Joining().missing(found)
        assert not Joining().wrong(found)
        assert any(text.endswith("None") for text in self.right().values())
        assert sum(not text.endswith("None") for text in self.right().values()) > PARTITION_COUNT

    def test_a_lost_record_is_missing_in_all_topics(self) -> None:
        joined = self.right()
        lost = next(iter(joined))
        del joined[lost]

        assert Joining().missing(self.found(joined)) == [
            f"{topic}: {lost} is missing" for topic in Joining.outputs
        ]

    def test_a_record_both_matched_and_unmatched_is_noticed(self) -> None:
        found = self.found(self.right())
        met = next(number for number, text in self.right().items() if not text.endswith("None"))
        found["joining-out"].append(Row(str(met).encode(), f"{met}+None".encode()))

        assert Joining().wrong(found) == [f"{met} came out as {met}+None"]

    def test_a_duplicate_step_of_a_total_is_noticed(self) -> None:
        numbers = list(self.right())
        found = self.found(self.right(), self.totals([*numbers, numbers[0]]))

        assert (
            f"joining-totals: total {numbers[0] % Joining.TOTALS} has {numbers[0]} 2 times"
            in Joining().wrong(found)
        )

    def test_a_total_that_restarts_is_noticed(self) -> None:
        numbers = list(self.right())
        found = self.found(self.right(), self.totals(numbers) + self.totals(numbers[:1]))

        assert any("one step should be one more" in fault for fault in Joining().wrong(found))


def _row(record: Sent) -> Row:
    assert record.key is not None
    assert record.timestamp_ms is not None
    return Row(record.key.encode(), record.value.encode(), record.timestamp_ms)
