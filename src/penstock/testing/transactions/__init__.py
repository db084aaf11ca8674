"""Transactions in simulations: clients that begin, end, vanish and come back, and the judge of what came of it."""
