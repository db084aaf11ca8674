"""Simulated transactions: clients that begin, end, crash and restart, and the checker of their history."""
