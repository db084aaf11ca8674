"""The meaning of a log of claims and decisions, entry by entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.client.prepared_transaction import PreparedTransaction, RecordPlace
from penstock.spark.sink.decision import (
    Claim,
    Decision,
    Entry,
    Ledger,
    SinkStopped,
    Superseded,
    TaskAttempt,
    TaskOutput,
    TaskResult,
    check_repeated,
    claim_for,
    decide,
    decided_before,
    given_up_by,
    key_of,
    leftover_ids,
    next_copy,
    of_json,
    recalled,
    to_json,
)


def ledger_of(*entries: Entry) -> Ledger:
    return Ledger("q").after_all(enumerate(entries))


def wrote(partition: int, rows: int = 3, run: str = "a") -> TaskOutput:
    prepared = PreparedTransaction(f"penstock-q-{run}-{partition}", 7, 1, RecordPlace("out", 0, 5))
    return TaskOutput(partition, rows, prepared)


def done(partition: int, *, decided: Decision | None = None, task: TaskOutput | None = None) -> TaskResult:
    return TaskResult(
        task_attempt=TaskAttempt("q", "b", 4, partition),
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
        Decision("q", "a", 4, (wrote(0), TaskOutput(1, 0, None))),
    ],
)
def test_entries_are_read_as_they_were_written(entry: Entry) -> None:
    assert of_json(to_json(entry)) == entry


def test_an_entry_of_a_later_version_stops_the_sink() -> None:
    with pytest.raises(SinkStopped, match="newer version"):
        of_json(b'{"kind":"oath","sink":"q","run":"a"}')


def test_the_first_of_two_concurrent_claims_counts() -> None:
    assert ledger_of(Claim("q", "a", ""), Claim("q", "b", "")).holder == "a"


def test_a_claim_of_a_replaced_run_does_not_count() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Claim("q", "b", "a"), Claim("q", "a", ""), Claim("q", "a", "x"))

    assert ledger.holder == "b"
    with pytest.raises(Superseded, match="checkpoint"):
        claim_for(ledger, "a", "penstock")
    assert claim_for(ledger, "c", "ours") == Claim("q", "c", "b", "ours")


def test_a_run_that_retries_a_failed_batch_is_stopped() -> None:
    ledger = Ledger("q", "a").after(0, Claim("q", given_up_by("a"), "a"))

    with pytest.raises(SinkStopped, match="Start the query again"):
        claim_for(ledger, "a", "penstock")
    assert claim_for(ledger, "b", "penstock") == Claim("q", "b", given_up_by("a"), "penstock")


def test_only_a_decision_of_the_holder_counts() -> None:
    early, late = Decision("q", "a", 4, (wrote(0),)), Decision("q", "a", 5, (wrote(1),))

    ledger = ledger_of(Claim("q", "a", ""), early, Claim("q", "b", "a"), late)

    assert ledger.decision == early


def test_a_late_decision_does_not_hide_a_valid_one_in_a_compacted_log() -> None:
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


def test_a_duplicate_decision_after_the_next_one_does_not_count() -> None:
    """It did: a restart then found the next batch undecided, and wrote it twice."""
    first, second = Decision("q", "a", 4, (wrote(0),)), Decision("q", "a", 5, (wrote(1),))

    assert ledger_of(Claim("q", "a", ""), first, second, first).decision == second
    again = next_copy(first)
    assert ledger_of(Claim("q", "a", ""), again, first).decision == again
    assert ledger_of(
        Claim("q", "a", ""), again, Claim("q", "b", "a"), replace(first, run="b")
    ).decision == replace(first, run="b")


def test_a_resent_decision_is_recognized() -> None:
    decision = Decision("q", "a", 4, (wrote(0),))

    assert next_copy(decision).is_copy_of(decision)
    assert decision.is_copy_of(next_copy(next_copy(decision)))
    assert not decision.is_copy_of(None)
    assert not decision.is_copy_of(replace(decision, batch=5))


def test_later_decisions_do_not_share_the_key_of_one_in_flight() -> None:
    lost = Decision("q", "a", 4, (wrote(0),))
    later = decide([replace(done(0), copy=next_copy(lost).copy)], 4)

    assert key_of(replace(later, run="a", batch=6), "x") != key_of(lost, "x")


def test_the_ledger_knows_the_id_prefixes_of_all_runs() -> None:
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


def test_a_compacted_log_names_the_last_holder() -> None:
    decision = Decision("q", "b", 4, (wrote(0),))

    assert ledger_of(Claim("q", "b", "a"), decision).decision == decision


def test_other_sinks_in_the_same_log_do_not_matter() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Claim("p", "b", ""), Decision("p", "a", 9, ()))

    assert (ledger.holder, ledger.decision, ledger.position) == ("a", None, 3)


def test_the_state_at_its_claim_is_enough_for_a_run_to_judge_later_entries() -> None:
    ledger = Ledger.held_by("q", "a", 7)

    assert ledger.after(7, Claim("q", "b", "")).holder == "a"
    assert ledger.after(7, Claim("q", "b", "a")).holder == "b"


def test_only_the_replayed_batch_is_already_decided() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Decision("q", "a", 4, (wrote(0),)))

    assert decided_before(ledger, TaskAttempt("q", "b", 5, 0)) is None
    assert decided_before(ledger, TaskAttempt("q", "b", 4, 0)) == ledger.decision
    with pytest.raises(SinkStopped, match=r"batch 3, but batch 4 was already written"):
        decided_before(ledger, TaskAttempt("q", "b", 3, 0))


def test_two_sinks_of_one_name_are_rejected_and_not_taken_for_a_replay() -> None:
    ledger = ledger_of(Claim("q", "a", ""), Decision("q", "a", 4, (wrote(0),)))

    with pytest.raises(SinkStopped, match="its own name"):
        decided_before(ledger, TaskAttempt("q", "a", 4, 0))


def test_different_rows_do_not_replace_aborted_ones() -> None:
    check_repeated("q", wrote(0, rows=3), 3)
    with pytest.raises(SinkStopped, match=r"3 rows .* the rerun has 4 rows"):
        check_repeated("q", wrote(0, rows=3), 4)


def test_a_replay_keeps_the_decision_and_adds_what_was_rewritten() -> None:
    before = Decision("q", "a", 4, (wrote(0), wrote(1)))
    again = wrote(1, run="b")

    decision = decide([done(0, decided=before), done(1, decided=before, task=again)], 4)

    assert decision == Decision("q", "b", 4, (wrote(0), again), since=10)


def test_tasks_with_different_views_decide_nothing() -> None:
    before = Decision("q", "a", 4, (wrote(0),))

    with pytest.raises(Superseded, match="runs twice"):
        decide([done(0, decided=before), done(1, task=wrote(1, run="b"))], 4)


def test_attempts_do_not_share_a_transactional_id() -> None:
    ids = [TaskAttempt("q", "run-1", 4, 2, attempt).transactional_id("penstock") for attempt in range(3)]

    assert ids == ["penstock-q-run-1-2", "penstock-q-run-1-2.1", "penstock-q-run-1-2.2"]


def test_leftovers_are_open_transactions_of_own_and_earlier_runs() -> None:
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

    found = leftover_ids(open_ids, prefixes={"penstock", "ours"}, sink="q", runs={"a", "b"})

    assert found == ["ours-q-a-5", "penstock-q-a-5", "penstock-q-b-0", "penstock-q-b-1.0.1"]
