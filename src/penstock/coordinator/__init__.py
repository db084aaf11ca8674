"""Replicated state machines: shards of state, each owned by the leader of one partition of an internal topic."""
