"""Responses are sent in the order of their requests, and a peer that does not read gets no further ones."""

import asyncio
import struct
import weakref
from collections.abc import Sequence

from penstock.net.connection import (
    BACKLOG_BYTES_MAX,
    TURN_S_MAX,
    WAITING_BYTES_MAX,
    WAITING_RESPONSES_MAX,
    Connection,
    PeerError,
    Response,
)
from penstock.runtime.network import Part


class RecordingStream:
    peer = "10.0.0.1:5"
    peer_host = "10.0.0.1"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.backlog = 0
        self.is_paused = False
        self.is_closed = False

    def send(self, parts: Sequence[Part]) -> None:
        assert not any(isinstance(part, asyncio.Future) for part in parts)
        self.sent += [bytes(part) for part in parts]  # type: ignore[arg-type]

    def backlog_bytes(self) -> int:
        return self.backlog

    def is_reset(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class ScriptedServer:
    """Responds to a frame `now:x` at once, to `later:x` on command, to `large:n` with n bytes, and to others not at
    all. Consecutive frames `with:x` are handled together.

    Time passes only while it handles a request.
    """

    def __init__(self) -> None:
        self.later: dict[bytes, asyncio.Future[list[Part] | None]] = {}
        self.closed: list[Connection] = []
        self.served: list[bytes] = []
        self.seconds_per_request = 0.0
        self.now = 0.0

    def serve(self, frame: memoryview, connection: Connection) -> Response:
        self.served.append(bytes(frame))
        self.now += self.seconds_per_request
        how, _, what = bytes(frame).partition(b":")
        if how == b"now":
            return [what]
        if how == b"with":
            answers: list[Part] = [what]
            while (following := connection.take_next()) is not None:
                if not bytes(following).startswith(b"with:"):
                    connection.give_back(following)
                    break
                answers.append(bytes(following)[5:])
            return answers
        if how == b"large":
            return [b"x" * int(what)]
        if how in (b"later", b"hold"):
            self.later[what] = asyncio.get_running_loop().create_future()
            if how == b"hold":
                connection.hold(self.later[what])
            return self.later[what]
        if how == b"bad":
            raise PeerError("nonsense")
        if how == b"bug":
            raise ZeroDivisionError
        return None

    def connection_closed(self, connection: Connection) -> None:
        self.closed.append(connection)


def connect() -> tuple[Connection, RecordingStream, ScriptedServer]:
    stream, server = RecordingStream(), ScriptedServer()
    connection = Connection(
        stream,
        server,
        listener="PLAINTEXT",
        scratch=memoryview(bytearray(1 << 16)),
        frame_bytes_max=1 << 20,
        now=lambda: server.now,
    )
    return connection, stream, server


def receive(connection: Connection, *payloads: bytes) -> None:
    data = b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)
    connection.lend_buffer()[: len(data)] = data
    connection.received(len(data))


async def test_a_waiting_response_delays_later_responses_but_not_later_requests() -> None:
    connection, stream, server = connect()

    receive(connection, b"now:1", b"later:2", b"now:3", b"later:4", b"now:5")
    assert stream.sent == [b"1"]
    assert set(server.later) == {b"2", b"4"}
    server.later[b"4"].set_result([b"4"])
    await asyncio.sleep(0)
    assert stream.sent == [b"1"]
    server.later[b"2"].set_result([b"2"])
    await asyncio.sleep(0)

    assert stream.sent == [b"1", b"2", b"3", b"4", b"5"]


async def test_requests_that_are_handled_together_get_responses_in_order() -> None:
    connection, stream, server = connect()

    receive(connection, b"with:1", b"with:2", b"now:3", b"with:4")

    assert server.served == [b"with:1", b"now:3", b"with:4"]
    assert stream.sent == [b"1", b"2", b"3", b"4"]


async def test_garbage_after_a_request_does_not_prevent_its_response() -> None:
    connection, stream, _ = connect()

    data = struct.pack(">i6si", 6, b"with:1", -1)
    connection.lend_buffer()[: len(data)] = data
    connection.received(len(data))

    assert stream.sent == [b"1"]
    assert stream.is_closed


