"""The formatters of Kafka's console consumer, by class name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cli.failures import Refusal
from penstock.cli.records.deserializers import Show, find

if TYPE_CHECKING:
    from penstock.cli.dump.decoders import Decoder


class ReadRecord(Protocol):
    """The attributes of a message that formatters use."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def timestamp_type(self) -> object: ...
    @property
    def leader_epoch(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


Formatter = Callable[[ReadRecord], bytes]
"""Returns the bytes to print, with the line end; none for a skipped message."""


def make_formatter(
    name: str, properties: Mapping[str, str], *, key_deserializer: str | None, value_deserializer: str | None
) -> Formatter:
    """By class name, with or without the package."""
    settings = dict(properties)
    if key_deserializer:
        settings["key.deserializer"] = key_deserializer
    if value_deserializer:
        settings["value.deserializer"] = value_deserializer
    match name.rpartition(".")[2]:
        case "DefaultMessageFormatter":
            return LineFormat.of_properties(settings).format
        case "LoggingMessageFormatter":
            return log_format
        case "NoOpMessageFormatter":
            return lambda message: b""
        case "OffsetsMessageFormatter":
            return internal_format(_offsets(), only_types={0, 1})
        case "GroupMetadataMessageFormatter":
            return internal_format(_offsets(), only_types={2})
        case "TransactionLogMessageFormatter":
            return internal_format(_transactions(), only_types={0})
    raise Refusal(
        f"unknown formatter {name}; known are DefaultMessageFormatter, LoggingMessageFormatter, "
        "NoOpMessageFormatter, OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter"
    )


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Which parts of a message are printed, and their separators."""

    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    delivery: bool = False
    epoch: bool = False
    headers: bool = False
    key: bool = False
    value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    show_key: Show | None = None
    show_value: Show | None = None
    show_header: Show | None = None

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> LineFormat:
        """From the properties of Kafka's formatter, such as `print.key=true`; others are ignored."""

        def is_true(name: str, default: bool = False) -> bool:
            text = properties.get(name)
            return default if text is None else text.strip().lower() == "true"

        def text_of(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        def shows(name: str) -> Show | None:
            wanted = properties.get(name)
            return None if wanted is None or wanted.endswith("ByteArrayDeserializer") else find(wanted)

        return cls(
            timestamp=is_true("print.timestamp"),
            partition=is_true("print.partition"),
            offset=is_true("print.offset"),
            delivery=is_true("print.delivery"),
            epoch=is_true("print.epoch"),
            headers=is_true("print.headers"),
            key=is_true("print.key"),
            value=is_true("print.value", default=True),
            key_separator=text_of("key.separator", "\t"),
            line_separator=text_of("line.separator", "\n"),
            headers_separator=text_of("headers.separator", ","),
            null_literal=text_of("null.literal", "null"),
            show_key=shows("key.deserializer"),
            show_value=shows("value.deserializer"),
            show_header=shows("headers.deserializer") or shows("header.deserializer"),
        )

    def format(self, message: ReadRecord) -> bytes:
        parts: list[bytes] = []
        if self.timestamp:
            parts.append(_time(message).encode())
        if self.partition:
            parts.append(b"Partition:%d" % message.partition)
        if self.offset:
            parts.append(b"Offset:%d" % message.offset)
        if self.delivery:
            parts.append(b"Delivery:NOT_PRESENT")
        if self.epoch:
            parts.append(
                b"Epoch:%d" % message.leader_epoch
                if message.leader_epoch is not None
                else b"Epoch:NOT_PRESENT"
            )
        if self.headers:
            pairs = [
                name.encode() + b":" + self._show(value, self.show_header) for name, value in message.headers
            ]
            parts.append(self.headers_separator.join(pairs) or b"NO_HEADERS")
        if self.key:
            parts.append(self._show(message.key, self.show_key))
        if self.value:
            parts.append(self._show(message.value, self.show_value))
        return self.key_separator.join(parts) + self.line_separator if parts else b""

    def _show(self, data: bytes | None, show: Show | None) -> bytes:
        if data is None:
            return self.null_literal
        return data if show is None else show(data).encode("utf-8", "surrogateescape")


def log_format(message: ReadRecord) -> bytes:
    """Like Kafka's LoggingMessageFormatter."""

    def text(data: bytes | None) -> str:
        return "null" if data is None else data.decode("utf-8", "replace")

    return f"{_time(message)}, key:{text(message.key)}, value:{text(message.value)}\n".encode(
        "utf-8", "surrogateescape"
    )


def internal_format(decode: Decoder, *, only_types: set[int]) -> Formatter:
    """Records of an internal topic as JSON; only these record types."""

    def format_message(message: ReadRecord) -> bytes:
        import json

        from penstock.records.batch import Record

        if message.key is None or int.from_bytes(message.key[:2], "big") not in only_types:
            return b""
        shown = decode(Record(message.offset, message.timestamp_ms, message.key, message.value, ()))
        if shown.key is None or not shown.key.startswith("{"):
            return b""
        value = None if message.value is None else json.loads(shown.value or "null")
        line = json.dumps(
            {"key": _typed(json.loads(shown.key)), "value": value and _typed(value)}, separators=(",", ":")
        )
        return f"{line}\n".encode()

    return format_message


def _typed(shown: dict[str, Any]) -> dict[str, Any]:
    """Here types and versions are numbers; the dump tool prints them as text."""
    return {name: int(part) if name in ("type", "version") else part for name, part in shown.items()}


def _time(message: ReadRecord) -> str:
    if message.timestamp_ms < 0:
        return "NO_TIMESTAMP"
    kind = getattr(message.timestamp_type, "name", "CREATE_TIME")
    return f"{'LogAppendTime' if kind == 'LOG_APPEND_TIME' else 'CreateTime'}:{message.timestamp_ms}"


def _offsets() -> Decoder:
    from penstock.cli.dump.decoders import offsets_decoder

    return offsets_decoder()


def _transactions() -> Decoder:
    from penstock.cli.dump.decoders import transactions_decoder

    return transactions_decoder()
