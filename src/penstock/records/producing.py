"""The compiled classes that only producers need: batches, receipts, partition queues and the intake of records.

They are apart from `kernel` because brokers do not append record by record, and start faster without them.
"""

from __future__ import annotations

from penstock.records.errors import KernelMissing

try:
    from penstock.records._appender import ProducerBatch, Receipt, murmur2, place_of
    from penstock.records._intake import Intake, PartitionQueue, Sending, TopicQueues, largest_size
    from penstock.records._rows import RowAppender
except ImportError as error:
    raise KernelMissing(error) from error

__all__ = [
    "Intake",
    "PartitionQueue",
    "ProducerBatch",
    "Receipt",
    "RowAppender",
    "Sending",
    "TopicQueues",
    "largest_size",
    "murmur2",
    "place_of",
]
