"""All requests that only the active controller can answer, and that need nothing else: DescribeQuorum and others.

`controller_handlers` has a module for each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext


def handle(broker: Broker, request: Any, context: RequestContext) -> Awaitable[Any]:
    return broker.channel.forward(request, context)
