"""What the operator of a failed node reads: what happened, and what to do next."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.metadata.errors import CorruptMetadata
from penstock.node.failures import DirectoryFailures, NodeFailed
from penstock.quorum.core import CommittedRecordsLost
from penstock.quorum.driver import CorruptMetadataLog, QuorumRefused
from penstock.runtime import Supervisor
from penstock.storage.directory import LogDirectory
from penstock.storage.errors import DirectoryOffline
from penstock.storage.store import LogStore


class NoLogs:
    on_directory_offline = None


async def message_of(reason: Exception) -> str:
    failures = DirectoryFailures(
        logs=cast(LogStore, NoLogs()),
        log_dirs=(),
        metadata_directory=cast(LogDirectory, None),
        supervisor=cast(Supervisor, None),
        report_timeout_ms=1000,
    )

    failures.fail(reason)

    with pytest.raises(NodeFailed) as failed:
        await failures.ended
    return str(failed.value)


@pytest.mark.parametrize("kind", [CommittedRecordsLost, CorruptMetadataLog, QuorumRefused])
async def test_a_reason_with_its_own_remedy_is_passed_on_as_it_is(kind: type[Exception]) -> None:
    assert await message_of(kind("it happened. Do this")) == "it happened. Do this"


@pytest.mark.parametrize(
    "reason",
    [
        DirectoryOffline("/data", "no space left"),
        OSError(28, "No space left on device", "/data/quorum-state"),
    ],
)
async def test_a_failed_disk_is_reported_as_one(reason: Exception) -> None:
    message = await message_of(reason)

    assert "/data" in message
    assert "no space left" in message.lower()
    assert message.endswith("Free space on the disk or repair it, then start the node again.")


async def test_records_that_this_version_cannot_apply_are_reported_with_their_offset() -> None:
    message = await message_of(CorruptMetadata("at offset 7 of the metadata log: unknown record type 99"))

    assert "at offset 7 of the metadata log: unknown record type 99" in message
    assert "newer version" in message


@pytest.mark.parametrize("reason", [AssertionError("x is 3"), ConnectionResetError("of a peer")])
async def test_anything_else_is_a_bug(reason: Exception) -> None:
    message = await message_of(reason)

    assert message.startswith(f"{type(reason).__name__}: {reason}.")
    assert "This is a bug" in message


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (
            AssertionError("There is no leader."),
            "AssertionError: There is no leader. This is a bug; please report it.",
        ),
        (AssertionError(), "AssertionError. This is a bug; please report it."),
    ],
)
async def test_a_bug_is_reported_in_whole_sentences(reason: Exception, message: str) -> None:
    """The message of NOT_CONTROLLER ended with two full stops."""
    assert await message_of(reason) == message
