"""The clients for asyncio, by the same names as those of `penstock`, and imported when they are asked for as there."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.client.admin.aio import Admin
    from penstock.client.cluster import TopicPartition

__all__ = ["Admin", "TopicPartition"]

_HOMES = {
    "Admin": "penstock.client.admin.aio",
    "TopicPartition": "penstock.client.cluster",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        import importlib

        if name not in _HOMES:
            raise AttributeError(f"module 'penstock.aio' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
