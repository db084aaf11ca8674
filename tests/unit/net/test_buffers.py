"""Buffers are reused when they have no views, and never before."""

from __future__ import annotations

from penstock.net.buffers import BUFFER_BYTES_MAX, BUFFERS_MAX, BufferPool


def test_a_buffer_with_a_view_is_not_reused() -> None:
    pool = BufferPool()
    first = pool.take(1000)
    first[:] = b"a" * 1000
    second = pool.take(1000)
    second[:] = b"b" * 1000
    assert first.tobytes() == b"a" * 1000


def test_a_slice_keeps_the_whole_buffer() -> None:
    pool = BufferPool()
    kept = pool.take(1000)[10:20]
    kept[:] = b"k" * 10
    pool.take(1000)[:] = b"x" * 1000
    assert kept.tobytes() == b"k" * 10


def test_a_buffer_without_views_is_reused() -> None:
    pool = BufferPool()
    first = pool.take(1000)
    buffer = first.obj
    del first
    assert pool.take(900).obj is buffer
    assert pool.take(1001).obj is not buffer


def test_only_a_few_are_kept_and_large_ones_replace_small_ones() -> None:
    pool = BufferPool()
    for size in range(1, BUFFERS_MAX + 10):
        pool.take(size * 1000)
    assert len(pool._buffers) <= BUFFERS_MAX
    views = [pool.take(5000) for _ in range(BUFFERS_MAX + 3)]
    assert len({id(view.obj) for view in views}) == BUFFERS_MAX + 3
    assert len(pool._buffers) <= BUFFERS_MAX


def test_a_very_large_one_is_not_kept() -> None:
    pool = BufferPool()
    pool.take(BUFFER_BYTES_MAX + 1)
    assert pool._buffers == []
