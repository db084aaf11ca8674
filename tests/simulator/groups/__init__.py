"""Simulated group members, and the checks of what the group coordinator promises them."""
