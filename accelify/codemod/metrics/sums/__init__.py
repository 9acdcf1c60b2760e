"""The sums of sharded loops: where each begins at zero, what it is divided by, and how it is reduced."""
