"""Fuzzing of the controller listener: no request of another node, forwarded or not, upsets this one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.nodes import RawPeer, simulate
from penstock.broker.controller_handlers import TABLE
from penstock.broker.envelopes import FORWARDABLE
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.headers import encode_request_header
from penstock.protocol.messages.envelope import EnvelopeRequest
from simulator.simulation import HOST, PORT, Simulation
from wire.test_fuzz import Sent, assert_no_bug, bodies, check_serving, create_topics, fuzzing, send

CONTROLLER_PORT = PORT + 1
PROPERTIES = {
    "listeners": f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:{CONTROLLER_PORT}",
    "controller.listener.names": "CONTROLLER",
}
KEYS = [served.key for served in TABLE.apis]


@st.composite
def envelopes(draw: st.DrawFn) -> Sent:
    key, version, body = draw(st.sampled_from(sorted(FORWARDABLE & set(KEYS))).flatmap(bodies))
    principal = draw(st.sampled_from([b"\0\0\x05User\x04bob\0\0", b"", b"\0\x01"]))
    envelope = EnvelopeRequest(
        request_data=encode_request_header(api(key).key, version, 1, "fuzz") + body,
        request_principal=principal,
        client_host_address=bytes(4),
    )
    return ApiKey.ENVELOPE, 0, codec(EnvelopeRequest, 0).encode(envelope)


def run(sent: list[Sent], seed: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main(world: Simulation) -> None:
        control = await world.connect()
        await create_topics(control)
        peer = await RawPeer.connect(world.network, HOST, CONTROLLER_PORT)
        for key, version, body in sent:
            if peer.is_closed:
                peer = await RawPeer.connect(world.network, HOST, CONTROLLER_PORT)
            peer = await send(world, peer, key, version, body)
        await check_serving(control)

    caplog.clear()
    simulate(main, seed=seed, properties=PROPERTIES)
    assert_no_bug(caplog)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ApiKey(key).name.lower())
def test_no_request_of_an_api_upsets_a_controller(key: int, caplog: pytest.LogCaptureFixture) -> None:
    @fuzzing
    @given(st.lists(bodies(key), min_size=1, max_size=4), st.integers(0, 2**32))
    def check(sent: list[Sent], seed: int) -> None:
        run(sent, seed, caplog)

    check()


def test_no_envelope_upsets_a_controller(caplog: pytest.LogCaptureFixture) -> None:
    @fuzzing
    @given(st.lists(envelopes(), min_size=1, max_size=6), st.integers(0, 2**32))
    def check(sent: list[Sent], seed: int) -> None:
        run(sent, seed, caplog)

    check()
