"""The useful line of Spark's long error texts."""

from __future__ import annotations

import pytest

from penstock.spark.pipelines.causes import cause_of, is_lost_process

IN_A_FUNCTION = """\
[STREAM_FAILED] Query [id = 36214983, runId = ff05e5fd] terminated with exception: [PYTHON_EXCEPTION] An exception was \
thrown from the Python worker: Traceback (most recent call last):
  File "/orders.py", line 10, in price
    return 1 / int(value)
           ~~^~~~~~~~~~~~
ZeroDivisionError: division by zero
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: bad [id = 36214983, runId = ff05e5fd]
Current Committed Offsets: {org.apache.PythonMicroBatchStream@33: {"in": {"0": 40, "1": 7}, "@ids": {"in": "p-aC"}}}
Current Available Offsets: {org.apache.PythonMicroBatchStream@33: {"in": {"0": 100, "1": 7}, "@ids": {"in": "p-aC"}}}

Current State: ACTIVE
"""

BEHIND_A_STUMBLE_OF_SPARKS = """\
[STREAM_FAILED] Query [id = c2, runId = 53] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed to plan \
Python data source initialize source: Traceback (most recent call last):
  File "/site-packages/pyspark/sql/datasource_internal.py", line 50, in _streamReader
    return datasource.streamReader(schema=schema)
penstock.spark.errors.BadOption: subscribe: there is no such topic: orders

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/site-packages/pyspark/sql/streaming/python_streaming_source_runner.py", line 295, in main
UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Current Committed Offsets: {}
Current Available Offsets: {}
"""

OF_SPARKS_OWN = """\
[STREAM_FAILED] Query [id = c2, runId = 53] terminated with exception: [STREAMING_STATEFUL_OPERATOR_MISMATCH] The \
state of the checkpoint is of another query. SQLSTATE: 42K03 SQLSTATE: XXKST
=== Streaming Query ===
Current Committed Offsets: {}
"""


def test_an_error_of_a_users_function_is_shown_with_the_records_being_read() -> None:
    cause = cause_of(IN_A_FUNCTION)

    assert str(cause) == "ZeroDivisionError: division by zero (it was reading in-0 from 40 to 100)"


def test_the_first_error_counts_if_spark_failed_to_handle_it() -> None:
    cause = cause_of(BEHIND_A_STUMBLE_OF_SPARKS)

    assert str(cause) == "BadOption: subscribe: there is no such topic: orders"


def test_sparks_own_errors_are_shown_unchanged() -> None:
    assert str(cause_of(OF_SPARKS_OWN)) == "The state of the checkpoint is of another query."


def test_an_exception_without_a_message_is_shown_by_its_class() -> None:
    story = 'Traceback (most recent call last):\n  File "/x.py", line 1, in f\n    assert x\nAssertionError\n'

    assert cause_of(story).message == "AssertionError"


def test_the_last_exception_of_a_raise_from_counts() -> None:
    story = (
        'Traceback (most recent call last):\n  File "/x.py", line 1, in f\nKeyError: 1\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "/x.py", line 2, in f\nValueError: no price for 1\n'
    )

    assert cause_of(story).message == "ValueError: no price for 1"


def test_many_partitions_are_shortened_to_some_and_a_count() -> None:
    partitions = ", ".join(f'"{index}": 9' for index in range(9))
    reported = f'x\n=== Streaming Query ===\nCurrent Available Offsets: {{S@1: {{"in": {{{partitions}}}}}}}\n'

    message = str(cause_of(reported))

    assert "in-0 from the start to 9" in message
    assert message.endswith("and 3 more)")


GROUP = """[STREAM_FAILED] Query [id = 1] terminated with exception: It failed:   + Exception Group Traceback \
(most recent call last):
  |   File "runner.py", line 267, in main
  |     offset = reader.initialOffset()
  |              ^^^^^^^^^^^^^^^^^^^^^^
  | penstock.client.errors.several.ItemsFailed: could not describe topics: no broker answers
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "transport.py", line 231, in _attempt
    | ConnectionRefusedError: [Errno 111] Connection refused
    |
    | penstock.client.errors.client.NoBrokersAvailable: no broker answers
    +------------------------------------
 SQLSTATE: XXKST"""


@pytest.mark.parametrize("margin", ["|", ""])
def test_an_exception_group_is_shown_by_its_own_message(margin: str) -> None:
    # Spark strips margins from texts that it passes on.
    text = "\n".join(
        line.partition("|")[2] if not margin and "|" in line else line for line in GROUP.splitlines()
    )

    assert cause_of(text).message == "ItemsFailed: could not describe topics: no broker answers"


@pytest.mark.parametrize(
    "message",
    [
        "Broken pipe SQLSTATE: XXKST",
        "Connection reset SQLSTATE: XXKST",
        " SQLSTATE: XXKST (no cause message)",
    ],
)
def test_a_killed_process_is_recognized(message: str) -> None:
    text = f"[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {message}"

    assert cause_of(text).message.startswith(
        "the process in which Spark asks the source for new records was killed"
    )
    assert is_lost_process(text)


def test_a_broken_pipe_of_a_users_function_is_not_a_lost_process() -> None:
    text = 'Job failed: Traceback (most recent call last):\n  File "x.py", line 1\nBrokenPipeError: Broken pipe\n'

    assert not is_lost_process(text)
