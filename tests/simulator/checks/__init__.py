"""What the node has acknowledged, and the checks that it still holds."""
