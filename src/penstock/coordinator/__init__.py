"""Coordinators: state that is replicated through an internal topic. The leader of each partition owns one shard."""
