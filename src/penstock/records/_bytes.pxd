"""Shared by the compiled modules: big-endian numbers, named tuples made in C, and bytes from any buffer."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "Python.h":
    ctypedef PyObject* (*allocfunc)(PyTypeObject*, Py_ssize_t)
    ctypedef struct CPyTypeObject "PyTypeObject":
        allocfunc tp_alloc


cdef inline uint16_t load16(const uint8_t* at) noexcept nogil:
    return <uint16_t>((at[0] << 8) | at[1])


cdef inline uint32_t load32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>load16(at) << 16) | load16(at + 2)


cdef inline uint64_t load64(const uint8_t* at) noexcept nogil:
    return (<uint64_t>load32(at) << 32) | load32(at + 4)


cdef inline void store16(uint8_t* at, int64_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 8)
    at[1] = <uint8_t>value


cdef inline void store32(uint8_t* at, int64_t value) noexcept nogil:
    store16(at, value >> 16)
    store16(at + 2, value)


cdef inline void store64(uint8_t* at, int64_t value) noexcept nogil:
    store32(at, value >> 32)
    store32(at + 4, value)


cdef inline object new_tuple(object cls, Py_ssize_t size):
    """An empty instance of a named tuple, made as the interpreter makes them but without its call.

    The caller puts every item before anyone else sees it.
    """
    cdef PyObject* made = (<CPyTypeObject*>cls).tp_alloc(<PyTypeObject*>cls, size)
    if made is NULL:
        raise MemoryError
    result = <object>made
    Py_DECREF(result)  # `tp_alloc` gave one reference and the cast took another
    return result


cdef inline void put(object target, Py_ssize_t index, object item):
    """Fill an item of a tuple that is still empty."""
    Py_INCREF(item)
    PyTuple_SET_ITEM(target, index, item)


cdef inline object make_bytes(const uint8_t* data, Py_ssize_t size):
    """A copy as bytes; None if `data` is NULL."""
    if data is NULL:
        return None
    return PyBytes_FromStringAndSize(<const char*>data, size)


cdef inline object plain_bytes(object data):
    """`data` as bytes or None; other buffers, and subclasses of bytes, are copied; everything else is a TypeError."""
    cdef Py_buffer buffer
    if data is None or PyBytes_CheckExact(data):
        return data
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        return PyBytes_FromStringAndSize(<const char*>buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)
