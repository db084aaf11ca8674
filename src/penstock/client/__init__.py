"""The client side of the protocol: Producer, Consumer and Admin, each for asyncio and for threads.

The shared parts are here. `connection` is one connection to one broker, `transport` has one for each node, and
`cluster_client` is the client's view of the cluster; `background` is the thread of the sync clients. Decisions are made
without I/O in `cluster`, `coordinators` and the cores of `producer`, `consumer` and `group`.
"""
