"""Whole clusters under faults: leader-aware clients, chaos, and checks that no single node can do."""
