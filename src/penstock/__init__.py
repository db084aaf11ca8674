"""Penstock: an event streaming platform in Python that speaks Kafka's protocol.

    from penstock import Producer, Consumer, Admin

`penstock.aio` has the same names for asyncio, `penstock.admin` what an admin takes and gives, `penstock.errors` every
exception, `penstock.serializers` what makes bytes of values, `penstock.assignors` who reads what in a group,
`penstock.testing` brokers for tests.

Nothing is imported here until it is asked for, so that every command and every program starts at once, and no package
below comes to depend on the client by way of this one. `docs/architecture.md` is the plan of the house; each package's
docstring says what lives there and what it must never do.
"""

# Type checkers take it for True wherever it stands; importing it from `typing` would cost more than all the rest.
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
    from penstock.client.group.nouns import GroupMetadata, Offset
    from penstock.client.producer.interceptors import Interceptor as ProducerInterceptor
    from penstock.client.producer.interceptors import OutgoingRecord
    from penstock.client.producer.partitioners import Partitioner
    from penstock.client.producer.prepared import PreparedTransaction
    from penstock.client.producer.rows import RowsReceipt
    from penstock.client.producer.sync import Producer, Transaction
    from penstock.records.delivery import Delivery
    from penstock.records.kernel import Message
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
    "GroupMetadata": "penstock.client.group.nouns",
    "Message": "penstock.records.kernel",
    "Offset": "penstock.client.group.nouns",
    "OffsetAndTimestamp": "penstock.client.consumer.lookups",
    "OutgoingRecord": "penstock.client.producer.interceptors",
    "PartitionInfo": "penstock.client.cluster",
    "Partitioner": "penstock.client.producer.partitioners",
    "PreparedTransaction": "penstock.client.producer.prepared",
    "Producer": "penstock.client.producer.sync",
    "ProducerInterceptor": "penstock.client.producer.interceptors:Interceptor",
    "Reading": "penstock.client.consumer.reading",
    "RebalanceListener": "penstock.client.consumer.arguments",
    "Receipt": "penstock.records.producing",
    "RowsReceipt": "penstock.client.producer.rows",
    "TopicPartition": "penstock.client.cluster",
    "Transaction": "penstock.client.producer.sync",
}

if not TYPE_CHECKING:  # to them it would make every name one of ours

    def __getattr__(name: str) -> object:
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"penstock.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
        module, _, there = _HOMES[name].partition(":")
        value = getattr(importlib.import_module(module), there or name)
        globals()[name] = value  # found at once from now on
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
