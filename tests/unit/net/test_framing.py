"""Frames are returned whole, in order and unchanged, however the bytes arrive."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.net.framing import EXACT_FRAME_BYTES, ForeignProtocol, FrameReader, FrameTooLarge


def reader(*, scratch_bytes: int = 256, limit: int = 1 << 20) -> FrameReader:
    return FrameReader(memoryview(bytearray(scratch_bytes)), frame_bytes_max=limit)


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed(frames: FrameReader, data: bytes, piece_bytes: int) -> list[bytes]:
    """Pass `data` in pieces, as a socket would, and collect the frames."""
    out = []
    position = 0
    while position < len(data):
        room = frames.lend()
        assert len(room) > 0
        size = min(piece_bytes, len(room), len(data) - position)
        room[:size] = data[position : position + size]
        position += size
        frames.received(size)
        while (frame := frames.next_frame()) is not None:
            out.append(bytes(frame))
        frames.settle()
    return out


@given(
    payloads=st.lists(st.binary(max_size=600), max_size=12),
    piece_bytes=st.integers(1, 700),
    scratch_bytes=st.integers(4, 512),
)
def test_frames_come_out_as_they_went_in(payloads: list[bytes], piece_bytes: int, scratch_bytes: int) -> None:
    frames = reader(scratch_bytes=scratch_bytes)

    assert feed(frames, framed(*payloads), piece_bytes) == payloads
    assert frames.buffered_bytes == 0


def test_frames_larger_than_the_scratch_buffer_are_read_to_their_end_and_no_further() -> None:
    payloads = [bytes([n]) * (EXACT_FRAME_BYTES * 3 + n) for n in range(4)]
    frames = reader()

    assert feed(frames, framed(*payloads), 100_000) == payloads


def test_a_peer_that_announces_much_and_sends_little_gets_little_memory() -> None:
    frames = reader(limit=100 << 20)
    room = frames.lend()
    room[:8] = struct.pack(">i", 90 << 20) + b"more"
    frames.received(8)
    assert frames.next_frame() is None
    frames.settle()

    assert len(frames.lend()) <= EXACT_FRAME_BYTES


@pytest.mark.parametrize("length", [-1, -(2**31), 1025, 2**31 - 1])
def test_a_length_out_of_bounds_is_refused(length: int) -> None:
    frames = reader(limit=1024)
    frames.lend()[:4] = struct.pack(">i", length)
    frames.received(4)

    with pytest.raises(FrameTooLarge):
        frames.next_frame()


@pytest.mark.parametrize(
    ("start", "spoken"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /topics HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS"),
    ],
)
def test_another_protocol_is_called_by_its_name_and_not_by_a_length(start: bytes, spoken: str) -> None:
    frames = reader(limit=100 << 20)
    frames.lend()[: len(start)] = start
    frames.received(len(start))

    with pytest.raises(ForeignProtocol, match=f"the peer speaks {spoken}"):
        frames.next_frame()


def test_two_readers_share_one_scratch_buffer_without_mixing() -> None:
    scratch = memoryview(bytearray(64))
    left = FrameReader(scratch, frame_bytes_max=1024)
    right = FrameReader(scratch, frame_bytes_max=1024)
    data = framed(b"left-left-left")

    left.lend()[:9] = data[:9]
    left.received(9)
    assert left.next_frame() is None
    left.settle()
    assert feed(right, framed(b"right"), 64) == [b"right"]
    rest = data[9:]
    left.lend()[: len(rest)] = rest
    left.received(len(rest))

    frame = left.next_frame()
    assert frame is not None
    assert bytes(frame) == b"left-left-left"


def test_an_idle_reader_releases_its_buffer() -> None:
    frames = reader()
    feed(frames, framed(bytes(EXACT_FRAME_BYTES * 2)), 10_000)
    frames.shrink()

    assert len(frames.lend()) == 256


def test_a_frame_that_is_given_back_is_returned_again() -> None:
    frames = reader()
    data = framed(b"first", b"second", b"third")
    frames.lend()[: len(data)] = data
    frames.received(len(data))
    frames.next_frame()

    second = frames.next_frame()
    assert second is not None
    frames.give_back(second)

    assert [bytes(frame) for frame in iter(frames.next_frame, None)] == [b"second", b"third"]  # type: ignore[arg-type]


@given(
    sizes=st.lists(st.sampled_from([0, 10, 60_000, EXACT_FRAME_BYTES, 70_000, 200_000]), max_size=8),
    piece_bytes=st.sampled_from([1000, 65_536, 100_000]),
    growth=st.sampled_from([8, 1 << 30]),
)
def test_a_frame_whose_buffer_was_handed_over_is_not_overwritten(
    sizes: list[int], piece_bytes: int, growth: int
) -> None:
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    frames = FrameReader(memoryview(bytearray(EXACT_FRAME_BYTES)), frame_bytes_max=1 << 20, growth=growth)
    kept: list[bytes | memoryview] = []
    data, position = framed(*payloads), 0
    while position < len(data):
        room = frames.lend()
        size = min(piece_bytes, len(room), len(data) - position)
        room[:size] = data[position : position + size]
        position += size
        frames.received(size)
        while (frame := frames.next_frame()) is not None:
            is_kept = len(frame) > EXACT_FRAME_BYTES and frames.hand_over()
            kept.append(frame if is_kept else bytes(frame))
    assert [bytes(frame) for frame in kept] == payloads
    if growth > 8:
        assert all(isinstance(frame, memoryview) for frame in kept if len(frame) > EXACT_FRAME_BYTES)
