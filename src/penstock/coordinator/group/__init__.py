"""Groups of consumers: who is a member, who reads what, and how far they have come."""
