"""The network layer: sockets, frames and connections.

`framing` splits a byte stream into requests, without I/O. `sockets` sends and receives bytes. `connection` keeps
responses in order, and stops reading from a peer that does not read its responses (back-pressure). Nothing here knows
the content of a request.
"""
