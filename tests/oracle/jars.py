"""Apache Kafka's jars, for tests that compare our protocol with Kafka's.

`make test` fetches them. The environment may name another folder of the same layout. Without jars the tests that need
them are skipped with the reason, but never in CI.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("PENSTOCK_KAFKA_JARS") or Path(__file__).parents[2] / ".cache" / "kafka")

NEW_VERSION = "4.3.1"
OLD_VERSION = "3.9.2"
"""The last release with the versions that 0.10 clients send; Kafka 4.0 dropped them."""


def libs() -> Path:
    """The folder with all jars of the new Kafka and their dependencies."""
    return _required(FOLDER / "libs")


def new_clients() -> Path:
    return _required(FOLDER / "libs" / f"kafka-clients-{NEW_VERSION}.jar")


def new_metadata() -> Path:
    return _required(FOLDER / "libs" / f"kafka-metadata-{NEW_VERSION}.jar")


def new_group_coordinator() -> Path:
    return _required(FOLDER / "libs" / f"kafka-group-coordinator-{NEW_VERSION}.jar")


def new_transaction_coordinator() -> Path:
    return _required(FOLDER / "libs" / f"kafka-transaction-coordinator-{NEW_VERSION}.jar")


def old_clients() -> Path:
    return _required(FOLDER / "old" / f"kafka-clients-{OLD_VERSION}.jar")


def _required(path: Path) -> Path:
    if not path.exists():
        reason = (
            f"{path} is missing: `make test` fetches Kafka's jars, PENSTOCK_KAFKA_JARS names another folder"
        )
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