async def test_a_request_without_a_response_gets_none() -> None:
    connection, stream, _ = connect()

    receive(connection, b"quiet:1", b"now:2")

    assert stream.sent == [b"2"]


async def test_a_peer_with_too_many_requests_in_progress_is_read_again_after_their_responses() -> None:
    connection, stream, server = connect()

    receive(connection, *[b"later:%d" % n for n in range(WAITING_RESPONSES_MAX)], b"now:last")
    assert stream.is_paused
    for n in range(WAITING_RESPONSES_MAX):
        server.later[b"%d" % n].set_result([b"%d" % n])
    await asyncio.sleep(0)

    assert not stream.is_paused
    assert stream.sent[-1] == b"last"
    assert len(stream.sent) == WAITING_RESPONSES_MAX + 1


async def test_a_peer_that_does_not_read_is_not_served_until_it_does() -> None:
    connection, stream, _ = connect()
    stream.backlog = BACKLOG_BYTES_MAX + 1

    receive(connection, b"now:1", b"now:2")
    assert stream.is_paused
    assert stream.sent == [b"1"]
    stream.backlog = 0
    connection.drained()

    assert stream.sent == [b"1", b"2"]
    assert not stream.is_paused


async def test_a_peer_that_does_not_read_the_response_to_one_request_is_not_read_from() -> None:
    connection, stream, _ = connect()
    stream.backlog = BACKLOG_BYTES_MAX + 1

    receive(connection, b"now:a")
    assert stream.sent == [b"a"]
    assert stream.is_paused

    stream.backlog = 0
    connection.drained()
    assert not stream.is_paused


async def test_a_peer_that_breaks_the_protocol_gets_its_earlier_responses_and_is_closed() -> None:
    connection, stream, _ = connect()

    receive(connection, b"now:1", b"bad:", b"now:2")

    assert stream.sent == [b"1"]
    assert stream.is_closed


async def test_work_for_a_peer_that_left_is_cancelled() -> None:
    connection, _, server = connect()

    receive(connection, b"later:1")
    connection.closed(None)

    assert server.later[b"1"].cancelled()
    assert server.closed == [connection]


async def test_a_bug_in_the_server_closes_the_connection_instead_of_leaving_the_peer_waiting() -> None:
    connection, stream, server = connect()

    receive(connection, b"now:1", b"bug:", b"now:2")

    assert stream.sent == [b"1"]
    assert stream.is_closed
    assert server.served == [b"now:1", b"bug:"]


async def test_a_peer_with_many_requests_does_not_starve_others() -> None:
    connection, stream, server = connect()
    server.seconds_per_request = TURN_S_MAX

    receive(connection, *[b"now:%d" % n for n in range(5)])
    assert len(stream.sent) == 2  # a peer with two requests may use up a turn, but no more
    assert stream.is_paused
    for _ in range(5):
        await asyncio.sleep(0)

    assert stream.sent == [b"%d" % n for n in range(5)]
    assert not stream.is_paused


async def test_a_request_that_holds_its_connection_completes_before_the_next_is_handled() -> None:
    connection, stream, server = connect()

    receive(connection, b"hold:1", b"now:2", b"now:3")
    assert server.served == [b"hold:1"]
    assert stream.is_paused
    server.later[b"1"].set_result([b"1"])
    await asyncio.sleep(0)

    assert stream.sent == [b"1", b"2", b"3"]
    assert not stream.is_paused


async def test_completed_work_that_held_a_connection_is_released() -> None:
    connection, _, server = connect()
    receive(connection, b"hold:1")
    held = weakref.ref(server.later[b"1"])

    server.later.pop(b"1").set_result([b"1"])
    for _ in range(3):
        await asyncio.sleep(0)

    assert held() is None


async def test_responses_that_wait_for_an_earlier_one_do_not_fill_memory() -> None:
    connection, stream, server = connect()
    large = b"x" * (WAITING_BYTES_MAX // 4)

    receive(connection, b"later:1", *[b"large:%d" % len(large)] * 20)
    assert stream.is_paused
    assert server.served == [b"later:1", *[b"large:%d" % len(large)] * 4]
    server.later[b"1"].set_result([b"1"])
    for _ in range(20):
        await asyncio.sleep(0)

    assert len(stream.sent) == 21
    assert not stream.is_paused
