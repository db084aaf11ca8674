"""How a client proves who it is and whom it talks to: `security.protocol` and all that follows from it.

`Security` is made from the settings and asked for each connection: `connect` gives a stream, encrypted or not, and
`log_in` goes through SASL on it. The mechanisms themselves (`plain`, `scram`, `oauth`) are machines without I/O: bytes
of the broker in, bytes for the broker out.

Certificates are read and `ssl` is imported when the first connection is made; until then nothing is opened.
"""

from __future__ import annotations

from penstock.client.security.protocol import Security

__all__ = ["Security"]
