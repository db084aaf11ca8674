"""What producers need of the kernel: compiled where possible, the plain twins otherwise.

Apart from `kernel`, which brokers load as well: they take no records in one by one, and start sooner without this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.records.kernel import IS_COMPILED

if TYPE_CHECKING:
    from penstock.records import append_twin as _appender
    from penstock.records import intake_twin as _intake
elif IS_COMPILED:
    from penstock.records import _appender, _intake
else:
    from penstock.records import append_twin as _appender
    from penstock.records import intake_twin as _intake

ProducerBatch = _appender.ProducerBatch
Receipt = _appender.Receipt
murmur2 = _appender.murmur2

Intake = _intake.Intake
PartitionQueue = _intake.PartitionQueue
Sending = _intake.Sending
TopicQueues = _intake.TopicQueues
