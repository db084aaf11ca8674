"""Finishes what a dead driver left open: commits what was decided, and aborts the rest. For operators.

    finish_write(options, "load-2026-11-16")    # a batch write that will not be run again
    finish_query(options, query_id)             # a stream that will not be started again

Aborting such transactions one by one would be wrong: if their batch was decided, some may be committed already, and
the rest must be committed too. A driver that is still alive cannot decide anything afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.spark.errors import BadOption
from penstock.spark.options import Options, Use, check_mapping
from penstock.spark.sink import PREFIX, messages
from penstock.spark.sink.decision import NO_RUN, Decision, SinkStopped
from penstock.spark.sink.protocol import finish
from penstock.spark.sink.transactions import connection_of


def finish_write(options: Mapping[str, str], write_id: str) -> bool:
    """Finish a batch write whose driver died. Returns whether it is committed; otherwise it was aborted.

    `write_id` is its `writeId`, or for a write without one, the part between `write:` and the next `-` of its
    transactional ids.
    """
    return _finish(options, f"{messages.WRITE}{_checked(write_id, 'write_id')}") is not None


def finish_query(options: Mapping[str, str], query_id: str) -> int | None:
    """Finish a stream whose driver died. Returns the id of the last committed batch, or None.

    `query_id` is the id of the query, or the name given to `to_topics`.
    """
    decision = _finish(options, _checked(query_id, "query_id"))
    return None if decision is None else decision.batch


def _finish(options: Mapping[str, str], sink: str) -> Decision | None:
    """`options` are those of the sink; `kafka.*` and `transactionalIdPrefix` matter."""
    check_mapping(options, "options")
    others = {name: value for name, value in options.items() if name.lower() != "writeid"}
    read = Options.read(others, Use.BATCH_WRITE)
    prefix = read.get("transactionalIdPrefix") or PREFIX
    with connection_of(read.settings) as connection:
        ledger = connection.run(lambda admin: finish(admin, sink, prefix=prefix))
    if ledger.holder == NO_RUN:
        raise SinkStopped(f"{messages.named(sink)} is unknown: nothing was written exactly once with this id")
    return ledger.decision


def _checked(given: object, what: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise BadOption(f"{what} must be an id, not {given!r}")
    return given.strip()
