"""Streams groups (KIP-1071): the coordinator assigns tasks to the members of a Kafka Streams application."""
