"""Envelope (key 58): a client's request, forwarded by a broker. Served: v0.

Faults of the envelope are errors of the envelope: an unreadable principal, a wrong client address, a request that
cannot be forwarded, such as another envelope (INVALID_REQUEST), or that cannot be read (UNSUPPORTED_VERSION). Errors of
the contained request are in the contained response. The exception is NOT_CONTROLLER, which makes the broker look for
the active controller.
"""

from __future__ import annotations

from penstock.broker.context import RequestContext
from penstock.broker.controller_handlers import TABLE
from penstock.broker.controller_server import ControllerServer
from penstock.broker.envelopes import unwrap_request, wrap_response
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse


async def handle(
    server: ControllerServer, request: EnvelopeRequest, context: RequestContext
) -> EnvelopeResponse:
    contained, own_context = unwrap_request(request, context, TABLE.versions)
    try:
        response = await TABLE.call(server, contained, own_context)
    except Refused as refused:
        if refused.error is ErrorCode.NOT_CONTROLLER:
            raise
        response = TABLE.refuse(contained, refused, own_context)
    return wrap_response(response, own_context)


def refuse(request: EnvelopeRequest, refused: Refused, context: RequestContext) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=refused.error)
