"""DefaultPrincipalData: the principal of a request that a broker forwards to the controller.

Travels in `EnvelopeRequest.request_principal`, after an int16 with its version (KIP-590).
"""

from __future__ import annotations

from penstock.protocol.declare import message


@message(versions=(0, 0), flexible=0)
class DefaultPrincipalData:
    type: str
    name: str
    token_authenticated: bool
