"""Bytes between peers: frames out of a stream, sockets under it, connections over it.

`framing` decides, with no I/O, where one request ends; `sockets` moves bytes; `connection` keeps the order of
answers and stops reading from a peer that does not read its own. Nothing here knows what a request means.
"""
