"""Every exception that a client raises on purpose: see `penstock.client.errors`, where the tree stands."""

# ruff: noqa: F403  each module names what it gives; mypy follows no sum of such lists, so they are named one by one

from penstock.client.errors import __all__ as __all__
from penstock.client.errors import of as of
from penstock.client.errors.base import *
from penstock.client.errors.client import *
from penstock.client.errors.cluster import *
from penstock.client.errors.data import *
from penstock.client.errors.groups import *
from penstock.client.errors.security import *
from penstock.client.errors.several import *
from penstock.client.errors.transactions import *
