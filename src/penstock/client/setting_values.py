"""Converts the value of a setting: a Python value, or the text that a properties file would have.

`linger_ms=5` and `"linger.ms": "5"` mean the same. Where Kafka takes a Java class, an object may be given and is kept
as it is; the names of Kafka's own classes are mapped to the names here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from penstock.config.declare import Setting
from penstock.config.errors import BadSetting
from penstock.config.values import INTEGER_BITS, TYPE_DESCRIPTIONS, Secret, SettingType

# Settings whose text is a list of classes, so that its items may be objects.
CLASS_LISTS: Final = ("interceptor.classes", "partition.assignment.strategy", "metric.reporters")

# Settings with case-insensitive values; they get the case of the default.
ANY_CASE: Final = ("security.protocol", "group.protocol", "metadata.recovery.strategy", "share.acquire.mode")

_SERIALIZATION: Final = "org.apache.kafka.common.serialization."
_ASSIGNORS: Final = "org.apache.kafka.clients.consumer."

# Java classes that a file for Kafka may name, and their names here.
JAVA_NAMES: Final[Mapping[str, str]] = {
    f"{_ASSIGNORS}RangeAssignor": "range",
    f"{_ASSIGNORS}RoundRobinAssignor": "roundrobin",
    f"{_ASSIGNORS}StickyAssignor": "sticky",
    f"{_ASSIGNORS}CooperativeStickyAssignor": "cooperative-sticky",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round-robin",
    "org.apache.kafka.connect.json.JsonSerializer": "json",
    "org.apache.kafka.connect.json.JsonDeserializer": "json",
    **{
        f"{_SERIALIZATION}{java}{suffix}": name
        for java, name in {
            "ByteArray": "bytes",
            "Bytes": "bytes",
            "ByteBuffer": "bytes",
            "String": "string",
            "Long": "int64",
            "Integer": "int32",
            "Short": "int16",
            "Double": "float64",
            "Float": "float32",
            "Boolean": "boolean",
            "UUID": "uuid",
            "Void": "void",
        }.items()
        for suffix in ("Serializer", "Deserializer")
    },
    **{
        f"io.confluent.kafka.serializers.{java}{suffix}": name
        for java, name in {
            "KafkaAvro": "avro",
            "protobuf.KafkaProtobuf": "protobuf",
            "json.KafkaJsonSchema": "json-schema",
        }.items()
        for suffix in ("Serializer", "Deserializer")
    },
}


def take_value(setting: Setting, given: object) -> Any:
    """The value with the declared type; raises `BadSetting`."""
    if setting.name in CLASS_LISTS:
        return _take_classes(setting, given)
    if setting.type is SettingType.CLASS:
        return JAVA_NAMES.get(given.strip(), given.strip()) if isinstance(given, str) else given
    if isinstance(given, str):
        value = setting.parse(given)
        if setting.name in ANY_CASE:
            return value.upper() if setting.default.isupper() else value.lower()
        return value
    value = _of_type(setting, given)
    if setting.rule is not None and not setting.rule.accepts(value):
        raise setting.refusal(_shown(given))
    return value


def default_of(setting: Setting) -> Any:
    """The declared default, with the names of classes as they are here."""
    return _take_classes(setting, setting.default) if setting.name in CLASS_LISTS else setting.default


def _of_type(setting: Setting, given: object) -> Any:
    match setting.type:
        case SettingType.BOOLEAN if isinstance(given, bool):
            return given
        case SettingType.SHORT | SettingType.INT | SettingType.LONG if _is_integer(given, setting.type):
            return given
        case SettingType.DOUBLE if isinstance(given, float) or _is_integer(given, SettingType.LONG):
            return float(given)
        case SettingType.LIST if isinstance(given, list | tuple) and all(isinstance(i, str) for i in given):
            return tuple(given)
        case SettingType.PASSWORD if isinstance(given, Secret):
            return given
        case SettingType.STRING if setting.name == "acks" and _is_integer(given, SettingType.INT):
            return str(given)
    message = "a list of strings" if setting.type is SettingType.LIST else TYPE_DESCRIPTIONS[setting.type]
    raise _wrong_type(setting, given, message)


def _take_classes(setting: Setting, given: object) -> tuple[Any, ...]:
    if isinstance(given, str):
        given = setting.parse(given)
    if not isinstance(given, list | tuple):
        raise _wrong_type(setting, given, "a list")
    return tuple(JAVA_NAMES.get(item, item) if isinstance(item, str) else item for item in given)


def _is_integer(given: object, kind: SettingType) -> TypeGuard[int]:
    if not isinstance(given, int) or isinstance(given, bool):
        return False
    bound = 1 << (INTEGER_BITS[kind] - 1)
    return -bound <= given < bound


def _wrong_type(setting: Setting, given: object, message: str) -> BadSetting:
    shown = "the given value" if setting.is_sensitive else _shown(given)
    return BadSetting(setting.name, None, f"must be {message}, not {shown} of type {type(given).__name__}")


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."
