"""The client's side of the protocol.

For now one module: `connection`, a single connection to a single broker that speaks any API in the newest
version that both sides know. Producer, Consumer and Admin will stand on it.
"""
