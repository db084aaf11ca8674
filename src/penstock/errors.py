"""Every exception that a client raises on purpose: see `penstock.client.errors`, where the tree stands."""

from penstock.client.errors import *  # noqa: F403
from penstock.client.errors import __all__ as __all__
