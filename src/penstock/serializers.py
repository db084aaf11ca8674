"""What makes bytes of keys and values, and keys and values of bytes: see `penstock.client.serializers`."""

from penstock.client.serializers import *  # noqa: F403
from penstock.client.serializers import __all__ as __all__
