"""The data that each process sees: its shard of an epoch, where it starts, and the random state it is drawn from."""
