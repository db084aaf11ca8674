"""What producers need of the kernel: compiled where possible, the plain twins otherwise.

Apart from `kernel`, which brokers load as well: they take no records in one by one, and start sooner without this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.records import intake_twin, rows_twin
from penstock.records.kernel import IS_COMPILED

if TYPE_CHECKING:
    from penstock.records import append_twin as _appender

    _intake = intake_twin
    _rows = rows_twin
else:
    try:
        if not IS_COMPILED:
            raise ImportError("the plain twins were chosen")
        from penstock.records import _appender, _intake, _rows
    except ImportError:
        from penstock.records import append_twin as _appender

        _intake = intake_twin
        _rows = rows_twin

ProducerBatch = _appender.ProducerBatch
Receipt = _appender.Receipt
murmur2 = _appender.murmur2
place_of = _appender.place_of

# What the compiled intake reckons too; asked only for records that go the long way.
largest_size = intake_twin.largest_size

Intake = _intake.Intake
PartitionQueue = _intake.PartitionQueue
Sending = _intake.Sending
TopicQueues = _intake.TopicQueues

RowAppender = _rows.RowAppender
