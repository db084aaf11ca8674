from collections.abc import Callable
from typing import Any

from penstock.records.arrow_layout import Columns
from penstock.records.batch import Buffer

class ColumnBuilder:
    def __init__(self, header_format: int = 1, allocate: Callable[[int], Any] | None = None) -> None: ...
    @property
    def header_format(self) -> int: ...
    @property
    def row_count(self) -> int: ...
    def append(
        self,
        view: Buffer,
        position: int = 0,
        *,
        first_offset: int = 0,
        end_offset: int = ...,
        limit_bytes: int = ...,
    ) -> None: ...
    def take(self) -> Columns: ...
