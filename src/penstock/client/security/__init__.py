"""Security of a client's connections: `security.protocol` and its settings.

`Security` is made from the settings and used for each connection: `connect` returns a stream, encrypted or not, and
`log_in` authenticates it with SASL. The mechanisms (`plain`, `scram`, `oauth`) are state machines without I/O: the
broker's bytes in, bytes for the broker out.

Certificates are read and `ssl` is imported with the first connection.
"""

from __future__ import annotations

from penstock.client.security.protocol import Security

__all__ = ["Security"]
