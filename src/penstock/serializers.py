"""What makes bytes of keys and values, and keys and values of bytes: see `penstock.client.serializers`."""

from penstock.client import serializers as _serializers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.client.serializers import *  # noqa: F403

__all__ = _serializers.__all__

if not TYPE_CHECKING:  # a star would import all of them, with their libraries

    def __getattr__(name: str) -> object:
        return getattr(_serializers, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
