"""Requests and their answers: the dispatcher, fetch sessions, and one handler an API.

`broker.Broker` is the bundle that handlers work on, `handlers` says which APIs and versions are served. A
handler decides nothing that another package owns: it translates between the protocol and partitions, logs and
the controller.
"""
