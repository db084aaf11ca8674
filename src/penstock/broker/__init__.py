"""Request handling: the dispatcher, fetch sessions, and one handler per API.

Handlers use the parts of the node in `broker.Broker`; `handlers` lists the supported APIs and versions. A handler
translates between the protocol and partitions, logs and the controller, and makes no decisions of its own.
"""
