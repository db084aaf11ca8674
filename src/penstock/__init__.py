"""Penstock: an event streaming platform in Python that speaks Kafka's protocol.

    from penstock import Producer, Consumer, Admin

`penstock.aio` has the same names for asyncio. `penstock.admin` has the argument and result types of `Admin`,
`penstock.errors` all exceptions, `penstock.serializers` the serializers, `penstock.assignors` the partition assignors,
and `penstock.testing` brokers for tests.

Names are imported on first use, so that every program starts fast and no lower package depends on the client through
this one. `docs/architecture.md` describes the packages.
"""

# Type checkers treat this name as True. Importing it from `typing` would take longer than the rest of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock import admin, aio, assignors, errors, serializers, testing
    from penstock.client.admin.sync import Admin
    from penstock.client.cluster import PartitionInfo, TopicPartition
    from penstock.client.consumer.arguments import RebalanceListener
    from penstock.client.consumer.commits import Interceptor as ConsumerInterceptor
    from penstock.client.consumer.lookups import OffsetAndTimestamp
    from penstock.client.consumer.reading import Reading
    from penstock.client.consumer.sync import Consumer
    from penstock.client.group.types import GroupMetadata, Offset
    from penstock.client.prepared_transaction import PreparedTransaction
    from penstock.client.producer.interceptors import Interceptor as ProducerInterceptor
    from penstock.client.producer.interceptors import OutgoingRecord
    from penstock.client.producer.partitioners import Partitioner
    from penstock.client.producer.rows import RowsReceipt
    from penstock.client.producer.sync import Producer, Transaction
    from penstock.records.consuming import Message
    from penstock.records.delivery import Delivery
    from penstock.records.producing import Receipt

__version__ = "0.1.0"

__all__ = [
    "Admin",
    "Consumer",
    "ConsumerInterceptor",
    "Delivery",
    "GroupMetadata",
    "Message",
    "Offset",
    "OffsetAndTimestamp",
    "OutgoingRecord",
    "PartitionInfo",
    "Partitioner",
    "PreparedTransaction",
    "Producer",
    "ProducerInterceptor",
    "Reading",
    "RebalanceListener",
    "Receipt",
    "RowsReceipt",
    "TopicPartition",
    "Transaction",
    "admin",
    "aio",
    "assignors",
    "errors",
    "serializers",
    "testing",
]

_MODULES = ("admin", "aio", "assignors", "errors", "serializers", "testing")
_HOMES = {
    "Admin": "penstock.client.admin.sync",
    "Consumer": "penstock.client.consumer.sync",
    "ConsumerInterceptor": "penstock.client.consumer.commits:Interceptor",
    "Delivery": "penstock.records.delivery",
    "GroupMetadata": "penstock.client.group.types",
    "Message": "penstock.records.consuming",
    "Offset": "penstock.client.group.types",
    "OffsetAndTimestamp": "penstock.client.consumer.lookups",
    "OutgoingRecord": "penstock.client.producer.interceptors",
    "PartitionInfo": "penstock.client.cluster",
    "Partitioner": "penstock.client.producer.partitioners",
    "PreparedTransaction": "penstock.client.prepared_transaction",
    "Producer": "penstock.client.producer.sync",
    "ProducerInterceptor": "penstock.client.producer.interceptors:Interceptor",
    "Reading": "penstock.client.consumer.reading",
    "RebalanceListener": "penstock.client.consumer.arguments",
    "Receipt": "penstock.records.producing",
    "RowsReceipt": "penstock.client.producer.rows",
    "TopicPartition": "penstock.client.cluster",
    "Transaction": "penstock.client.producer.sync",
}

if not TYPE_CHECKING:  # for type checkers, `__getattr__` would make every name exist

    def __getattr__(name: str) -> object:
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"penstock.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
        module, _, there = _HOMES[name].partition(":")
        value = getattr(importlib.import_module(module), there or name)
        globals()[name] = value  # `__getattr__` is not called again for it
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
