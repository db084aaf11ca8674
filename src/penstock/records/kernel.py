"""The functions that touch many bytes or many records: compiled where possible, the plain twins otherwise.

`PENSTOCK_PURE=1` chooses the twins, for tests and for doubt. Both give equal answers; only speed differs.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.records import column_twin as _columns
    from penstock.records import fetched_twin as _fetched
    from penstock.records import fetched_twin as _message
    from penstock.records import message_twin as _messages
    from penstock.records import twin as _builder
    from penstock.records import twin as _kernel
else:
    try:
        if os.environ.get("PENSTOCK_PURE") == "1":
            raise ImportError("the plain twins were asked for")
        from penstock.records import _builder, _columns, _fetched, _kernel, _message, _messages
    except ImportError:
        from penstock.records import column_twin as _columns
        from penstock.records import fetched_twin as _fetched
        from penstock.records import fetched_twin as _message
        from penstock.records import message_twin as _messages
        from penstock.records import twin as _builder
        from penstock.records import twin as _kernel

IS_COMPILED = _kernel.__name__.endswith("._kernel")

build_batch = _builder.build_batch
check_batch = _kernel.check_batch
check_batches = _kernel.check_batches
inspect_batch = _kernel.inspect_batch
iterate_records = _kernel.iterate_records
read_header = _kernel.read_header
read_headers = _kernel.read_headers
read_payload = _kernel.read_payload
scan_records = _kernel.scan_records

parse_messages = _messages.parse_messages
write_messages = _messages.write_messages

ColumnBuilder = _columns.ColumnBuilder

FetchedRecords = _fetched.FetchedRecords
Message = _message.Message
MessageStream = _fetched.MessageStream
