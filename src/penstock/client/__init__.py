"""The client's side of the protocol: Producer, Consumer and Admin, each with an async and a sync face.

What they share stands here. `connection` is one connection to one broker, `transport` one for each node, and
`cluster_client` is all that a client knows of its cluster; `background` is the thread of the sync faces. Decisions are
made without I/O in `cluster`, `coordinators`, `backoff` and the cores of `producer`, `consumer` and `group`.
"""
