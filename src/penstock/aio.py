"""The clients for asyncio, by the same names as those of `penstock`, and imported when they are asked for as there."""

from penstock._lazy import names_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.client.admin.aio import Admin
    from penstock.client.cluster import TopicPartition
    from penstock.client.producer.aio import Producer

__all__ = ["Admin", "Producer", "TopicPartition"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = names_from(
        __name__,
        {
            "Admin": "penstock.client.admin.aio",
            "Producer": "penstock.client.producer.aio",
            "TopicPartition": "penstock.client.cluster",
        },
    )
