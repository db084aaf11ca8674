"""Penstock: an event streaming platform in Python that speaks Kafka's protocol.

    from penstock import Producer, Consumer, Admin

`penstock.aio` has the same names for asyncio, `penstock.admin` what an admin takes and gives, `penstock.errors` every
exception, `penstock.serializers` what makes bytes of values, `penstock.testing` brokers for tests.

Nothing is imported here until it is asked for, so that every command and every program starts at once, and no package
below comes to depend on the client by way of this one. `docs/architecture.md` is the plan of the house; each package's
docstring says what lives there and what it must never do.
"""

TYPE_CHECKING = (
    False  # type checkers take it for True; importing `typing` to say so would cost more than all the rest
)
if TYPE_CHECKING:
    from penstock import admin, aio, errors, serializers
    from penstock.client.admin.sync import Admin
    from penstock.client.cluster import TopicPartition
    from penstock.client.producer.sync import Producer

__version__ = "0.1.0"

__all__ = ["Admin", "Producer", "TopicPartition", "admin", "aio", "errors", "serializers"]

_MODULES = ("admin", "aio", "errors", "serializers")
_HOMES = {
    "Admin": "penstock.client.admin.sync",
    "Producer": "penstock.client.producer.sync",
    "TopicPartition": "penstock.client.cluster",
}

if not TYPE_CHECKING:  # to them it would make every name one of ours

    def __getattr__(name: str) -> object:
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"penstock.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'penstock' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value  # found at once from now on
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
