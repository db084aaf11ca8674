"""Penstock: an event streaming platform in Python that speaks Kafka's protocol.

Nothing is imported here, so that every command and every client starts at once. `docs/architecture.md` is the
plan of the house; each package's docstring says what lives there and what it must never do.
"""

__version__ = "0.1.0"
