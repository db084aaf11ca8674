"""Simulated producers, consumers and administrators, over one connection type (`client`)."""
