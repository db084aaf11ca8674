"""The compiled classes that only consumers need: fetched records, messages, columns.

They are apart from `kernel` because brokers do not read records one by one, and start faster without them.
"""

from __future__ import annotations

from penstock.records.errors import KernelMissing

try:
    from penstock.records._columns import ColumnBuilder
    from penstock.records._fetched import FetchedRecords, MessageStream
    from penstock.records._message import Message
except ImportError as error:
    raise KernelMissing(error) from error

__all__ = ["ColumnBuilder", "FetchedRecords", "Message", "MessageStream"]
