"""Programs that run: what they are loaded from, how they run and stop, and how others see what they do."""
