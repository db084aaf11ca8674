"""What a log of claims and decisions means, entry by entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.client.producer.prepared import PreparedTransaction, RecordPlace
from penstock.spark.sink.decision import (
    Claim,
    Decision,
    Done,
    Entry,
    Ledger,
    Place,
    SinkStopped,
    Superseded,
    TaskWrote,
    check_repeated,
    decide,
    decided_before,
    given_up_by,
    key_of,
    left_behind,
    may_claim,
    of_json,
    recalled,
    sent_again,
    to_json,
)


def ledger_of(*entries: Entry) -> Ledger:
    return Ledger("q").after_all(enumerate(entries))


def wrote(partition: int, rows: int = 3, run: str = "a") -> TaskWrote:
    prepared = PreparedTransaction(f"penstock-q-{run}-{partition}", 7, 1, RecordPlace("out", 0, 5))
    return TaskWrote(partition, rows, prepared)


def done(partition: int, *, decided: Decision | None = None, task: TaskWrote | None = None) -> Done:
    return Done(
        place=Place("q", "b", 4, partition),
        position=10,
        is_first_batch=True,
        past_runs=frozenset({"a"}),
        prefixes=frozenset({"penstock"}),
        copy=0,
        last=decided,
        decided=decided,
        wrote=task,
    )


@pytest.mark.parametrize(
    "entry",
    [
        Claim("q", "b", "a"),
        Claim("q", "b", "a", "penstock"),
        Decision("q", "a", 4, (), copy=2, since=7),
        Decision("q", "a", 4, (wrote(0), TaskWrote(1, 0, None))),
    ],
)
def test_entries_are_read_as_they_were_written(entry: Entry) -> None:
    assert of_json(to_json(entry)) == entry


def test_an_entry_of_a_later_version_stops_the_sink() -> None:
    with pytest.raises(SinkStopped, match="later version"):
        of_json(b'{"kind":"oath","sink":"q","run":"a"}')


def test_of_two_claims_at_the_same_time_the_first_counts() -> None:
    assert ledger_of(Claim("q", "a", ""), Claim("q", "b", "")).holder == "a"


def test_a_claim_of_one_that_was_replaced_does_not_count() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Claim("q", "b", "a"), Claim("q", "a", ""), Claim("q", "a", "x"))

    assert ledger.holder == "b"
    with pytest.raises(Superseded, match="checkpoint"):
        may_claim(ledger, "a", "penstock")
    assert may_claim(ledger, "c", "ours") == Claim("q", "c", "b", "ours")


def test_a_run_that_tries_a_failed_batch_again_is_told_to_start_anew() -> None:
    ledger = Ledger("q", "a").after(0, Claim("q", given_up_by("a"), "a"))

    with pytest.raises(SinkStopped, match="when the query is started again"):
        may_claim(ledger, "a", "penstock")
    assert may_claim(ledger, "b", "penstock") == Claim("q", "b", given_up_by("a"), "penstock")


def test_a_decision_counts_only_from_who_holds_the_sink() -> None:
    early, late = Decision("q", "a", 4, (wrote(0),)), Decision("q", "a", 5, (wrote(1),))

    ledger = ledger_of(Claim("q", "a", ""), early, Claim("q", "b", "a"), late)

    assert ledger.decision == early


def test_a_decision_that_came_too_late_hides_none_that_counts_from_a_compacted_log() -> None:
    late = Decision("q", "a", 5, (wrote(1),))
    log: tuple[Entry, ...] = (
        Claim("q", "a", ""),
        Decision("q", "a", 4, (wrote(0),)),
        Claim("q", "b", "a"),
        late,
    )
    compacted = {key_of(entry, str(offset)): (offset, entry) for offset, entry in enumerate(log)}

    ledger = Ledger("q").after_all(sorted(compacted.values(), key=lambda each: each[0]))

    assert ledger.decision == ledger_of(*log).decision == Decision("q", "a", 4, (wrote(0),))


def test_a_decision_that_comes_a_second_time_after_the_next_does_not_count_again() -> None:
    """It did: a restart then found the next batch undecided, and wrote it a second time."""
    first, second = Decision("q", "a", 4, (wrote(0),)), Decision("q", "a", 5, (wrote(1),))

    assert ledger_of(Claim("q", "a", ""), first, second, first).decision == second
    again = sent_again(first)
    assert ledger_of(Claim("q", "a", ""), again, first).decision == again
    assert ledger_of(
        Claim("q", "a", ""), again, Claim("q", "b", "a"), replace(first, run="b")
    ).decision == replace(first, run="b")


def test_a_decision_that_was_sent_again_is_known_as_the_same() -> None:
    decision = Decision("q", "a", 4, (wrote(0),))

    assert sent_again(decision).is_copy_of(decision)
    assert decision.is_copy_of(sent_again(sent_again(decision)))
    assert not decision.is_copy_of(None)
    assert not decision.is_copy_of(replace(decision, batch=5))


def test_later_decisions_do_not_have_the_key_of_one_that_may_still_be_under_way() -> None:
    lost = Decision("q", "a", 4, (wrote(0),))
    later = decide([replace(done(0), copy=sent_again(lost).copy)], 4)

    assert key_of(replace(later, run="a", batch=6), "x") != key_of(lost, "x")


def test_the_ledger_knows_what_ids_of_all_runs_begin_with() -> None:
    ledger = ledger_of(
        Claim("q", "a", "", "old"),
        Claim("q", "b", "", "lost"),
        Claim("q", "c", "a", "new"),
        Claim("q", "d", "c"),
    )

    assert ledger.prefixes == {"old", "new"}


def test_a_run_recalls_from_the_end_of_the_log_that_it_holds_the_sink() -> None:
    last = Decision("q", "a", 4, (wrote(0),), since=100)
    tail: list[tuple[int, Entry]] = [(97, Decision("q", "a", 3, (), since=95)), (102, last)]

    found = recalled("q", "a", 96, tail)

    assert found is not None
    assert (found.holder, found.decision, found.position) == ("a", last, 103)
    assert recalled("q", "a", 101, tail) is None, "what stands between is not known"
    assert recalled("q", "b", 96, tail) is None, "another run has to know the whole"
    assert recalled("q", "a", 96, [*tail, (105, Claim("q", "b", "a"))]) is None, "it has lost the sink"
    assert recalled("q", "a", 96, [(101, Claim("q", "b", "a")), (102, last)]) is None, "it came too late"


def test_a_log_that_was_compacted_tells_the_last_holder() -> None:
    decision = Decision("q", "b", 4, (wrote(0),))

    assert ledger_of(Claim("q", "b", "a"), decision).decision == decision


def test_other_sinks_in_the_same_log_do_not_matter() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Claim("p", "b", ""), Decision("p", "a", 9, ()))

    assert (ledger.holder, ledger.decision, ledger.position) == ("a", None, 3)


def test_what_a_run_saw_at_its_claim_is_enough_to_judge_what_follows() -> None:
    ledger = Ledger.held_by("q", "a", 7)

    assert ledger.after(7, Claim("q", "b", "")).holder == "a"
    assert ledger.after(7, Claim("q", "b", "a")).holder == "b"


def test_only_the_batch_that_is_replayed_is_found_decided() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Decision("q", "a", 4, (wrote(0),)))

    assert decided_before(ledger, Place("q", "b", 5, 0)) is None
    assert decided_before(ledger, Place("q", "b", 4, 0)) == ledger.decision
    with pytest.raises(SinkStopped, match=r"batch 3 .* batch 4 was written already"):
        decided_before(ledger, Place("q", "b", 3, 0))


def test_two_sinks_of_one_name_are_found_out_rather_than_taken_for_a_replay() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Decision("q", "a", 4, (wrote(0),)))

    with pytest.raises(SinkStopped, match="a name of its own"):
        decided_before(ledger, Place("q", "a", 4, 0))


def test_rows_that_differ_are_not_written_in_place_of_those_that_were_aborted() -> None:
    check_repeated("q", wrote(0, rows=3), 3)
    with pytest.raises(SinkStopped, match=r"3 rows .* now there are 4 rows"):
        check_repeated("q", wrote(0, rows=3), 4)


def test_a_replay_decides_what_was_decided_with_what_was_written_again() -> None:
    before = Decision("q", "a", 4, (wrote(0), wrote(1)))
    again = wrote(1, run="b")

    decision = decide([done(0, decided=before), done(1, decided=before, task=again)], 4)

    assert decision == Decision("q", "b", 4, (wrote(0), again), since=10)


def test_tasks_that_saw_different_things_decide_nothing() -> None:
    before = Decision("q", "a", 4, (wrote(0),))

    with pytest.raises(Superseded, match="run twice"):
        decide([done(0, decided=before), done(1, task=wrote(1, run="b"))], 4)


def test_attempts_do_not_share_a_transactional_id() -> None:
    ids = [Place("q", "run-1", 4, 2, attempt).transactional_id("penstock") for attempt in range(3)]

    assert ids == ["penstock-q-run-1-2", "penstock-q-run-1-2.1", "penstock-q-run-1-2.2"]


def test_left_behind_is_what_own_and_earlier_runs_have_open() -> None:
    open_ids = [
        "penstock-q-b-0",
        "penstock-q-b-1.0.1",
        "penstock-q-a-5",
        "ours-q-a-5",
        "theirs-q-a-5",
        "penstock-q-c-0",
        "penstock-qq-a-0",
        "penstock-q-x-a-0",
        "x",
    ]

    found = left_behind(open_ids, prefixes={"penstock", "ours"}, sink="q", runs={"a", "b"})

    assert found == ["ours-q-a-5", "penstock-q-a-5", "penstock-q-b-0", "penstock-q-b-1.0.1"]
