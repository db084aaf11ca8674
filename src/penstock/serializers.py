"""What makes bytes of keys and values, and keys and values of bytes: see `penstock.client.serializers`."""

from penstock._lazy import names_from
from penstock.client import serializers as _serializers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from penstock.client.serializers import *  # noqa: F403

__all__ = _serializers.__all__

if not TYPE_CHECKING:  # a star would import all of them, with their libraries
    __getattr__, __dir__ = names_from(__name__, dict.fromkeys(__all__, _serializers.__name__))
