"""The clients for asyncio, by the same names as those of `penstock`, and imported when they are asked for as there."""

from penstock._lazy import names_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.client.admin.aio import Admin
    from penstock.client.cluster import PartitionInfo, TopicPartition
    from penstock.client.consumer.aio import Consumer
    from penstock.client.consumer.arguments import RebalanceListener
    from penstock.client.consumer.commits import Interceptor as ConsumerInterceptor
    from penstock.client.consumer.lookups import OffsetAndTimestamp
    from penstock.client.consumer.reading import AsyncReading as Reading
    from penstock.client.group.types import GroupMetadata, Offset
    from penstock.client.prepared_transaction import PreparedTransaction
    from penstock.client.producer.aio import Producer, Transaction
    from penstock.client.producer.interceptors import Interceptor as ProducerInterceptor
    from penstock.client.producer.interceptors import OutgoingRecord
    from penstock.client.producer.partitioners import Partitioner
    from penstock.client.producer.rows import RowsReceipt
    from penstock.records.consuming import Message
    from penstock.records.delivery import Delivery
    from penstock.records.producing import Receipt

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
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = names_from(
        __name__,
        {
            "Admin": "penstock.client.admin.aio",
            "Consumer": "penstock.client.consumer.aio",
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
            "Producer": "penstock.client.producer.aio",
            "ProducerInterceptor": "penstock.client.producer.interceptors:Interceptor",
            "Reading": "penstock.client.consumer.reading:AsyncReading",
            "RebalanceListener": "penstock.client.consumer.arguments",
            "Receipt": "penstock.records.producing",
            "RowsReceipt": "penstock.client.producer.rows",
            "TopicPartition": "penstock.client.cluster",
            "Transaction": "penstock.client.producer.aio",
        },
    )
