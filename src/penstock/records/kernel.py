"""The compiled functions and classes that touch every byte or every record of a batch.

There is no fallback: plain Python takes 100 to 1,000 times as long for the same batch, which would go unnoticed until
production. The sources are the `.pyx` files of this package, with the documentation; the `.pyi` files next to them
have the types. Tests compare them with the plain reference in `tests/oracle/records`.

`producing` has what only producers need, `consuming` what only consumers need.
"""

from __future__ import annotations

from penstock.records.errors import KernelMissing

try:
    from penstock.records._builder import build_batch
    from penstock.records._kernel import (
        check_batch,
        check_batches,
        inspect_batch,
        iterate_records,
        read_header,
        read_headers,
        read_payload,
        scan_records,
    )
    from penstock.records._messages import parse_messages, write_messages
except ImportError as error:
    raise KernelMissing(error) from error

__all__ = [
    "build_batch",
    "check_batch",
    "check_batches",
    "inspect_batch",
    "iterate_records",
    "parse_messages",
    "read_header",
    "read_headers",
    "read_payload",
    "scan_records",
    "write_messages",
]
